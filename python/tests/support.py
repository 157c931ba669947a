# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share."""

import gc
import os
import sys
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


def same(actual, expected):
    """Equal dtype, shape and bits, but for which NaN a NaN is."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    return (actual.dtype == expected.dtype and actual.shape == expected.shape
            and np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f"))
