# SPDX-License-Identifier: Apache-2.0
"""What a model must do at least at given inputs: multiply-adds by the dtype that does them, and bytes.

Sizes come from the peer itself, by one run with every optimisation off of the model with a Shape
behind each value that a counted node reads or makes: so they are known of every operator, and of
sizes that data decide. Counted are products (dot products, convolutions, recurrences), two operations
a multiply-add; bytes are the weights once (of tables that Gather reads the rows that it takes),
inputs and outputs. Bodies of If, Loop and Scan are not counted.

A product is of 8-bit integers where the node says so, where both of its factors are dequantised, and
in MatMulNBits of accuracy level 4: what the model asks for, whatever an engine does.
"""
import math

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

# Where the factors stand among the inputs.
FACTORS = {"MatMul": (0, 1), "Gemm": (0, 1), "Conv": (0, 1), "ConvTranspose": (0, 1),
           "MatMulInteger": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3),
           "QLinearMatMul": (0, 3), "QGemm": (0, 3), "MatMulNBits": (0, 1), "LSTM": (0, 1, 2),
           "GRU": (0, 1, 2), "RNN": (0, 1, 2), "DynamicQuantizeLSTM": (0, 1, 2), "Gather": (0, 1)}
INTEGER = {"MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "QGemm",
           "DynamicQuantizeLSTM"}
ALIGNED = {"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"}


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def products(node, ins, out):
    """Multiply-adds of a node with factors of these sizes."""
    a, b, more = ins[0], ins[1], attributes(node)
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv"):
        return math.prod(out) * math.prod(b[1:])
    if node.op_type == "ConvTranspose":
        return math.prod(a) * math.prod(b[1:])
    if node.op_type == "MatMulNBits":
        return math.prod(out) * more["K"]
    if node.op_type in ("Gemm", "QGemm"):
        return math.prod(out) * a[0 if more.get("transA") else 1]
    if node.op_type in ALIGNED:
        return a[0] * a[1] * (math.prod(b) + math.prod(ins[2]))
    if node.op_type == "Gather":
        return 0
    return math.prod(out) * a[-1]


def is_integer(node, makers):
    if node.op_type in INTEGER:
        return True
    if node.op_type == "MatMulNBits":
        return attributes(node).get("accuracy_level", 0) == 4
    made = [makers.get(node.input[k]) for k in FACTORS[node.op_type][:2]]
    return all(made_by == "DequantizeLinear" for made_by in made)


def with_shapes(model):
    """Makes the sizes of what counted nodes touch the model's outputs: the nodes with the names of
    what they touch, and those names in the order of the outputs."""
    counted = [(node, [node.input[k] for k in FACTORS[node.op_type]] + [node.output[0]])
               for node in model.graph.node
               if node.op_type in FACTORS and node.domain in ("", "ai.onnx", "com.microsoft")]
    wanted = list(dict.fromkeys(name for _, names in counted for name in names))
    del model.graph.output[:]
    for k, name in enumerate(wanted):
        model.graph.node.append(helper.make_node("Shape", [name], [f"sizes.{k}"]))
        model.graph.output.append(
            helper.make_tensor_value_info(f"sizes.{k}", TensorProto.INT64, None))
    return counted, wanted


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


class Counter:
    """Of one file; what(inputs) for each set of inputs."""

    def __init__(self, path):
        model = onnx.load(path)
        self.weights = {t.name: math.prod(t.dims) * bits_of(t.data_type) // 8
                        for t in model.graph.initializer}
        self.makers = {out: node.op_type for node in model.graph.node for out in node.output}
        # Weights that only Gather reads, as they are or dequantised: {what it reads: the weights}.
        stored = {node.output[0]: node.input[0] for node in model.graph.node
                  if node.op_type == "DequantizeLinear"}
        rows = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
        others = {stored.get(name, name) for node in model.graph.node
                  if node.op_type not in ("Gather", "DequantizeLinear") for name in node.input}
        self.tables = {name: stored.get(name, name) for name in rows}
        self.tables = {name: weights for name, weights in self.tables.items()
                       if weights in self.weights and weights not in others}
        self.counted, self.wanted = with_shapes(model)
        self.session = session_of(model)

    def of(self, inputs, output_bytes):
        names = [i.name for i in self.session.get_inputs()]
        found = self.session.run(None, {k: inputs[k] for k in names})
        sizes = {name: [int(v) for v in array] for name, array in zip(self.wanted, found)}
        flops = {"f32": 0, "i8": 0}
        gathered = 0
        for node, names in self.counted:
            *ins, out = (sizes[name] for name in names)
            flops["i8" if is_integer(node, self.makers) else "f32"] += 2 * products(node, ins, out)
            if node.op_type == "Gather" and node.input[0] in self.tables:
                whole = self.weights[self.tables[node.input[0]]]
                gathered += min(whole, whole * math.prod(out) // max(1, math.prod(ins[0])))
        taken = set(self.tables.values())
        read = sum(size for name, size in self.weights.items() if name not in taken)
        read += gathered + sum(np.asarray(array).nbytes for array in inputs.values()) + output_bytes
        return {**flops, "bytes": int(read)}


def bits_of(dtype):
    if dtype in (TensorProto.INT4, TensorProto.UINT4):
        return 4
    return 8 * helper.tensor_dtype_to_np_dtype(dtype).itemsize


def rate_for(bytes_read, rates):
    """GB/s of the largest memory measured that is no larger than what is read."""
    below = [size for size in rates if size <= bytes_read]
    return rates[max(below) if below else min(rates)]


def times_of(counts, ceilings):
    """Of arithmetic, and of reading, each at the machine's rate."""
    return (counts["f32"] / ceilings["f32"] + counts["i8"] / ceilings["i8"],
            counts["bytes"] / rate_for(counts["bytes"], ceilings["read"]))


def floor_ms(counts, ceilings):
    """The larger of arithmetic and reading."""
    return max(times_of(counts, ceilings)) * 1e-6


def bound_of(counts, ceilings):
    """Which of the two that is."""
    arithmetic, reading = times_of(counts, ceilings)
    return "arithmetic" if arithmetic >= reading else "reading"



