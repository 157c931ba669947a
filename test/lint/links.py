#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test/lint/links.py. Links between the project's pages lead somewhere, and so do paths in HACKING.md.

Checked in README.md, HACKING.md, SECURITY.md and docs/: [text](file#heading) names a file that is
there and a heading of it. In HACKING.md and the pages of PATHS each `folder/file` is there, or at
least one file that the pattern stands for. Exit codes: 0 it is so, 1 it is not.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "HACKING.md", ROOT / "SECURITY.md",
         *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "api").glob("*.md"))]
PATHS = {"HACKING.md", "docs/glossary.md", "docs/symshape.md", "docs/fusion.md", "docs/troubleshooting.md"}
FOLDERS = "backend_cuda|backend_llvm|bench|cli|cudagraphs|docs|examples|frontends|fuse|guards|include|" \
          "library|lower|python|runtime|scripts|symshape|test|tools"
PATH = re.compile(r"(?:%s)/[A-Za-z0-9_./*-]*" % FOLDERS)


def text_of(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors_of(page, known={}):
    """Headings as GitHub names them, and written anchors."""
    if page not in known:
        text = text_of(page)
        titles = re.findall(r"^#+ (.*)$", text, re.M)
        known[page] = {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", t)).strip().lower().replace(" ", "-")
                       for t in titles} | set(re.findall(r'<a id="([^"]*)"', text))
    return known[page]


def main():
    failures, links, paths = [], 0, 0
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        text = text_of(page)
        prose = re.sub(r"`[^`\n]*`(?!\])", "", text)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            file, _, anchor = target.partition("#")
            to = (page.parent / file).resolve() if file else page
            if not to.exists():
                failures.append(f"{name}: there is no {target}")
            elif anchor and to.suffix == ".md" and anchor not in anchors_of(to):
                failures.append(f"{name}: no heading of {target}")
        if name not in PATHS:
            continue
        for code in re.findall(r"`([^`\n]+)`", text):
            path = code.split("#")[0]
            if not PATH.fullmatch(path):
                continue
            paths += 1
            if not any(ROOT.glob(path.rstrip("/"))):
                failures.append(f"{name}: there is no {path}")
    print("\n".join(failures + [f"{len(PAGES)} pages, {links} links, {paths} paths, {len(failures)} findings"]))
    return 1 if failures else 0


sys.exit(main())
