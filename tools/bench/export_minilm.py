#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes all-MiniLM-L6-v2 as ONNX files for the peer: token ids and mask in, sentence embeddings out.

The graph is what an exporter of PyTorch gives at opset 17, in its cheapest form: attention as
MatMul, Div, Add, Softmax, MatMul; GELU by Erf; LayerNormalization as one node; heads are split by
Reshape with constant sizes, so that no arithmetic on shapes is left to run at a call. Batch and
length are dynamic.

  export_minilm.py --model DIR --out OUT     # OUT/plain.onnx and OUT/fused.onnx

plain.onnx is that graph; fused.onnx is what the peer's own transformer optimizer makes of it
(attention, skip layer norm and bias-GELU nodes). Which of them is faster is for the benchmark to
measure.

Exit codes: 0 both files are written, 1 something failed, 2 wrong usage.
"""
import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "minilm"))
import reference  # noqa: E402  (the weights' reader and generator)

OPSET = 17


class Graph:
    """Collects nodes and initializers; every method returns the name of its result."""

    def __init__(self, weights, config):
        self.weights, self.config = weights, config
        self.nodes, self.initializers, self.known = [], [], {}

    def node(self, op, *inputs, **attributes):
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name, array):
        if name not in self.known:
            self.known[name] = True
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def numbers(self, name, values, dtype=np.int64):
        return self.constant(name, np.array(values, dtype))

    def weight(self, name, transposed=False):
        array = self.weights[name]
        return self.constant(name + (".T" if transposed else ""), array.T if transposed else array)

    # ---- Parts of the model ---------------------------------------------------------------------

    def linear(self, x, name):
        product = self.node("MatMul", x, self.weight(name + ".weight", transposed=True))
        return self.node("Add", self.weight(name + ".bias"), product)

    def layer_norm(self, x, name):
        return self.node("LayerNormalization", x, self.weight(name + ".weight"),
                         self.weight(name + ".bias"), axis=-1,
                         epsilon=float(self.config["layer_norm_eps"]))

    def gelu(self, x):
        scaled = self.node("Div", x, self.numbers("sqrt_2", np.sqrt(2.0), np.float32))
        one_plus = self.node("Add", self.node("Erf", scaled), self.numbers("one", 1.0, np.float32))
        return self.node("Mul", self.node("Mul", x, one_plus), self.numbers("half", 0.5, np.float32))

    def embeddings(self, ids):
        words = self.node("Gather", self.weight("embeddings.word_embeddings.weight"), ids, axis=0)
        length = self.node("Gather", self.node("Shape", ids), self.numbers("axes_1", [1]), axis=0)
        positions = self.node("Slice", self.weight("embeddings.position_embeddings.weight"),
                              self.numbers("start_0", [0]), length, self.numbers("axes_0", [0]))
        kind = self.constant("embeddings.token_type_embeddings.weight.0",
                             self.weights["embeddings.token_type_embeddings.weight"][0])
        x = self.node("Add", self.node("Add", words, kind), positions)
        return self.layer_norm(x, "embeddings.LayerNorm")

    def mask_bias(self, mask):
        wide = self.node("Unsqueeze", mask, self.numbers("axes_1", [1]))
        wide = self.node("Unsqueeze", wide, self.numbers("axes_2", [2]))
        keep = self.node("Cast", wide, to=TensorProto.FLOAT)
        drop = self.node("Sub", self.numbers("one", 1.0, np.float32), keep)
        return self.node("Mul", drop,
                         self.numbers("lowest", np.finfo(np.float32).min, np.float32))

    def heads(self, x, permutation):
        heads = self.config["num_attention_heads"]
        sizes = self.numbers("split", [0, 0, heads, self.config["hidden_size"] // heads])
        return self.node("Transpose", self.node("Reshape", x, sizes), perm=permutation)

    def attention(self, x, bias, layer):
        query = self.heads(self.linear(x, layer + "attention.self.query"), [0, 2, 1, 3])
        key = self.heads(self.linear(x, layer + "attention.self.key"), [0, 2, 3, 1])
        value = self.heads(self.linear(x, layer + "attention.self.value"), [0, 2, 1, 3])
        width = self.config["hidden_size"] // self.config["num_attention_heads"]
        scores = self.node("Div", self.node("MatMul", query, key),
                           self.numbers("sqrt_width", np.sqrt(width), np.float32))
        shares = self.node("Softmax", self.node("Add", scores, bias), axis=-1)
        context = self.node("Transpose", self.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = self.node("Reshape", context, self.numbers("join", [0, 0, self.config["hidden_size"]]))
        return self.linear(joined, layer + "attention.output.dense")

    def layer(self, x, bias, layer):
        attended = self.attention(x, bias, layer)
        x = self.layer_norm(self.node("Add", attended, x), layer + "attention.output.LayerNorm")
        inner = self.gelu(self.linear(x, layer + "intermediate.dense"))
        outer = self.linear(inner, layer + "output.dense")
        return self.layer_norm(self.node("Add", outer, x), layer + "output.LayerNorm")

    def pool(self, x, mask):
        keep = self.node("Cast", mask, to=TensorProto.FLOAT)
        keep = self.node("Unsqueeze", keep, self.numbers("axes_2", [2]))
        over_length = self.numbers("axes_1", [1])
        total = self.node("ReduceSum", self.node("Mul", x, keep), over_length, keepdims=0)
        count = self.node("ReduceSum", keep, over_length, keepdims=0)
        mean = self.node("Div", total, self.node("Max", count, self.numbers("tiny", 1e-9, np.float32)))
        norm = self.node("ReduceL2", mean, axes=[1], keepdims=1)
        return self.node("Div", mean, self.node("Max", norm, self.numbers("tiny_norm", 1e-12, np.float32)))


def build(weights, config):
    graph = Graph(weights, config)
    x = graph.embeddings("ids")
    bias = graph.mask_bias("mask")
    for index in range(config["num_hidden_layers"]):
        x = graph.layer(x, bias, f"encoder.layer.{index}.")
    graph.nodes.append(helper.make_node("Identity", [graph.pool(x, "mask")], ["embeddings"]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
              for name in ("ids", "mask")]
    output = helper.make_tensor_value_info("embeddings", TensorProto.FLOAT,
                                           ["batch", config["hidden_size"]])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "minilm", inputs, [output], graph.initializers),
        opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="pytorch")
    onnx.checker.check_model(model, full_check=True)
    return model


def fuse(plain, fused, config):
    """The peer's own optimizer as its documentation uses it for BERT: the runtime's basic rewrites
    first, saved as a file, then the fusions."""
    import onnxruntime
    from onnxruntime.transformers import optimizer
    basic = fused.with_name("basic.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(basic)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(plain), options, providers=["CPUExecutionProvider"])
    # Level 0: the basic level has been run above (level 1 would want PyTorch only to do the same).
    model = optimizer.optimize_model(str(basic), model_type="bert",
                                     num_heads=config["num_attention_heads"],
                                     hidden_size=config["hidden_size"], opt_level=0, use_gpu=False)
    model.save_model_to_file(str(fused))
    basic.unlink()
    return {op: count for op, count in model.get_fused_operator_statistics().items() if count}


def load(model_dir):
    """(weights, config): of the folder, or seeded without one."""
    config = dict(reference.CONFIG)
    if model_dir is None:
        return reference.seeded_weights(config), config
    with open(f"{model_dir}/config.json", encoding="utf-8") as file:
        config.update(json.load(file))
    return reference.read_safetensors(f"{model_dir}/model.safetensors"), config


def export(model_dir, out):
    """Writes both files into the folder `out`; returns their paths and the fused nodes' counts."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    weights, config = load(model_dir)
    plain, fused = out / "plain.onnx", out / "fused.onnx"
    onnx.save(build(weights, config), str(plain))
    return plain, fused, fuse(plain, fused, config)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", metavar="DIR", help="folder with model.safetensors, config.json")
    source.add_argument("--seeded", action="store_true", help="the weights of `minilm --seeded`")
    parser.add_argument("--out", required=True, help="folder for plain.onnx and fused.onnx")
    arguments = parser.parse_args()
    plain, fused, counts = export(arguments.model, arguments.out)
    print(f"{plain}: {plain.stat().st_size} bytes\n{fused}: {fused.stat().st_size} bytes, {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
