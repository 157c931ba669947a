# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share."""

import gc
import os
import sys
import tracemalloc
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIP: no numpy: scripts/deps --python")
    sys.exit(77)


NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2])


def main():
    """Runs the tests of the program that was started."""
    result = unittest.main(module="__main__", exit=False).result
    sys.exit(0 if result.wasSuccessful() else 1)


def resident():
    """Bytes that this process has in memory."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def left(turn, turns=250):
    """Python's blocks and the process's bytes that rounds of turns leave, or None where nothing is lost. What the
    interpreter keeps by itself fills in the first rounds, of which busy machines want more; what is lost at each turn
    is lost in each round."""
    few = lambda blocks, taken: blocks < turns // 4 and taken < turns << 8
    rounds = []
    tracemalloc.start()
    while len(rounds) < 16 and not any(few(*row) for row in rounds):
        gc.collect()
        blocks, before = len(tracemalloc.take_snapshot().traces), resident()
        for _ in range(turns):
            turn()
        gc.collect()
        rounds.append((len(tracemalloc.take_snapshot().traces) - blocks, resident() - before))
    tracemalloc.stop()
    least = (min(blocks for blocks, _ in rounds), min(taken for _, taken in rounds))
    return None if few(*least) else rounds


def same(actual, expected):
    """Equal dtype, shape and bits, but for which NaN a NaN is."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    return (actual.dtype == expected.dtype and actual.shape == expected.shape
            and np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f"))
