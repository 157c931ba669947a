#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch (Inductor, dynamic sizes) on the programs of bench_gpu, in the same lines of JSON.

usage: bench_gpu_peer.py [--rows M] [--columns N] [--rounds R]
       bench_gpu_peer.py --table FILE    medians over rounds of both, and their ratio
"""
import argparse
import json
import statistics
import sys
import time


def programs(torch):
    nn = torch.nn.functional

    def gelu(x, w, b):
        return nn.gelu(x * w + b)

    def layernorm(x, w, b):
        return nn.layer_norm(x, (x.shape[1],), w, b, 1e-5)

    def softmax(x, w, b):
        return torch.softmax(x, 1)

    def rmsnorm(x, w, b):
        return nn.silu(x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5) * w)

    def sum0(x, w, b):
        return x.sum(0)

    def transpose(x, w, b):
        return x.t().contiguous()

    return [(gelu, 2), (layernorm, 2), (softmax, 2), (rmsnorm, 2), (sum0, 1), (transpose, 2)]


def measure(torch, call, rounds):
    calls = 1
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        if time.perf_counter() - begin >= 4e-3 or calls >= 4096:
            break
        calls *= 2
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(times)


def run(args):
    import torch

    torch.manual_seed(7)
    x = torch.randn(args.rows, args.columns, device="cuda")
    w = torch.rand(args.columns, device="cuda") + 0.5
    b = torch.randn(args.columns, device="cuda")
    torch.set_grad_enabled(False)
    for program, moved in programs(torch):
        compiled = torch.compile(program, dynamic=True)
        compiled(x, w, b)
        us = measure(torch, lambda: compiled(x, w, b), args.rounds)
        name = f"{program.__name__} {args.rows}x{args.columns}"
        size = 4 * args.rows * args.columns * moved
        for metric, unit, value in (("time", "us", us), ("rate", "GB/s", size / us / 1e3)):
            print(json.dumps({"bench": "gpu", "case": name, "metric": metric, "unit": unit,
                              "value": value, "who": f"torch {torch.__version__}"}))


def table(path):
    figures = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            item = json.loads(line)
            if item["metric"] == "rate":
                key = (item["case"], "peer" if "who" in item else "own")
                figures.setdefault(key, []).append(item["value"])
    print(f"{'case':28} {'ours GB/s':>10} {'peer GB/s':>10} {'ratio':>6}")
    for case in dict.fromkeys(case for case, _ in figures):
        own = statistics.median(figures.get((case, "own"), [0]))
        peer = statistics.median(figures.get((case, "peer"), [0]))
        print(f"{case:28} {own:10.0f} {peer:10.0f} {own / peer if peer else 0:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--table")
    args = parser.parse_args()
    if args.table:
        table(args.table)
    else:
        run(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
