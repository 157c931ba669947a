# SPDX-License-Identifier: Apache-2.0
"""Residual nets of 18 and 50 layers (He et al., 2015), strides in the 3x3 as people train them."""
from .graph import Graph, Model, image


def basic(graph, x, ins, outs, stride):
    inner = graph.relu(graph.conv(x, ins, outs, 3, stride))
    inner = graph.conv(inner, outs, outs, 3, gain=0.5)
    x = graph.conv(x, ins, outs, 1, stride, gain=1.0) if stride > 1 or ins != outs else x
    return graph.relu(graph.node("Add", inner, x))


def bottleneck(graph, x, ins, outs, stride):
    width = outs // 4
    inner = graph.relu(graph.conv(x, ins, width, 1))
    inner = graph.relu(graph.conv(inner, width, width, 3, stride))
    inner = graph.conv(inner, width, outs, 1, gain=0.5)
    x = graph.conv(x, ins, outs, 1, stride, gain=1.0) if stride > 1 or ins != outs else x
    return graph.relu(graph.node("Add", inner, x))


def resnet(name, block, counts, widths):
    graph = Graph(name, 4)
    x = graph.input("image", ["batch", 3, "height", "width"])
    x = graph.relu(graph.conv(x, 3, 64, 7, 2))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    ins = 64
    for stage, (count, outs) in enumerate(zip(counts, widths)):
        for k in range(count):
            x = block(graph, x, ins, outs, 2 if k == 0 and stage > 0 else 1)
            ins = outs
    graph.output(graph.gemm(graph.pool_all(x), ins, 1000), "logits", ["batch", 1000])
    return graph.model()


DIMS = ("batch", "height", "width")
SIZES = ((1, 96, 96), (1, 224, 224), (1, 320, 256), (4, 224, 224))
MODELS = [
    Model("residual", "resnet18", lambda: resnet("resnet18", basic, (2, 2, 2, 2), (64, 128, 256, 512)),
          image, DIMS, SIZES),
    Model("residual", "resnet50",
          lambda: resnet("resnet50", bottleneck, (3, 4, 6, 3), (256, 512, 1024, 2048)), image, DIMS,
          SIZES),
]
