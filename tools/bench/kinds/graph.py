# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX graphs as exporters do, with seeded weights and named dims; what a row of the table is.

Every method of Graph that makes a node returns the name of its result. Weights are drawn so that
values keep their size from layer to layer: variance 2 / fan-in before ReLU and the like, else
1 / fan-in. Batch norms behind convolutions are folded into them, as exporters do for inference.
"""
import dataclasses
import math
import typing

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8


@dataclasses.dataclass(frozen=True)
class Model:
    """A row of the table: a model of a kind, and the sizes at which it is measured."""
    kind: str
    name: str
    build: typing.Callable              # () -> onnx.ModelProto
    inputs: typing.Callable             # (rng, *sizes) -> {name: array}
    dims: tuple                         # names of the sizes, as the graph has them
    sizes: tuple                        # rows from small to large
    start: tuple = ()                   # sizes at which `scripts/bench start` opens it
    variants: tuple = ("dynamic", "qdq", "qoperator", "nbits4", "nbits8")
    peer_fails: str = ""                # what onnxruntime cannot do with it, or ""
    path: str = ""                      # a file that is there already, instead of build


class Graph:
    def __init__(self, name, seed):
        self.name, self.rng = name, np.random.default_rng(seed)
        self.nodes, self.initializers, self.known = [], [], {}
        self.inputs, self.outputs = [], []

    # ---- Values ---------------------------------------------------------------------------------

    def node(self, op, *inputs, outputs=1, **attributes):
        name = f"{op.lower()}_{len(self.nodes)}"
        names = [name] if outputs == 1 else [f"{name}.{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=name, **attributes))
        return name if outputs == 1 else names

    def constant(self, array, name=None):
        """An initializer; small ones of equal content are one."""
        array = np.array(array, order="C")
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
        if key and not name and key in self.known:
            return self.known[key]
        name = name or f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        if key:
            self.known[key] = name
        return name

    def numbers(self, *values):
        return self.constant(np.array(values, np.int64))

    def number(self, value, dtype=np.float32):
        return self.constant(np.array(value, dtype))

    def weight(self, *sizes, scale=1.0):
        return self.constant(np.float32(scale) * self.rng.standard_normal(sizes, np.float32),
                             f"weight_{len(self.initializers)}")

    def near(self, value, *sizes):
        """A weight whose elements lie around `value`: biases and scales of norms."""
        array = value + 0.05 * self.rng.standard_normal(sizes, np.float32)
        return self.constant(array.astype(np.float32), f"weight_{len(self.initializers)}")

    def input(self, name, dims, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, value, name, dims, dtype=TensorProto.FLOAT):
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"identity_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, dims))

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs,
                                  self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                                  ir_version=IR_VERSION, producer_name="ductile-bench")
        onnx.checker.check_model(model)
        return model

    # ---- Layers ---------------------------------------------------------------------------------

    def linear(self, x, rows, columns, gain=1.0, bias=True):
        product = self.node("MatMul", x, self.weight(rows, columns, scale=math.sqrt(gain / rows)))
        return self.node("Add", product, self.near(0.0, columns)) if bias else product

    def layer_norm(self, x, width):
        return self.node("LayerNormalization", x, self.near(1.0, width), self.near(0.0, width),
                         axis=-1, epsilon=1e-5)

    def gelu(self, x):
        one_plus = self.node("Add", self.node("Erf", self.node("Div", x, self.number(math.sqrt(2)))),
                             self.number(1.0))
        return self.node("Mul", self.node("Mul", x, one_plus), self.number(0.5))

    def silu(self, x):
        return self.node("Mul", x, self.node("Sigmoid", x))

    def hard_swish(self, x):
        return self.node("HardSwish", x)

    def relu(self, x):
        return self.node("Relu", x)

    def conv(self, x, ins, outs, kernel, stride=1, groups=1, padding=None, gain=2.0):
        kernels = (kernel,) * 2 if isinstance(kernel, int) else kernel
        strides = (stride,) * 2 if isinstance(stride, int) else stride
        pads = [(k - 1) // 2 for k in kernels] if padding is None else [padding] * len(kernels)
        fan = ins // groups * math.prod(kernels)
        weight = self.weight(outs, ins // groups, *kernels, scale=math.sqrt(gain / fan))
        return self.node("Conv", x, weight, self.near(0.0, outs), kernel_shape=list(kernels),
                         strides=list(strides)[:len(kernels)], pads=pads * 2, group=groups,
                         dilations=[1] * len(kernels))

    def batch_norm(self, x, channels):
        variance = self.constant(1 + 0.1 * self.rng.random(channels, np.float32),
                                 f"weight_{len(self.initializers)}")
        return self.node("BatchNormalization", x, self.near(1.0, channels), self.near(0.0, channels),
                         self.near(0.0, channels), variance, epsilon=1e-5)

    def pool_all(self, x, flat=True):
        pooled = self.node("GlobalAveragePool", x)
        return self.node("Flatten", pooled, axis=1) if flat else pooled

    def gemm(self, x, rows, columns):
        weight = self.weight(columns, rows, scale=math.sqrt(1 / rows))
        return self.node("Gemm", x, weight, self.near(0.0, columns), transB=1)

    # ---- Attention ------------------------------------------------------------------------------

    def heads(self, x, heads, width, permutation=(0, 2, 1, 3)):
        split = self.node("Reshape", x, self.numbers(0, 0, heads, width // heads))
        return self.node("Transpose", split, perm=list(permutation))

    def attend(self, query, key_transposed, value, width, heads, bias=None):
        """Scores, softmax, context, joined; the heads are split already."""
        scores = self.node("MatMul", query, key_transposed)
        scores = self.node("Div", scores, self.number(math.sqrt(width // heads)))
        scores = self.node("Add", scores, bias) if bias else scores
        context = self.node("MatMul", self.node("Softmax", scores, axis=-1), value)
        context = self.node("Transpose", context, perm=[0, 2, 1, 3])
        return self.node("Reshape", context, self.numbers(0, 0, width))

    def attention(self, x, width, heads, bias=None):
        query = self.heads(self.linear(x, width, width), heads, width)
        key = self.heads(self.linear(x, width, width), heads, width, (0, 2, 3, 1))
        value = self.heads(self.linear(x, width, width), heads, width)
        return self.linear(self.attend(query, key, value, width, heads, bias), width, width)

    def feed_forward(self, x, width, inner):
        return self.linear(self.gelu(self.linear(x, width, inner, 2.0)), inner, width)

    def block(self, x, width, heads):
        """Norms first, as ViT and Whisper have them."""
        x = self.node("Add", x, self.attention(self.layer_norm(x, width), width, heads))
        return self.node("Add", x, self.feed_forward(self.layer_norm(x, width), width, 4 * width))


def image(rng, batch, height=224, width=224, channels=3, name="image"):
    return {name: rng.standard_normal((batch, channels, height, width), np.float32)}
