#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report of `scripts/bench cpu`'s lines: a table by kind, and the rows to look at.

  kinds_report.py FILE.jsonl…              # the table and the rows as text
  kinds_report.py --markdown FILE.jsonl…   # the table as docs/performance.md has it
  kinds_report.py --scaling FILE.jsonl…    # more threads over one, by kind

A row's ratio is peer / Ductile, above 1 where Ductile is faster: of processor time with one thread,
which other programs on the machine hardly change, and of wall time with more. *Of the floor* is the
floor over Ductile's own time by the same clock. A row is slow below 0.97.

Scaling is the wall time of one thread over that of more, of rows that arithmetic bounds with one
thread, also with more threads beside processes that keep cores busy (`scripts/bench cpu --busy N`),
over one thread alone.

Exit codes: 0 told, 1 a file cannot be read.
"""
import argparse
import json
import math
import sys

SLOW = 0.97
BAD = ("refused", "wrong", "crashed", "timed out", "peer refused")


def read(paths):
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines += [json.loads(line) for line in file if line.strip()]
    return lines


def rows_of(lines):
    return [line for line in lines
            if line.get("bench") == "kinds" and "status" in line and not line.get("busy")]


def ratio_of(row):
    return row["processor_ratio"] if row["threads"] == 1 else row["ratio"]


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def grouped(rows):
    """(threads, variant, kind) → rows, in the order in which they came."""
    groups = {}
    for row in rows:
        groups.setdefault((row["threads"], row["variant"], row["kind"]), []).append(row)
    return groups


def summary_of(key, rows):
    """One line of figures of a group."""
    measured = [row for row in rows if row["status"] == "measured"]
    worst = min(measured, key=ratio_of, default=None)
    shares = [row["of_floor"] for row in measured if row.get("of_floor")]
    line = {"bench": "kinds", "case": "summary", "threads": key[0], "variant": key[1], "kind": key[2],
            "rows": len(rows), "measured": len(measured),
            **{word.replace(" ", "_"): sum(row["status"] == word for row in rows) for word in BAD},
            "slow": sum(ratio_of(row) < SLOW for row in measured)}
    if measured:
        line |= {"metric": "peer / ours", "unit": "ratio",
                 "value": round(geomean([ratio_of(row) for row in measured]), 4),
                 "worst": round(ratio_of(worst), 4), "worst_case": worst["case"]}
    if shares:
        line["of_floor"] = round(geomean(shares), 4)
    return line


def summaries(lines):
    groups = grouped(rows_of(lines))
    made = [summary_of(key, rows) for key, rows in groups.items()]
    for threads, variant in dict.fromkeys(key[:2] for key in groups):
        rows = [row for key, own in groups.items() if key[:2] == (threads, variant) for row in own]
        made.append(summary_of((threads, variant, "all"), rows))
    return made


def cells_of(line):
    bad = ", ".join(f"{line[word.replace(' ', '_')]} {word}" for word in BAD
                    if line[word.replace(" ", "_")])
    mean = f"{line['value']:.2f}" if "value" in line else "–"
    worst = f"{line['worst']:.2f} ({line['worst_case']})" if "worst" in line else "–"
    share = f"{100 * line['of_floor']:.0f} %" if "of_floor" in line else "–"
    return [line["kind"], line["variant"], str(line["threads"]), f"{line['measured']}/{line['rows']}",
            mean, worst, str(line["slow"]), share, bad or "–"]


HEAD = ["kind", "variant", "threads", "measured", "geometric mean", "worst row", "slow",
        "of the floor", "else"]


def table(lines, markdown=False):
    rows = [HEAD, *(cells_of(line) for line in summaries(lines))]
    if markdown:
        rows.insert(1, ["---"] * len(HEAD))
        return "".join("| " + " | ".join(row) + " |\n" for row in rows)
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD))]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n"
                   for row in rows)


# ---- Scaling --------------------------------------------------------------------------------------

def scaling(lines):
    """(threads, busy) → {kind: times of one thread over theirs}, of rows that arithmetic bounds."""
    rows = [line for line in lines if line.get("bench") == "kinds" and line.get("status") == "measured"]
    key = ("kind", "case", "variant")
    alone = {tuple(row[k] for k in key): row for row in rows if row["threads"] == 1}
    found = {}
    for row in rows:
        one = alone.get(tuple(row[k] for k in key))
        if row["threads"] > 1 and one and one.get("bound") == "arithmetic":
            setting = found.setdefault((row["threads"], row.get("busy", 0)), {})
            setting.setdefault(row["kind"], []).append(one["value"] / row["value"])
    return found


def scaling_text(lines):
    text = ""
    for (threads, busy), kinds in sorted(scaling(lines).items()):
        beside = f", beside {busy} busy core{'s' if busy > 1 else ''}" if busy else ""
        text += f"{threads} threads over one{beside}:\n"
        means = {kind: geomean(times) for kind, times in kinds.items()}
        for kind, mean in means.items():
            text += f"  {kind:10} {mean:.2f}  ({len(kinds[kind])} rows, worst {min(kinds[kind]):.2f})\n"
        text += f"  {'all':10} {geomean(list(means.values())):.2f}  (geometric mean of kinds)\n"
    return text or "no row with one thread and with more is bound by arithmetic\n"


def place_of(row):
    return (f"{row['kind']} {row['case']} {row['variant']}, {row['threads']} "
            f"thread{'s' if row['threads'] > 1 else ''}")


def to_look_at(lines):
    """Text of the rows that are refused, wrong or slow, the worst first."""
    rows = rows_of(lines)
    text = ""
    for word in BAD:
        for row in rows:
            if row["status"] == word:
                message = " ".join(row.get("message", "").split())[:240]
                text += f"{word}: {place_of(row)}: {message}\n"
    slow = [row for row in rows if row["status"] == "measured" and ratio_of(row) < SLOW]
    for row in sorted(slow, key=ratio_of):
        share = f", {100 * row['of_floor']:.0f} % of the floor" if row.get("of_floor") else ""
        text += (f"slow: {ratio_of(row):.2f}  {place_of(row)}: {row['value']:.3f} ms, peer "
                 f"{row['peer_value']:.3f} ms{share}\n")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--markdown", action="store_true", help="the table alone, as Markdown")
    parser.add_argument("--scaling", action="store_true", help="more threads over one, alone")
    arguments = parser.parse_args()
    try:
        lines = read(arguments.files)
    except (OSError, ValueError) as error:
        print(f"kinds_report: {error}", file=sys.stderr)
        return 1
    if arguments.scaling:
        print(scaling_text(lines), end="")
        return 0
    print(table(lines, arguments.markdown), end="")
    if not arguments.markdown:
        print("\n" + to_look_at(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
