# SPDX-License-Identifier: Apache-2.0
"""Single products whose weights take few bytes, beside onnxruntime and Ductile's own f32, by turns.

  bench_weights.py [--library FILE] [--sizes KxN,…] [--rows M,…] [--forms FORM,…] [--rounds N]

A form is f32, bf16 or f16 (weights of which a Cast makes f32), or bits/block with a letter for each
of z (zero points) and i (accuracy level 4: products of integers): 4/32, 8/128zi. JSON lines:
processor microseconds of a call, medians of interleaved turns, one thread; the peer's (not of
halves); Ductile's f32; the difference from float64 (root mean square over the answer's); and the
share of the rate at which as many bytes are read as the weights have.
"""
import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kinds.child import Peer  # noqa: E402
from kinds.library import Function, Library  # noqa: E402

TURN_S = 0.05
HALVES = {"bf16": (bfloat16, TensorProto.BFLOAT16), "f16": (np.float16, TensorProto.FLOAT16)}


def halves(name, w):
    dtype, number = HALVES[name]
    held = w.astype(dtype)
    tensor = helper.make_tensor("h", number, w.shape, held.tobytes(), raw=True)
    nodes = [helper.make_node("Cast", ["h"], ["w"], to=TensorProto.FLOAT),
             helper.make_node("MatMul", ["x", "w"], ["y"])]
    return nodes, [tensor], held.astype(np.float32), held.nbytes


def pack(codes, bits):
    """The last dim's codes, `8 / bits` a byte, the first in the lowest bits."""
    per = 8 // bits
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % per)])
    parts = codes.reshape(*codes.shape[:-1], -1, per).astype(np.uint16) << (np.arange(per) * bits)
    return parts.sum(-1).astype(np.uint8)


def blocks(form, w):
    bits, rest = form.split("/")
    zeros, integers = "z" in rest, "i" in rest
    bits, block = int(bits), int(rest.rstrip("zi"))
    k, n = w.shape
    count = -(-k // block)
    cut = np.pad(w.T, ((0, 0), (0, count * block - k))).reshape(n, count, block)
    top, middle = 2 ** bits - 1, 2 ** (bits - 1)
    low, high = cut.min(-1), cut.max(-1)
    scale = ((high - low) / top if zeros else np.abs(cut).max(-1) / (middle - 0.5)).astype(np.float32)
    zero = np.clip(np.rint(-low / scale), 0, top) if zeros else np.full_like(low, middle)
    codes = np.clip(np.rint(cut / scale[..., None]) + zero[..., None], 0, top)
    tensors = [numpy_helper.from_array(pack(codes, bits), "q"), numpy_helper.from_array(scale, "s")]
    if zeros:
        tensors.append(numpy_helper.from_array(pack(zero, bits), "z"))
    node = helper.make_node("MatMulNBits", ["x", "q", "s"] + (["z"] if zeros else []), ["y"],
                            domain="com.microsoft", K=k, N=n, bits=bits, block_size=block,
                            accuracy_level=4 if integers else 0)
    plain = ((codes - zero[..., None]) * scale[..., None]).reshape(n, -1)[:, :k].T
    return [node], tensors, plain, sum(len(t.raw_data) for t in tensors)


def write(form, w, path):
    if form == "f32":
        made = [helper.make_node("MatMul", ["x", "w"], ["y"])], [numpy_helper.from_array(w, "w")], w, w.nbytes
    else:
        made = halves(form, w) if form in HALVES else blocks(form, w)
    nodes, tensors, plain, nbytes = made
    k, n = w.shape
    graph = helper.make_graph(
        nodes, "product", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", n])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21),
                                                    helper.make_opsetid("com.microsoft", 1)],
                              ir_version=10)
    onnx.save(model, path)
    return plain, nbytes


class Read:
    """Reading as many bytes."""

    def __init__(self, nbytes):
        self.data = np.ones(nbytes // 4, np.float32)

    def call(self):
        np.dot(self.data, self.data)


def processor(side, calls):
    begin = time.process_time_ns()
    for _ in range(calls):
        side.call()
    return (time.process_time_ns() - begin) / calls / 1e3


def measure(sides, rounds):
    calls = [max(2, min(500, int(TURN_S * 1e6 / max(1.0, processor(side, 2))))) for side in sides]
    turns = [[processor(side, n) for side, n in zip(sides, calls)] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*turns)]


def row(library, form, k, n, m, folder, rounds):
    rng = np.random.default_rng(7)
    w = rng.standard_normal((k, n), np.float32) / np.float32(np.sqrt(k))
    x = {"x": rng.standard_normal((m, k), np.float32)}
    path, base = folder / "form.onnx", folder / "f32.onnx"
    plain, nbytes = write(form, w, path)
    write("f32", w, base)
    ours, own = Function(library, path, 1), Function(library, base, 1)
    answer = ours.first(x)["y"]
    own.first(x)
    sides = [ours, own, Read(nbytes)]
    if form not in HALVES:
        peer = Peer(path, 1)
        theirs = peer.first(x)["y"]
        sides.append(peer)
    want = x["x"].astype(np.float64) @ plain.astype(np.float64)
    size = np.sqrt(np.mean(want ** 2))
    times = measure(sides, rounds)
    out = {"form": form, "k": k, "n": n, "m": m, "us": round(times[0], 1), "f32_us": round(times[1], 1),
           "over_f32": round(times[1] / times[0], 2), "read_share": round(times[2] / times[0], 2),
           "error": float(f"{np.sqrt(np.mean((answer - want) ** 2)) / size:.1e}")}
    if len(sides) > 3:
        out |= {"peer_us": round(times[3], 1), "over_peer": round(times[3] / times[0], 2),
                "peer_error": float(f"{np.sqrt(np.mean((theirs - want) ** 2)) / size:.1e}")}
    print(json.dumps(out), flush=True)
    ours.release()
    own.release()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="build/release/library/libductile.so")
    parser.add_argument("--sizes", default="384x1536,768x3072,4096x4096,4096x11008")
    parser.add_argument("--rows", default="1,2,4,8,16,64,256")
    parser.add_argument("--forms", default="bf16,f16,4/32,4/32i,4/32zi,4/128i,8/32,8/32i,8/128i,2/32")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    library = Library(args.library)
    with tempfile.TemporaryDirectory() as folder:
        for form in args.forms.split(","):
            for size in args.sizes.split(","):
                k, n = map(int, size.split("x"))
                for m in map(int, args.rows.split(",")):
                    row(library, form, k, n, m, Path(folder), args.rounds)


if __name__ == "__main__":
    main()
