#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether one build of a program costs more than another: runs both by turns and compares.

scripts/bench ab builds the two. Each turn runs both once, and who goes first changes from turn to
turn, so that what else the machine does meets both alike. A turn gives one ratio, new over old, of
the processor time of the whole process (user and system, children included), and of each figure
that the program prints as a JSON line and --figures names. Of these ratios the median is told, with
its 95 % interval: the order statistics between which the median lies with that probability,
whatever the distribution (binomial, p = 1/2).

With --bound P a figure fails where its whole interval lies above 1 + P/100: "within P %" means that
none fails. Without --figures the bound is the processor time's; with it, theirs.

Exit codes: 0 measured and within the bound, 1 beyond it, 2 wrong usage, 3 a run failed.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys

CPU = "processor time"
LEAST_TURNS = 15


def ranks(count):
    """The 1-based ranks of the order statistics that bound the median with at least 95 %."""
    tail, low = 0.0, 0
    for k in range(count // 2 + 1):
        tail += math.comb(count, k) / 2**count  # P(fewer than k + 1 lie below the median)
        if 2 * tail > 0.05:
            break
        low = k + 1
    return (low, count + 1 - low) if low else (1, count)


def interval(values):
    """Median, low and high of the 95 % interval."""
    ordered = sorted(values)
    low, high = ranks(len(ordered))
    return statistics.median(ordered), ordered[low - 1], ordered[high - 1]


def figures_of(text, pattern):
    found = {}
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if not isinstance(row, dict) or not isinstance(row.get("value"), (int, float)):
            continue
        name = " ".join(str(row[key]) for key in ("case", "metric") if row.get(key))
        if pattern.search(name) and row["value"] > 0:
            found[name] = float(row["value"])
    return found


def run(command, pattern):
    """One run: its figures by name."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE if pattern else subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    # The other pipe is small: programs tell progress there, not data.
    text = process.stdout.read() if pattern else b""
    told = process.stderr.read()
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode != 0:
        sys.stderr.write(told.decode(errors="replace"))
        print(f"ab: {' '.join(command)} ended with {process.returncode}", file=sys.stderr)
        sys.exit(3)
    found = figures_of(text.decode(errors="replace"), pattern) if pattern else {}
    found[CPU] = usage.ru_utime + usage.ru_stime
    return found


def measure(sides, turns, pattern):
    """[{figure: value} by side] a turn."""
    for command in sides:
        run(command, pattern)  # files and caches are warm from here on
    taken = []
    for turn in range(turns):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        got = {side: run(sides[side], pattern) for side in order}
        taken.append((got[0], got[1]))
        print(f"\rab: turn {turn + 1} of {turns}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return taken


def compare(taken, bound, bounded):
    """A row a figure that every run has."""
    names = set.intersection(*(set(side) for turn in taken for side in turn))
    rows = []
    for name in sorted(names, key=lambda name: (name != CPU, name)):
        ratio, low, high = interval([new[name] / old[name] for old, new in taken])
        row = {"figure": name, "old": statistics.median(old[name] for old, _ in taken),
               "new": statistics.median(new[name] for _, new in taken), "ratio": ratio,
               "low": low, "high": high, "turns": len(taken)}
        if bound is not None and bounded(name):
            row["limit"] = 1 + bound / 100
            row["within"] = low <= row["limit"]
        rows.append(row)
    return rows


def show(rows, as_json):
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    print(f"{'figure':40} {'old':>12} {'new':>12} {'new/old':>8}  95 % interval")
    for row in rows:
        verdict = "" if "within" not in row else "  within" if row["within"] else "  BEYOND"
        print(f"{row['figure'][:40]:40} {row['old']:12.6g} {row['new']:12.6g} {row['ratio']:8.4f}"
              f"  {row['low']:.4f} to {row['high']:.4f}{verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="the program of the old build")
    parser.add_argument("--new", required=True, help="that of the new one")
    parser.add_argument("--turns", type=int, default=LEAST_TURNS, help="at least 15, the default")
    parser.add_argument("--bound", type=float, metavar="P", help="percent more that is allowed")
    parser.add_argument("--figures", metavar="REGEX",
                        help="compare the printed figures whose 'case metric' matches, too")
    parser.add_argument("--json", action="store_true", help="JSON lines")
    parser.add_argument("arguments", nargs="*", help="the program's own, after --")
    args = parser.parse_args()
    if args.turns < LEAST_TURNS:
        parser.error(f"--turns: {args.turns}; at least {LEAST_TURNS} make an interval worth telling")
    pattern = re.compile(args.figures) if args.figures else None
    sides = [[program, *args.arguments] for program in (args.old, args.new)]
    taken = measure(sides, args.turns, pattern)
    rows = compare(taken, args.bound, lambda name: (name != CPU) == bool(pattern))
    if pattern and all(row["figure"] == CPU for row in rows):
        print(f"ab: no figure matches {args.figures}", file=sys.stderr)
        return 3
    show(rows, args.json)
    return 0 if all(row.get("within", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
