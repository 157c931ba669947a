#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test/lint/tutorial.py. The code in docs/tutorial.md, docs/passes.md, docs/own-ops.md and
docs/serving.md is their programs' and their output's.

A block that begins with ```c FILE or ```text FILE consists of consecutive lines of FILE, all moved
to the left by the same amount. A block of C must name its file; each program is shown. Exit codes:
0 it is so, 1 it is not.
"""
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# A page and the folder of its programs.
PAGES = {"docs/tutorial.md": "examples/tutorial", "docs/passes.md": "examples/passes",
         "docs/own-ops.md": "examples/ops", "docs/serving.md": "examples"}


def is_part(block, lines):
    block = textwrap.dedent("\n".join(block)).split("\n")
    for begin in range(len(lines) - len(block) + 1):
        if textwrap.dedent("\n".join(lines[begin:begin + len(block)])).split("\n") == block:
            return True
    return False


def check(page, folder):
    failures, shown, blocks = [], set(), 0
    lines = (ROOT / page).read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        match = re.match(r"```(\w+)(?: +(\S+))?$", lines[at])
        if not match:
            at += 1
            continue
        language, file = match.groups()
        begin = at + 1
        at = lines.index("```", begin)
        blocks += 1
        if file:
            shown.add(file)
            path = ROOT / file
            if not path.exists():
                failures.append(f"{page}:{begin}: there is no {file}")
            elif not is_part(lines[begin:at], path.read_text(encoding="utf-8").split("\n")):
                failures.append(f"{page}:{begin}: these are no lines of {file}")
        elif language == "c":
            failures.append(f"{page}:{begin}: of which program is this?")
        at += 1
    for path in sorted((ROOT / folder).glob("*.c")):
        if str(path.relative_to(ROOT)) not in shown:
            failures.append(f"{page}: {path.name} is not shown")
    print("\n".join(failures + [f"{page}: {blocks} blocks of {len(shown)} files, {len(failures)} findings"]))
    return len(failures)


sys.exit(1 if sum(check(page, folder) for page, folder in PAGES.items()) else 0)
