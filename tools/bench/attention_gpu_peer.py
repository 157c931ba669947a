#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's attention in CUDA graphs, in bench_gpu_attention's lines of JSON and at its sizes.

usage: attention_gpu_peer.py [--forms LIST] [--d LIST] [--lengths LIST] [--batches LIST]
                             [--tokens N] [--memory MIB] [--rounds R]
       attention_gpu_peer.py --table FILE    both sides' medians over FILE's runs, their ratio, and
                                             its geometric mean and least

A graph has as many attentions as a call of bench_gpu_attention, each with operands and a result of
its own. Each of scaled_dot_product_attention's fused ways (flash, cudnn, efficient) that takes a
case is measured; the line has the fastest, and the times of all under "ways". What no way takes,
or is too large, is skipped, which stderr says.
Exit codes: 0 measured or skipped; 1 something failed; 2 wrong usage.
"""
import argparse
import json
import math
import statistics
import sys

from bench_gpu_peer import measure

FORMS = ("forward", "causal", "decode")
WIDTH, DECODE_HEADS, MOST = 1024, 16, 16
OWN = {
    "forward": ([32, 64, 128], [64, 128, 256, 512, 1024, 2048, 4096, 8192]),
    "causal": ([32, 64, 128], [64, 128, 256, 512, 1024, 2048, 4096, 8192]),
    "decode": ([64, 128], [512, 2048, 8192, 32768]),
}


def cases_of(args):
    """(form, batch, heads, length, d, attentions), in bench_gpu_attention's order."""
    for form in FORMS:
        sizes, lengths = args.d or OWN[form][0], args.lengths or OWN[form][1]
        batches = args.batches if form == "decode" else [0]
        for d in sizes if form in args.forms else []:
            heads = DECODE_HEADS if form == "decode" else max(1, WIDTH // d)
            for given in batches:
                for length in lengths:
                    batch = given or max(1, args.tokens // length)
                    small = batch * heads * length * d * 4 <= 32 << 20
                    count = 4 if form != "decode" else MOST if small else 2
                    yield form, batch, heads, length, d, count


def graph_of(torch, calls):
    """A graph of the calls, which have been made before on another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            for call in calls:
                call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def measure_way(torch, backend, operands, causal, rounds):
    """Microseconds of one attention that this way makes."""
    attention = torch.nn.functional.scaled_dot_product_attention
    with torch.nn.attention.sdpa_kernel(backend):
        calls = [lambda q=q, k=k, v=v: attention(q, k, v, is_causal=causal) for q, k, v in operands]
        graph = graph_of(torch, calls)
    return measure(torch, graph.replay, rounds) / len(operands)


def ways_of(torch):
    """Those of this version, by the names that lines have."""
    backends = torch.nn.attention.SDPBackend
    names = (("flash", "FLASH_ATTENTION"), ("cudnn", "CUDNN_ATTENTION"),
             ("efficient", "EFFICIENT_ATTENTION"))
    return [(name, getattr(backends, known)) for name, known in names if hasattr(backends, known)]


def measure_case(torch, case, args):
    """Times by ways; empty: no way takes it."""
    form, batch, heads, length, d, count = case
    rows, times = 1 if form == "decode" else length, {}

    def tensor(n):
        return torch.randn(batch, heads, n, d, device="cuda", dtype=torch.float16)

    operands = [(tensor(rows), tensor(length), tensor(length)) for _ in range(count)]
    for name, backend in ways_of(torch):
        try:
            times[name] = round(measure_way(torch, backend, operands, form == "causal",
                                            args.rounds), 3)
        except RuntimeError as error:  # also where memory ends
            if "illegal" in str(error) or "launch failure" in str(error):
                raise
            print(f"not by {name}: {label(case)}: {str(error)[:200]!r}", file=sys.stderr)
    return times


def label(case):
    form, batch, heads, length, d, _ = case
    return f"{form} f16 {batch}x{heads}x{length}x{d}"


def mib_of(case):
    """MiB of the operands and results of all attentions: no fused way keeps scores."""
    form, batch, heads, length, d, count = case
    rows = 1 if form == "decode" else length
    return 4 * batch * heads * (rows + length) * d * count / (1 << 20)


def run(args):
    try:
        import torch.nn.attention
    except ImportError as error:
        print(f"attention_gpu_peer.py: PyTorch is needed: {error}", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("attention_gpu_peer.py: PyTorch finds no CUDA device", file=sys.stderr)
        return 1
    torch.manual_seed(7)
    torch.set_grad_enabled(False)
    for case in cases_of(args):
        if mib_of(case) > args.memory:
            print(f"skipped: {label(case)}: needs {mib_of(case):.0f} MiB, more than {args.memory}",
                  file=sys.stderr)
            continue
        times = measure_case(torch, case, args)
        torch.cuda.empty_cache()
        if not times:
            print(f"skipped: {label(case)}: no way takes it", file=sys.stderr)
            continue
        best = min(times, key=times.get)
        print(json.dumps({"bench": "gpu_attention", "case": label(case), "metric": "time",
                          "unit": "us", "value": times[best], "way": best, "ways": times,
                          "who": f"torch {torch.__version__}"}), flush=True)
    return 0


def geometric(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(path):
    ours, theirs, ways = {}, {}, {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("bench") != "gpu_attention":
                continue
            side = theirs if "who" in entry else ours
            side.setdefault(entry["case"], []).append(entry["value"])
            ways[entry["case"]] = entry.get("way") or ways.get(entry["case"], "")
    ratios = {}
    print(f"{'attention':<34} {'ours, us':>10} {'peer, us':>10} {'ratio':>7}  way")
    for case in list(ours) + [case for case in theirs if case not in ours]:
        mine, peer = (f"{statistics.median(side[case]):.2f}" if case in side else "-"
                      for side in (ours, theirs))
        ratio = ""
        if case in ours and case in theirs:
            ratios[case] = statistics.median(theirs[case]) / statistics.median(ours[case])
            ratio = f"{ratios[case]:.2f}"
        print(f"{case:<34} {mine:>10} {peer:>10} {ratio:>7}  {ways[case]}".rstrip())
    for form in FORMS + ("",):
        some = [ratio for case, ratio in ratios.items() if case.startswith(form)]
        if some:
            what = (form or "all") + ": geometric mean; least"
            print(f"{what:<56} {geometric(some):>7.2f} {min(some):.2f}")
    return 0


def numbers(text):
    """Numbers above 0 between commas."""
    items = [int(item) for item in text.split(",")]
    if min(items) < 1:
        raise ValueError(text)
    return items


def number(text):
    (item,) = numbers(text)
    return item


def forms(text):
    items = text.split(",")
    if not set(items) <= set(FORMS):
        raise ValueError(text)
    return items


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", type=forms, default=list(FORMS), metavar="LIST")
    parser.add_argument("--d", type=numbers, metavar="LIST")
    parser.add_argument("--lengths", type=numbers, metavar="LIST")
    parser.add_argument("--batches", type=numbers, default=[1, 8], metavar="LIST")
    parser.add_argument("--tokens", type=number, default=8192, metavar="N")
    parser.add_argument("--memory", type=number, default=16384, metavar="MIB")
    parser.add_argument("--rounds", type=number, default=9, metavar="R")
    parser.add_argument("--table", metavar="FILE")
    args = parser.parse_args()
    return table(args.table) if args.table else run(args)


if __name__ == "__main__":
    sys.exit(main())
