#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The exported interface against the one that was kept last, test/lint/interface.txt.

usage: test/lint/interface.py [--update]

A line a declaration of the public headers but experimental.h, without comments: functions, types,
each constant with its value. What programs have compiled in stays: a line that is gone or changed
is a finding, and so is a new one, until --update has kept it. Sizes and offsets of structs are
unit.abi.layout's; a struct that grows changes its line here, too, and nothing but its end.

Exit codes: 0 as kept, 1 findings, 2 wrong usage.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "test" / "lint" / "interface.txt"
sys.path.insert(0, str(ROOT / "tools"))
import apidoc  # noqa: E402  the one reader of headers

NOT_KEPT = {"experimental", "trace_lines"}


def code_of(declaration):
    code = " ".join(apidoc.bare(line) for line in declaration.lines)
    return re.sub(r"\s+", " ", code.replace("DT_API ", "").rstrip("\\ ")).strip()


def constants_of(code):
    """Each constant of an enum with its value; those that follow another count on."""
    value = -1
    for part in re.search(r"\{(.*)\}", code).group(1).split(","):
        name, _, said = (text.strip() for text in part.partition("="))
        if name:
            value = int(said, 0) if said else value + 1
            yield f"constant {name} = {value}"


def interface():
    lines = set()
    for path in sorted(apidoc.HEADERS.glob("*.h")):
        if path.stem in NOT_KEPT:
            continue
        for declaration in apidoc.Header(path).declarations():
            code = code_of(declaration)
            if re.match(r"(typedef )?enum\b", code):
                lines.update(constants_of(code))
            else:
                lines.add(f"{declaration.kind} {code}")
    return lines


def main(arguments):
    if arguments not in ([], ["--update"]):
        print(__doc__)
        return 2
    now = interface()
    kept = set(KEPT.read_text(encoding="utf-8").splitlines()) if KEPT.exists() else set()
    if arguments:
        KEPT.write_text("\n".join(sorted(now)) + "\n", encoding="utf-8")
    findings = [f"gone or changed: {line}" for line in sorted(kept - now)]
    findings += [f"not kept yet: {line}" for line in sorted(now - kept)]
    for finding in findings:
        print(finding)
    print(f"{len(now)} declarations, {len(kept)} kept, {len(findings)} differ")
    return 1 if findings and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
