#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's products (cuBLAS) in CUDA graphs, in bench_matmul_gpu's lines of JSON and at its sizes.

usage: matmul_gpu_peer.py [--dtype f16|bf16] [--rows LIST] [--shapes LIST] [--finish none|bias|gelu]
       matmul_gpu_peer.py --table FILE    both sides' medians over FILE's runs, their ratio, and its
                                          geometric mean

A graph has 20 products (5 of the largest), each with rows and a result of its own and the same
weights. With a finish the product is cuBLASLt's with its own bias, and what else there is to do is
one kernel of torch.compile's.
"""
import argparse
import json
import math
import statistics
import sys

from bench_gpu_peer import measure

ROWS = "1,16,64,256,1024,8192"
SHAPES = "384x384,384x1152,384x1536,1536x384,768x3072,4096x4096,4096x11008"


def graph_of(torch, products):
    """A graph of the calls, which have been made before on another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            for product in products:
                product()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for product in products:
            product()
    return graph


def products_of(torch, args, dtype, m, k, n, count):
    """Calls, each of one product, and what they use."""
    nn = torch.nn.functional
    weight = torch.rand(k, n, device="cuda", dtype=dtype) - 0.5
    bias = torch.rand(n, device="cuda", dtype=dtype) - 0.5
    inputs = [torch.rand(m, k, device="cuda", dtype=dtype) - 0.5 for _ in range(count)]
    outputs = [torch.empty(m, n, device="cuda", dtype=dtype) for _ in range(count)]
    if args.finish == "none":
        return [lambda x=x, y=y: torch.matmul(x, weight, out=y) for x, y in zip(inputs, outputs)]
    if args.finish == "bias":
        return [lambda x=x, y=y: torch.addmm(bias, x, weight, out=y) for x, y in zip(inputs, outputs)]
    residuals = [torch.rand(m, n, device="cuda", dtype=dtype) - 0.5 for _ in range(count)]

    @torch.compile(fullgraph=True)
    def finish(product, residual):
        return nn.gelu(product) + residual

    return [lambda x=x, y=y, r=r: finish(torch.addmm(bias, x, weight, out=y), r)
            for x, y, r in zip(inputs, outputs, residuals)]


def run(args):
    import torch
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[args.dtype]
    suffix = "" if args.finish == "none" else " " + args.finish
    with torch.no_grad():
        for shape in args.shapes.split(","):
            k, n = map(int, shape.split("x"))
            count = 5 if k * n >= 1 << 22 else 20
            for m in map(int, args.rows.split(",")):
                calls = products_of(torch, args, dtype, m, k, n, count)
                us = measure(torch, graph_of(torch, calls).replay, args.rounds) / count
                print(json.dumps({"bench": "matmul_gpu", "case": f"{args.dtype} {m}x{k}x{n}{suffix}",
                                  "metric": "time", "unit": "us", "value": round(us, 3),
                                  "who": f"torch {torch.__version__}"}), flush=True)


def table(path):
    ours, theirs = {}, {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("{"):
                continue
            entry = json.loads(line)
            if entry.get("bench") == "matmul_gpu":
                side = theirs if "who" in entry else ours
                side.setdefault(entry["case"], []).append(entry["value"])
    ratios = []
    print(f"{'product':<32} {'ours, us':>10} {'peer, us':>10} {'ratio':>7}")
    for case, values in ours.items():
        mine, peer = statistics.median(values), theirs.get(case)
        if not peer:
            print(f"{case:<32} {mine:>10.2f}")
            continue
        ratios.append(statistics.median(peer) / mine)
        print(f"{case:<32} {mine:>10.2f} {statistics.median(peer):>10.2f} {ratios[-1]:>7.2f}")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{'geometric mean; least':<54} {mean:>7.2f} {min(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dtype", choices=["f16", "bf16"], default="f16")
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--finish", choices=["none", "bias", "gelu"], default="none")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--table")
    args = parser.parse_args()
    if args.table:
        table(args.table)
    else:
        run(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
