#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What calls as CUDA graphs are measured by: each measure with its figure, what is wanted, and whether it
is met. Reads the lines of JSON that `scripts/test-gpu run bench-graphs` writes (bench-graphs.jsonl).

usage: graphs_summary.py FILE
A figure that the file lacks is said to be missing. Exit codes: 0 printed, whatever the figures; 1 the file
cannot be read or is no such file; 2 wrong usage.
"""
import json
import sys

MIB = 1 << 20
MINILM, NEW = "f16 graphs", "graphs, new sizes"
BACK = "until dt_call returns, median"


class Figures:
    """Values by case and metric. Of equal ones the last counts."""

    def __init__(self, lines):
        self.items = {(item["case"], item["metric"]): item for item in lines}

    def value(self, case, metric, field="value"):
        return self.items[case, metric][field]

    def of_cases(self, begin, metric, least):
        """Of all cases whose names begin so: that many at least, since one that failed prints none."""
        found = [item["value"] for (case, name), item in self.items.items()
                 if case.startswith(begin) and name == metric]
        if len(found) < least:
            raise KeyError(begin)
        return found


def at_most(limit):
    return lambda value: value <= limit


def at_least(limit):
    return lambda value: value >= limit


def value(case, metric):
    return lambda figures: figures.value(case, metric)


def ratio(case, metric):
    return lambda figures: figures.value(case, metric, "ratio")


def latency(shape):
    return value(f"{MINILM} {shape}", "latency")


def worst(begin, metric, least):
    return lambda figures: max(figures.of_cases(begin, metric, least))


def total(begin, metrics, least):
    return lambda figures: sum(sum(figures.of_cases(begin, metric, least)) for metric in metrics)


def beyond(figures):
    """What a first call takes longer, and as a share."""
    return (figures.value(NEW, "first call - steady, p99"),
            figures.value(NEW, "first call / steady, p99"))


def bytes_more(figures):
    return (figures.value("memory", "session after all") -
            figures.value("memory", "session after the largest"))


# Measure, figure, its form, what is wanted, whether it is met.
MEASURES = [
    ("MiniLM f16, 1x16", latency("1x16"), "{:.0f} us", "<= 110", at_most(110)),
    ("MiniLM f16, 8x100", latency("8x100"), "{:.0f} us", "<= 180", at_most(180)),
    ("MiniLM f16, 64x128", latency("64x128"), "{:.0f} us", "<= 550", at_most(550)),
    ("MiniLM f16, PyTorch over ours, 13 shapes",
     value(MINILM, "reduce-overhead / ours, geometric mean"), "{:.2f}", ">= 2.5", at_least(2.5)),
    ("new size, first call beyond steady, p99", beyond, "{0[0]:.0f} us, {0[1]:.2f} times",
     "<= 30 us or 1.3", lambda value: value[0] <= 30 or value[1] <= 1.3),
    ("new size, graphs built", value(NEW, "graphs built"), "{:.0f}", "<= 0", at_most(0)),
    ("growth call, beyond steady, worst", value("growth", "beyond the steady call, worst"),
     "{:.0f} us", "<= 1000", at_most(1000)),
    ("host time of a call, equal sizes", value("host, equal sizes", BACK), "{:.1f} us", "<= 3",
     at_most(3)),
    ("host time of a call, all sizes changed", value("host, all sizes changed", BACK), "{:.1f} us",
     "<= 12", at_most(12)),
    ("session after 1,000 shapes, beyond the largest", bytes_more, "{:.0f} B", "<= a granule, 2 MiB",
     at_most(2 * MIB)),
    ("8 threads, wrong answers", value("threads", "answers unlike plain launches'"), "{:.0f}", "<= 0",
     at_most(0)),
    ("8 threads, bytes of graphs", value("threads", "graphs of 8 sessions"), "{:.3g} B",
     "<= the budget, 256 MiB", at_most(256 * MIB)),
    ("8 threads, calls a second over the lesser of both",
     ratio("threads", "calls a second of most threads"), "{:.2f}", ">= 0.9", at_least(0.9)),
    ("code replaced, wrong answers", value("swap", "answers unlike plain launches'"), "{:.0f}",
     "<= 0", at_most(0)),
    ("code replaced, p99 of calls over before", value("swap", "p99 over that of before"), "{:.2f}",
     "<= 1.3", at_most(1.3)),
    ("code replaced, worst call beyond p99 of before",
     value("swap", "worst call beyond p99 of before"), "{:.0f} us", "<= 1000", at_most(1000)),
    ("path with two branches, pool over the larger's",
     value("path", "pool / pool of the larger branch alone"), "{:.2f}", "<= 1.0", at_most(1)),
    ("path with two branches, later builds", value("path", "graphs built after each branch's first"),
     "{:.0f}", "<= 0", at_most(0)),
    ("sizes from data over known sizes, worst", worst("sized, ", "over the size known", 4), "{:.2f}",
     "<= 1.15", at_most(1.15)),
    ("sizes from data, numbers read back", value("sized", "readbacks"), "{:.0f}", "<= 0", at_most(0)),
    ("loop from data, numbers read back", value("while", "readbacks of a graph"), "{:.0f}", "<= 0",
     at_most(0)),
    ("frozen T2 to T6, compiles, builds, growths", total("T", ("compiles", "graphs built", "growths"), 5),
     "{:.0f}", "<= 0", at_most(0)),
    ("calls that were no graphs", total("", ("skips",), 1), "{:.0f}", "<= 0", at_most(0)),
]


def row(figures, name, read, form, wanted, met):
    try:
        figure = read(figures)
    except KeyError:
        return name, "missing", wanted, "-"
    return name, form.format(figure), wanted, "met" if met(figure) else "NOT MET"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr if len(sys.argv) != 2 else sys.stdout)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    try:
        with open(sys.argv[1], encoding="utf-8") as lines:
            figures = Figures([json.loads(line) for line in lines if line.strip()])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"graphs_summary: {sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    rows = [("measure", "figure", "wanted", "")]
    rows += [row(figures, *measure) for measure in MEASURES]
    widths = [max(len(line[k]) for line in rows) for k in range(4)]
    for line in rows:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
    met = sum(line[3] == "met" for line in rows)
    print(f"{met} of {len(MEASURES)} are met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
