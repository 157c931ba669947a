# SPDX-License-Identifier: Apache-2.0
"""Transformers over patches of 16 x 16 of an image of 224 x 224 (places have learned rows)."""
import numpy as np

from .graph import Graph, Model, image

PATCHES = 14 * 14


def vit(name, width, heads, layers):
    graph = Graph(name, 3)
    x = graph.conv(graph.input("image", ["batch", 3, 224, 224]), 3, width, 16, 16, padding=0, gain=1.0)
    x = graph.node("Reshape", x, graph.numbers(0, width, PATCHES))
    x = graph.node("Transpose", x, perm=[0, 2, 1])
    batch = graph.node("Gather", graph.node("Shape", x), graph.numbers(0), axis=0)
    sizes = graph.node("Concat", batch, graph.numbers(1, width), axis=0)
    token = graph.node("Expand", graph.weight(1, 1, width), sizes)
    x = graph.node("Concat", token, x, axis=1)
    x = graph.node("Add", x, graph.weight(1, PATCHES + 1, width, scale=0.5))
    for _ in range(layers):
        x = graph.block(x, width, heads)
    first = graph.node("Gather", graph.layer_norm(x, width), graph.number(0, np.int64), axis=1)
    graph.output(graph.gemm(first, width, 1000), "logits", ["batch", 1000])
    return graph.model()


MODELS = [
    Model("vit", "vit_192", lambda: vit("vit_192", 192, 3, 12), image, ("batch",), ((1,), (2,), (8,))),
    Model("vit", "vit_768", lambda: vit("vit_768", 768, 12, 12), image, ("batch",), ((1,), (2,)),
          start=(1,)),
]
