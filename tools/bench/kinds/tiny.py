# SPDX-License-Identifier: Apache-2.0
"""A model that is done in microseconds, for the test of the tools."""
import numpy as np

from .graph import Graph, Model


def tiny():
    graph = Graph("tiny", 14)
    x = graph.input("x", ["batch", 16])
    x = graph.relu(graph.linear(x, 16, 32))
    graph.output(graph.linear(x, 32, 8), "y", ["batch", 8])
    return graph.model()


def rows(rng, batch):
    return {"x": rng.standard_normal((batch, 16), np.float32)}


MODELS = [Model("tiny", "tiny", tiny, rows, ("batch",), ((1,), (3,)), start=(1,))]
