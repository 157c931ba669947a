# SPDX-License-Identifier: Apache-2.0
"""Encoders of text: ids and mask in, states and a pooled row out."""
import numpy as np
from onnx import TensorProto

from .graph import Graph, Model

WORDS, LONGEST = 30522, 512


def encoder(name, width, heads, layers):
    graph = Graph(name, 1)
    ids = graph.input("ids", ["batch", "length"], TensorProto.INT64)
    mask = graph.input("mask", ["batch", "length"], TensorProto.INT64)
    words = graph.node("Gather", graph.weight(WORDS, width, scale=0.5), ids, axis=0)
    length = graph.node("Gather", graph.node("Shape", ids), graph.numbers(1), axis=0)
    places = graph.node("Slice", graph.weight(LONGEST, width, scale=0.5), graph.numbers(0), length,
                        graph.numbers(0))
    x = graph.layer_norm(graph.node("Add", words, places), width)
    wide = graph.node("Cast", graph.node("Unsqueeze", mask, graph.numbers(1, 2)),
                      to=TensorProto.FLOAT)
    bias = graph.node("Mul", graph.node("Sub", graph.number(1.0), wide), graph.number(-10000.0))
    for _ in range(layers):
        x = graph.layer_norm(graph.node("Add", x, graph.attention(x, width, heads, bias)), width)
        x = graph.layer_norm(graph.node("Add", x, graph.feed_forward(x, width, 4 * width)), width)
    first = graph.node("Gather", x, graph.number(0, np.int64), axis=1)
    graph.output(x, "states", ["batch", "length", width])
    graph.output(graph.node("Tanh", graph.gemm(first, width, width)), "pooled", ["batch", width])
    return graph.model()


def sentences(rng, batch, length):
    lengths = rng.integers(length // 2 + 1, length + 1, (batch, 1))
    return {"ids": rng.integers(0, WORDS, (batch, length)),
            "mask": (np.arange(length)[None] < lengths).astype(np.int64)}


MODELS = [
    Model("encoder", "encoder_384", lambda: encoder("encoder_384", 384, 12, 6), sentences,
          ("batch", "length"), ((1, 8), (1, 32), (1, 128), (8, 64), (16, 128))),
    Model("encoder", "encoder_768", lambda: encoder("encoder_768", 768, 12, 12), sentences,
          ("batch", "length"), ((1, 8), (1, 64), (1, 384), (8, 64)), start=(1, 64)),
]
