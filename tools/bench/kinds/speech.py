# SPDX-License-Identifier: Apache-2.0
"""An encoder of speech: two convolutions over frames of a spectrum, then a transformer."""
from .graph import Graph, Model

MELS, WIDTH, HEADS, LAYERS, LONGEST = 80, 384, 6, 4, 1500


def whisper():
    graph = Graph("whisper_384", 9)
    x = graph.input("mel", ["batch", MELS, "frames"])
    x = graph.gelu(graph.conv(x, MELS, WIDTH, (3,), (1,)))
    x = graph.gelu(graph.conv(x, WIDTH, WIDTH, (3,), (2,)))
    x = graph.node("Transpose", x, perm=[0, 2, 1])
    length = graph.node("Gather", graph.node("Shape", x), graph.numbers(1), axis=0)
    places = graph.node("Slice", graph.weight(LONGEST, WIDTH, scale=0.1), graph.numbers(0), length,
                        graph.numbers(0))
    x = graph.node("Add", x, places)
    for _ in range(LAYERS):
        x = graph.block(x, WIDTH, HEADS)
    graph.output(graph.layer_norm(x, WIDTH), "states", ["batch", "places", WIDTH])
    return graph.model()


def spectrum(rng, batch, frames):
    return {"mel": rng.standard_normal((batch, MELS, frames), "f")}


MODELS = [
    Model("speech", "whisper_384", whisper, spectrum, ("batch", "frames"),
          ((1, 100), (1, 500), (1, 3000), (4, 300))),
]
