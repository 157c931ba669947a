#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all-MiniLM-L6-v2 must do at least at each shape, and docs/performance.md's table of it.

  floor_minilm.py [--flops GFLOP/s --read GB/s]     # the table, on standard output
  floor_minilm.py --results bench/results/cpu-….jsonl --machine MACHINE.jsonl \\
                  --update docs/performance.md      # the same with measured columns, in place

MACHINE.jsonl is what `scripts/bench machine` prints; without it the floor's times are left out. With
B rows of S tokens, T = B·S, h = 384, inner i = 1536, L = 6 layers:

  flops  = L · (2·T·(4·h² + 2·h·i) + 4·B·S²·h)       projections and feed-forward; scores and context
  bytes  = 4 · (L · (4·h² + 2·h·i) + T·h + S·h) + 16·T + 4·B·h
           the layers' weights once, rows of the embedding tables, ids and mask, the result; what is
           in between may stay in caches
  floor  = max(flops / multiply-adds a second, bytes / read bandwidth)

Exit codes: 0 printed or updated, 1 a file cannot be used, 2 wrong usage.
"""
import argparse
import json
import sys

from bench_shapes import SHAPES

HIDDEN, INNER, LAYERS = 384, 1536, 6
LAYER_WEIGHTS = 4 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER
BEGIN, END = "<!-- floor: begin -->", "<!-- floor: end -->"


def flops(batch, length):
    tokens = batch * length
    return LAYERS * (2 * tokens * LAYER_WEIGHTS + 4 * batch * length * length * HIDDEN)


def bytes_touched(batch, length):
    tokens = batch * length
    return (4 * (LAYERS * LAYER_WEIGHTS + tokens * HIDDEN + length * HIDDEN) + 16 * tokens
            + 4 * batch * HIDDEN)


def floor_ms(batch, length, ceiling):
    gflops, read = ceiling
    return max(flops(batch, length) / gflops, bytes_touched(batch, length) / read) * 1e-6


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def ceilings_of(path):
    """{threads: (GFLOP/s, GB/s)} from bench_machine's lines."""
    found = {}
    for line in read_lines(path):
        if line.get("bench") == "machine" and "case" in line:
            found.setdefault(int(line["case"].split()[0]), {})[line["metric"]] = line["value"]
    return {threads: (figures["f32 multiply-add"], figures["read of 42 MB"])
            for threads, figures in found.items()}


def measured_of(lines):
    return {(line["case"], line["threads"]): line for line in lines
            if line.get("bench") == "minilm" and line.get("metric") == "latency"}


def table(ceilings, measured):
    """Markdown: a row a shape; for each number of threads the floor, ours, the share, the peer's."""
    threads = sorted({key[1] for key in measured} or set(ceilings))
    head = ["batch × length", "GFLOP", "MB"]
    for count in threads:
        name = f"{count} thread" + ("s" if count > 1 else "")
        head += [f"floor ms, {name}"] if count in ceilings else []
        if measured:
            head += [f"measured ms, {name}"] + (["of the floor"] if count in ceilings else [])
            head += ["peer ms", "ratio"]
    rows = [head, ["---"] * len(head)]
    for batch, length in SHAPES:
        row = [f"{batch} × {length}", f"{flops(batch, length) * 1e-9:.3f}",
               f"{bytes_touched(batch, length) * 1e-6:.1f}"]
        for count in threads:
            floor = floor_ms(batch, length, ceilings[count]) if count in ceilings else None
            row += [f"{floor:.2f}"] if floor else []
            line = measured.get((f"{batch}x{length}", count))
            if measured and not line:
                row += ["–"] * (4 if floor else 3)
            elif measured:
                row.append(f"{line['value']:.2f}")
                row += [f"{100 * floor / line['value']:.0f} %"] if floor else []
                row += [f"{line['peer_value']:.2f}", f"{line['ratio']:.2f}"]
        rows.append(row)
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def source(lines, ceilings):
    first = next((line for line in lines if line.get("bench") == "machine"), None)
    text = ""
    if first:
        text = (f"Measured {first['date']} at commit {first['commit']}"
                f"{' (with changes)' if first['changed'] else ''} on {first['cpu']}, "
                f"{first['cores']} cores, against {first['peer']}, {first['weights']} weights.\n")
    for count, (gflops, read) in sorted(ceilings.items()):
        text += (f"Ceilings with {count} thread{'s' if count > 1 else ''}: {gflops:.0f} GFLOP/s, "
                 f"{read:.0f} GB/s.\n")
    return text + "\n" if text else ""


def update(path, text):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{path}: lacks the lines {BEGIN} and {END}", file=sys.stderr)
        return 1
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}{END}{after}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flops", type=float, help="one thread's GFLOP/s")
    parser.add_argument("--read", type=float, help="one thread's GB/s")
    parser.add_argument("--machine", help="lines of `scripts/bench machine`")
    parser.add_argument("--results", help="lines of `scripts/bench cpu minilm`")
    parser.add_argument("--update", help="a page to change in place")
    arguments = parser.parse_args()
    if bool(arguments.flops) != bool(arguments.read):
        parser.error("--flops and --read belong together")
    try:
        ceilings = ceilings_of(arguments.machine) if arguments.machine else {}
        lines = read_lines(arguments.results) if arguments.results else []
    except (OSError, ValueError, KeyError) as error:
        print(f"floor_minilm: {error}", file=sys.stderr)
        return 1
    if arguments.flops:
        ceilings = {1: (arguments.flops, arguments.read)}
    text = source(lines, ceilings) + table(ceilings, measured_of(lines))
    if arguments.update:
        return update(arguments.update, text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
