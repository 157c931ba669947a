# SPDX-License-Identifier: Apache-2.0
"""U-Nets of few and of many channels: group norms as exporters write them (instance norms of
reshaped rows), SiLU, strided convolutions down, transposed ones up, skips joined by Concat."""
import math

import numpy as np

from .graph import Graph, Model, image

GROUPS = 8


def group_norm(graph, x, channels):
    rows = graph.node("Reshape", x, graph.numbers(0, GROUPS, -1))
    ones, zeros = (graph.constant(np.full(GROUPS, v, np.float32)) for v in (1, 0))
    rows = graph.node("InstanceNormalization", rows, ones, zeros, epsilon=1e-5)
    x = graph.node("Reshape", rows, graph.node("Shape", x))
    x = graph.node("Mul", x, graph.near(1.0, channels, 1, 1))
    return graph.node("Add", x, graph.near(0.0, channels, 1, 1))


def pair(graph, x, ins, outs):
    for width in (ins, outs):
        x = graph.silu(group_norm(graph, graph.conv(x, width, outs, 3), outs))
    return x


def up(graph, x, ins, outs):
    weight = graph.weight(ins, outs, 2, 2, scale=math.sqrt(1 / ins))
    return graph.node("ConvTranspose", x, weight, graph.near(0.0, outs), kernel_shape=[2, 2],
                      strides=[2, 2])


def unet(name, base, levels=4):
    graph, skips, widths = Graph(name, 8), [], [base << k for k in range(levels)]
    x = pair(graph, graph.input("image", ["batch", 3, "height", "width"]), 3, base)
    for ins, outs in zip(widths, widths[1:]):
        skips.append(x)
        x = pair(graph, graph.conv(x, ins, ins, 3, 2), ins, outs)
    for ins, outs in zip(widths[::-1], widths[-2::-1]):
        x = graph.node("Concat", up(graph, x, ins, outs), skips.pop(), axis=1)
        x = pair(graph, x, 2 * outs, outs)
    graph.output(graph.conv(x, base, 4, 1, gain=1.0), "classes", ["batch", 4, "height", "width"])
    return graph.model()


DIMS = ("batch", "height", "width")
MODELS = [
    Model("unet", "unet_16", lambda: unet("unet_16", 16), image, DIMS,
          ((1, 64, 64), (1, 128, 128), (1, 256, 256), (4, 96, 160))),
    Model("unet", "unet_64", lambda: unet("unet_64", 64), image, DIMS,
          ((1, 64, 64), (1, 128, 128), (1, 256, 192)), start=(1, 128, 128)),
]
