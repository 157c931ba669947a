# SPDX-License-Identifier: Apache-2.0
"""A ranker as DLRM (Naumov et al., 2019): bags of embeddings, an MLP over numbers, products of all
pairs, an MLP to a score."""
import numpy as np
from onnx import TensorProto

from .graph import Graph, Model

TABLES, ROWS, WIDTH, NUMBERS = 26, 20000, 64, 13


def layers(graph, x, widths):
    for ins, outs in zip(widths, widths[1:]):
        x = graph.relu(graph.node("Gemm", x, graph.weight(outs, ins, scale=(2 / ins) ** 0.5),
                                  graph.near(0.0, outs), transB=1))
    return x


def ranker():
    graph, rows = Graph("ranker", 13), []
    dense = layers(graph, graph.input("numbers", ["batch", NUMBERS]), (NUMBERS, 512, 256, WIDTH))
    rows.append(graph.node("Unsqueeze", dense, graph.numbers(1)))
    for table in range(TABLES):
        ids = graph.input(f"ids_{table}", ["batch", "bag"], TensorProto.INT64)
        found = graph.node("Gather", graph.weight(ROWS, WIDTH, scale=0.3), ids, axis=0)
        rows.append(graph.node("ReduceSum", found, graph.numbers(1), keepdims=1))
    x = graph.node("Concat", *rows, axis=1)
    pairs = graph.node("MatMul", x, graph.node("Transpose", x, perm=[0, 2, 1]))
    many = TABLES + 1
    flat = graph.node("Reshape", pairs, graph.numbers(0, many * many))
    below = np.array([i * many + j for i in range(many) for j in range(i)], np.int64)
    picked = graph.node("Gather", flat, graph.constant(below, "below"), axis=1)
    x = graph.node("Concat", dense, picked, axis=1)
    x = layers(graph, x, (WIDTH + len(below), 512, 256))
    graph.output(graph.node("Sigmoid", graph.gemm(x, 256, 1)), "score", ["batch", 1])
    return graph.model()


def bags(rng, batch, bag):
    sets = {"numbers": rng.standard_normal((batch, NUMBERS), np.float32)}
    return sets | {f"ids_{k}": rng.integers(0, ROWS, (batch, bag)) for k in range(TABLES)}


MODELS = [
    Model("ranker", "ranker", ranker, bags, ("batch", "bag"), ((1, 4), (16, 4), (128, 4), (1024, 4))),
]
