# SPDX-License-Identifier: Apache-2.0
"""Recurrent nets: a tagger of two bidirectional LSTMs, a language model of two GRUs, and a CRNN,
which reads lines of text by convolutions and then LSTMs (Shi et al., 2015)."""
import math

from onnx import TensorProto

from .graph import Graph, Model, image

WORDS = 10000


def recurrence(graph, op, x, ins, hidden, both):
    """x and the result are [length, batch, width]."""
    ways, gates = 2 if both else 1, {"LSTM": 4, "GRU": 3}[op]
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    scale = 1 / math.sqrt(hidden)
    result = graph.node(op, x, graph.weight(ways, gates * hidden, ins, scale=scale),
                        graph.weight(ways, gates * hidden, hidden, scale=scale),
                        graph.near(0.0, ways, 2 * gates * hidden), hidden_size=hidden,
                        direction="bidirectional" if both else "forward", outputs=2, **more)[0]
    if not both:
        return graph.node("Squeeze", result, graph.numbers(1))
    result = graph.node("Transpose", result, perm=[0, 2, 1, 3])
    return graph.node("Reshape", result, graph.numbers(0, 0, -1))


def words(graph, width):
    ids = graph.input("ids", ["batch", "length"], TensorProto.INT64)
    x = graph.node("Gather", graph.weight(WORDS, width), ids, axis=0)
    return graph.node("Transpose", x, perm=[1, 0, 2])


def tagger():
    graph = Graph("lstm_tagger", 10)
    x = words(graph, 256)
    x = recurrence(graph, "LSTM", x, 256, 256, True)
    x = recurrence(graph, "LSTM", x, 512, 256, True)
    x = graph.node("Transpose", x, perm=[1, 0, 2])
    graph.output(graph.linear(x, 512, 32), "tags", ["batch", "length", 32])
    return graph.model()


def language():
    graph = Graph("gru_language", 11)
    x = words(graph, 512)
    x = recurrence(graph, "GRU", x, 512, 512, False)
    x = recurrence(graph, "GRU", x, 512, 512, False)
    x = graph.node("Transpose", x, perm=[1, 0, 2])
    graph.output(graph.linear(x, 512, WORDS), "logits", ["batch", "length", WORDS])
    return graph.model()


def crnn():
    graph = Graph("crnn", 12)
    x, ins = graph.input("image", ["batch", 1, 32, "width"]), 1
    plan = [(64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1))]
    for outs, pool in plan:
        x, ins = graph.relu(graph.conv(x, ins, outs, 3)), outs
        x = graph.node("MaxPool", x, kernel_shape=list(pool), strides=list(pool)) if pool else x
    x = graph.relu(graph.conv(x, ins, 512, 2, padding=0))
    x = graph.node("Transpose", graph.node("Squeeze", x, graph.numbers(2)), perm=[2, 0, 1])
    x = recurrence(graph, "LSTM", x, 512, 256, True)
    x = recurrence(graph, "LSTM", x, 512, 256, True)
    graph.output(graph.linear(x, 512, 97), "letters", ["places", "batch", 97])
    return graph.model()


def tokens(rng, batch, length):
    return {"ids": rng.integers(0, WORDS, (batch, length))}


def line(rng, batch, width):
    return image(rng, batch, 32, width, 1)


LENGTHS = ((1, 8), (1, 64), (8, 32), (32, 64))
MODELS = [
    Model("recurrent", "lstm_tagger", tagger, tokens, ("batch", "length"), LENGTHS),
    Model("recurrent", "gru_language", language, tokens, ("batch", "length"), LENGTHS),
    Model("recurrent", "crnn", crnn, line, ("batch", "width"), ((1, 64), (1, 160), (1, 400), (8, 160))),
]
