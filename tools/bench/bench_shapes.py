# SPDX-License-Identifier: Apache-2.0
"""The twelve (batch, length) at which MiniLM is measured, by the number of tokens."""

SHAPES = [(1, 1), (1, 16), (3, 19), (1, 64), (2, 37), (1, 128), (5, 41), (4, 64), (8, 100), (16, 128),
          (32, 77), (24, 111)]
