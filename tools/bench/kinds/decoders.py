# SPDX-License-Identifier: Apache-2.0
"""A step of a decoder: one new token a row, keys and values of those before, and both longer by one."""
import numpy as np
from onnx import TensorProto

from .graph import Graph, Model

WORDS, LONGEST, WIDTH, HEADS, LAYERS = 16384, 4096, 768, 12, 12


def decoder():
    graph = Graph("decoder_768", 2)
    ids = graph.input("ids", ["batch", 1], TensorProto.INT64)
    place = graph.input("place", ["batch", 1], TensorProto.INT64)
    x = graph.node("Add", graph.node("Gather", graph.weight(WORDS, WIDTH, scale=0.5), ids, axis=0),
                   graph.node("Gather", graph.weight(LONGEST, WIDTH, scale=0.5), place, axis=0))
    for layer in range(LAYERS):
        past = {kind: graph.input(f"past.{layer}.{kind}", ["batch", HEADS, "past", WIDTH // HEADS])
                for kind in ("key", "value")}
        all_three = graph.linear(graph.layer_norm(x, WIDTH), WIDTH, 3 * WIDTH)
        query, key, value = graph.node("Split", all_three, graph.numbers(WIDTH, WIDTH, WIDTH),
                                       axis=-1, outputs=3)
        query, key, value = (graph.heads(part, HEADS, WIDTH) for part in (query, key, value))
        key = graph.node("Concat", past["key"], key, axis=2)
        value = graph.node("Concat", past["value"], value, axis=2)
        for kind, now in (("key", key), ("value", value)):
            graph.output(now, f"present.{layer}.{kind}", ["batch", HEADS, "all", WIDTH // HEADS])
        turned = graph.node("Transpose", key, perm=[0, 1, 3, 2])
        mixed = graph.attend(query, turned, value, WIDTH, HEADS)
        x = graph.node("Add", x, graph.linear(mixed, WIDTH, WIDTH))
        x = graph.node("Add", x, graph.feed_forward(graph.layer_norm(x, WIDTH), WIDTH, 4 * WIDTH))
    logits = graph.linear(graph.layer_norm(x, WIDTH), WIDTH, WORDS, bias=False)
    graph.output(logits, "logits", ["batch", 1, WORDS])
    return graph.model()


def step(rng, batch, past):
    sets = {"ids": rng.integers(0, WORDS, (batch, 1)), "place": np.full((batch, 1), past, np.int64)}
    for layer in range(LAYERS):
        for kind in ("key", "value"):
            sets[f"past.{layer}.{kind}"] = rng.standard_normal(
                (batch, HEADS, past, WIDTH // HEADS), np.float32)
    return sets


MODELS = [
    Model("decoder", "decoder_768", decoder, step, ("batch", "past"),
          ((1, 16), (1, 512), (1, 2048), (4, 256), (8, 128), (16, 128)), start=(1, 128)),
]
