# SPDX-License-Identifier: Apache-2.0
"""DenseNet121 (Huang et al., 2016): norms stand before convolutions, so that exporters keep them."""
from .graph import Graph, Model, image

GROWTH, COUNTS = 32, (6, 12, 24, 16)


def densenet():
    graph, channels = Graph("densenet121", 7), 64
    x = graph.input("image", ["batch", 3, "height", "width"])
    x = graph.relu(graph.conv(x, 3, 64, 7, 2))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, count in enumerate(COUNTS):
        for _ in range(count):
            y = graph.relu(graph.batch_norm(x, channels))
            y = graph.relu(graph.conv(y, channels, 4 * GROWTH, 1))
            y = graph.conv(y, 4 * GROWTH, GROWTH, 3)
            x = graph.node("Concat", x, y, axis=1)
            channels += GROWTH
        if stage + 1 < len(COUNTS):
            y = graph.relu(graph.batch_norm(x, channels))
            x = graph.node("AveragePool", graph.conv(y, channels, channels // 2, 1),
                           kernel_shape=[2, 2], strides=[2, 2])
            channels //= 2
    x = graph.pool_all(graph.relu(graph.batch_norm(x, channels)))
    graph.output(graph.gemm(x, channels, 1000), "logits", ["batch", 1000])
    return graph.model()


MODELS = [
    Model("dense", "densenet121", densenet, image, ("batch", "height", "width"),
          ((1, 96, 96), (1, 224, 224), (4, 224, 224)), start=(1, 224, 224)),
]
