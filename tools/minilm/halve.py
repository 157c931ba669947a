#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies a safetensors file of f32 weights with each of them rounded to f16, which halves it.

usage: halve.py FROM TO
Tensors of other dtypes, and the pooler that sentence embeddings do not use, are left out.
"""
import json
import struct
import sys

CHUNK = 1 << 18  # elements


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], "rb") as file:
        data = memoryview(file.read())
    length = struct.unpack_from("<Q", data)[0]
    header, begin = json.loads(bytes(data[8:8 + length])), 8 + length
    made, parts, at = {}, [], 0
    for name, info in header.items():
        if info.get("dtype") != "F32" or name.startswith("pooler."):
            continue
        first, last = (begin + offset for offset in info["data_offsets"])
        size = (last - first) // 2
        made[name] = {"dtype": "F16", "shape": info["shape"], "data_offsets": [at, at + size]}
        parts.append((first, last))
        at += size
    text = json.dumps(made).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[2], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for first, last in parts:
            for start in range(first, last, 4 * CHUNK):
                values = data[start:min(last, start + 4 * CHUNK)].cast("f")
                file.write(struct.pack(f"<{len(values)}e", *values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
