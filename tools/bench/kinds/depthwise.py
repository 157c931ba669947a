# SPDX-License-Identifier: Apache-2.0
"""Inverted bottlenecks with depthwise windows and squeeze-excite: MobileNetV3-large (Howard et al.,
2019) and EfficientNet-B0 (Tan and Le, 2019), their published tables of layers."""
from .graph import Graph, Model, image

# kernel, inner width, width, squeeze-excite, hard swish (else ReLU), stride
MOBILENET = [(3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2),
             (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2),
             (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
             (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2),
             (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1)]
# expansion, kernel, stride, width, repeats
EFFICIENTNET = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]


def squeeze(graph, x, channels, narrow, first, second):
    share = graph.node("GlobalAveragePool", x)
    share = first(graph.conv(share, channels, narrow, 1))
    share = second(graph.conv(share, narrow, channels, 1, gain=1.0))
    return graph.node("Mul", x, share)


def inverted(graph, x, ins, inner, outs, kernel, stride, act, excite):
    y = act(graph.conv(x, ins, inner, 1)) if inner != ins else x
    y = act(graph.conv(y, inner, inner, kernel, stride, inner))
    y = excite(y) if excite else y
    y = graph.conv(y, inner, outs, 1, gain=1.0)
    return graph.node("Add", x, y) if stride == 1 and ins == outs else y


def mobilenet():
    graph, ins = Graph("mobilenet_v3_large", 5), 16
    x = graph.input("image", ["batch", 3, "height", "width"])
    x = graph.hard_swish(graph.conv(x, 3, 16, 3, 2))
    for kernel, inner, outs, excited, swish, stride in MOBILENET:
        act = graph.hard_swish if swish else graph.relu
        narrow = (inner // 4 + 4) // 8 * 8

        def excite(y, inner=inner, narrow=narrow):
            return squeeze(graph, y, inner, narrow, graph.relu,
                           lambda share: graph.node("HardSigmoid", share, alpha=1 / 6, beta=0.5))

        x = inverted(graph, x, ins, inner, outs, kernel, stride, act, excite if excited else None)
        ins = outs
    x = graph.hard_swish(graph.conv(x, ins, 960, 1))
    x = graph.hard_swish(graph.gemm(graph.pool_all(x), 960, 1280))
    graph.output(graph.gemm(x, 1280, 1000), "logits", ["batch", 1000])
    return graph.model()


def efficientnet():
    graph, ins = Graph("efficientnet_b0", 6), 32
    x = graph.input("image", ["batch", 3, "height", "width"])
    x = graph.silu(graph.conv(x, 3, 32, 3, 2))
    for expansion, kernel, first_stride, outs, repeats in EFFICIENTNET:
        for k in range(repeats):
            inner, narrow = ins * expansion, max(1, ins // 4)

            def excite(y, inner=inner, narrow=narrow):
                return squeeze(graph, y, inner, narrow, graph.silu,
                               lambda share: graph.node("Sigmoid", share))

            x = inverted(graph, x, ins, inner, outs, kernel, first_stride if k == 0 else 1,
                         graph.silu, excite)
            ins = outs
    x = graph.pool_all(graph.silu(graph.conv(x, ins, 1280, 1)))
    graph.output(graph.gemm(x, 1280, 1000), "logits", ["batch", 1000])
    return graph.model()


DIMS = ("batch", "height", "width")
SIZES = ((1, 96, 96), (1, 224, 224), (1, 320, 256), (8, 224, 224))
MODELS = [
    Model("depthwise", "mobilenet_v3_large", mobilenet, image, DIMS, SIZES, start=(1, 224, 224)),
    Model("depthwise", "efficientnet_b0", efficientnet, image, DIMS, SIZES, start=(1, 224, 224)),
]
