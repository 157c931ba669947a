#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/api/ from the public headers.

usage: tools/apidoc.py [--check]

Writes one page a header and an index, and drops lines of test/lint/apidoc.txt that are no longer
needed. With --check it writes nothing and fails where a page differs from what it would write,
where a declaration has no comment, where a function has no thread tag, and where a line of
test/lint/apidoc.txt, which lists the exceptions, is not needed.

What it takes for a comment of a declaration: the lines of // directly above it, what stands behind
it on its last line, or, where nothing is above, the comment that covers the declaration before it,
if no blank line is between. Below a line `// ---- Name ----` the comment that follows at once
speaks for the section, unless one declaration alone stands below it; then its last paragraph is
that one's. The comment at the head of the file speaks for the file. A thread tag is
[any], [external …] or [main thread] in one of these.

Exit codes: 0 done, 1 --check found something, 2 wrong usage or a header that it cannot read.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include" / "ductile"
PAGES = ROOT / "docs" / "api"
EXCEPTIONS = ROOT / "test" / "lint" / "apidoc.txt"
# In the order in which a reader meets them; headers that are not named come last.
ORDER = ["ductile", "base", "tensor", "runtime", "function", "session", "trace", "trace_types", "trace_index",
         "trace_mutate", "trace_windows", "trace_scan", "random", "trace_lines", "explain", "device", "graphs", "ir", "onnx",
         "safetensors", "pass", "pattern", "op", "accessor", "experimental"]
TAG = re.compile(r"\[(?:any|external|main thread)\b[^\]]*\]")
SECTION = re.compile(r"// -{4,} (.*?) -{4,}$")


class Declaration:
    """One function, type or macro: `lines` as in the header, `comment` the lines above."""

    def __init__(self, kind, name, lines, line):
        self.kind, self.name, self.lines, self.line = kind, name, lines, line
        self.comment = []  # directly above
        self.group = self  # whose comment covers it
        self.section = None
        self.header = None

    def trailing(self):
        match = re.search(r"//(.*)$", self.lines[-1])
        return match.group(1).strip() if match else ""

    def places(self):
        """The texts that may speak for it, the nearest first."""
        return [self.trailing(), " ".join(self.comment), " ".join(self.group.comment),
                " ".join(self.section.comment), " ".join(self.header.comment)]

    def documented(self):
        return any(self.places()[:4])

    def tag(self):
        if self.comment:  # one's own comment is not what the neighbour's says
            places = [self.trailing()] + [" ".join(self.comment)] + self.places()[3:]
        else:
            places = self.places()
        for place in places:
            match = TAG.search(place)
            if match:
                return match.group(0)
        return None


class Section:
    def __init__(self, title):
        self.title, self.comment, self.declarations = title, [], []
        self.opens = False  # the comment stands directly above the first declaration

    def settle(self):
        """The comment directly below the section's line is the first declaration's where that
        shares it with no other; paragraphs before the last stay the section's."""
        if not self.comment or not self.declarations or self.declarations[0].comment:
            return
        first = self.declarations[0]
        if sum(d.group is first for d in self.declarations) > 1 or not self.opens:
            return
        at = max((k + 1 for k, line in enumerate(self.comment) if not line), default=0)
        first.comment, self.comment = self.comment[at:], self.comment[:at]


class Header:
    def __init__(self, path):
        self.stem = path.stem
        self.comment = []
        self.sections = [Section(None)]
        read(self, path.read_text(encoding="utf-8").split("\n"))
        for section in self.sections:
            section.settle()

    def declarations(self):
        return [d for section in self.sections for d in section.declarations]


def name_of(text):
    """Kind and name of what `text`, the lines of a declaration without comments, declares."""
    macro = re.match(r"#\s*define\s+(\w+)", text)
    if macro:
        return "macro", macro.group(1)
    pointer = re.match(r"typedef\b[^{;]*\(\s*\*\s*(\w+)\s*\)\s*\(", text)
    if pointer:
        return "type", pointer.group(1)
    if text.startswith("typedef"):
        return "type", re.search(r"(\w+)\s*;$", text).group(1)
    if text.startswith("enum"):
        first = re.search(r"\{\s*(\w+)", text)
        return "constants", first.group(1)
    function = re.search(r"(\w+)\s*\(", text)
    if text.startswith(("DT_API", "static inline")) and function:
        return "function", function.group(1)
    return None, None


def signature(lines):
    """The lines of an inline function up to its body."""
    out = []
    for line in lines:
        head, brace, _ = line.partition("{")
        out.append(head.rstrip() + ";" if brace else line)
        if brace:
            return out
    return out


def bare(line):
    return re.sub(r"//.*$", "", line).strip()


def read(header, lines):
    """Fills `header`: comments, sections and declarations in the order of the file."""
    at, comment, above, seen_guard = 0, [], None, False
    skipped = 0  # depth of conditionals whose insides are no declarations of the interface
    section_opened = False
    while at < len(lines):
        line = lines[at]
        text = line.strip()
        title = SECTION.match(text)
        if title:
            header.sections.append(Section(title.group(1)))
            comment, above, section_opened = [], None, True
        elif text.startswith("//"):
            if "SPDX" not in text:
                comment.append(text[2:].removeprefix(" "))
                at += 1
                continue
        elif not text:
            if comment and not seen_guard:
                header.comment = comment
            elif comment and section_opened:
                header.sections[-1].comment = comment
            comment, above, section_opened = [], None, False
        elif re.match(r"#\s*(if|ifdef|ifndef)\b", text):
            if not seen_guard:
                header.comment, comment, seen_guard = comment, [], True
                at += 1  # the guard's #define
            else:
                skipped += 1
        elif re.match(r"#\s*endif\b", text):
            skipped -= 1
            comment = []
        elif re.match(r"#\s*(include|else|undef)\b", text):
            comment = []
        elif skipped and not text.startswith("#define"):
            pass  # extern "C" {
        elif skipped:
            pass  # macros of one compiler, lines of builders
        else:
            begin = at
            code = bare(line)
            inline = text.startswith("static inline")
            if inline:
                while "{" not in code or code.count("{") != code.count("}"):
                    at += 1
                    if at == len(lines):
                        sys.exit(f"{header.stem}.h:{begin + 1}: a function without an end")
                    code += " " + bare(lines[at])
                code = code[:code.index("{")]
            elif not text.startswith("#"):
                while code.count("{") != code.count("}") or not code.endswith(";"):
                    at += 1
                    if at == len(lines):
                        sys.exit(f"{header.stem}.h:{begin + 1}: a declaration without an end")
                    code += " " + bare(lines[at])
            kind, name = name_of(code.strip())
            if not kind:
                print(f"{header.stem}.h:{begin + 1}: not understood: {code[:60]}")
                sys.exit(2)
            shown = lines[begin:at + 1]
            if inline:  # its body is not shown
                shown = signature(shown)
            declaration = Declaration(kind, name, shown, begin + 1)
            section = header.sections[-1]
            if comment and section_opened and kind == "function" and len(header.sections) > 1:
                # Directly below the section's line: it is the section's and the declaration's.
                section.comment, section.opens = comment, True
            else:
                declaration.comment = comment
            declaration.group = declaration if comment or above is None else above.group
            declaration.section, declaration.header = section, header
            section.declarations.append(declaration)
            above, comment, section_opened = declaration, [], False
        at += 1


# ---- Markdown -----------------------------------------------------------------------------------

def linked(text, links, page):
    """`text` as Markdown: names of the interface become links."""
    out = []
    for part in re.split(r"(`[^`]*`)", text):
        if part.startswith("`"):
            name = part.strip("`")
            link = links.get(name)
            out.append(f"[{part}]({target(link, page)})" if link else part)
            continue
        part = re.sub(r"([*<>|\\])", r"\\\1", part)

        def link_name(match):
            link = links.get(match.group(0))
            return f"[{match.group(0)}]({target(link, page)})" if link else match.group(0)

        out.append(re.sub(r"\b(?:dt|DT)_\w+", link_name, part))
    return "".join(out)


def target(declaration, page):
    file = "" if declaration.header.stem == page else f"{declaration.header.stem}.md"
    return f"{file}#{declaration.name.lower()}"


def prose(comment, links, page):
    """The lines of a comment as paragraphs and list items ("- "); other indented lines are drawings."""
    out, paragraph, drawing = [], [], []

    def close():
        if paragraph:
            if paragraph[0].startswith("- ") and len(out) > 1 and out[-2].startswith("- "):
                out.pop()  # items of one list stand close
            out.extend([linked(" ".join(paragraph), links, page), ""])
            paragraph.clear()
        if drawing:
            out.extend(["```text", *drawing, "```", ""])
            drawing.clear()

    for line in comment:
        if line.startswith("- "):
            close()
            paragraph.append(line)
        elif line.startswith("  ") and paragraph and paragraph[0].startswith("- "):
            paragraph.append(line.strip())
        elif line.startswith("  "):
            if paragraph:
                close()
            drawing.append(line.strip("\n"))
        elif not line:
            close()
        else:
            if drawing or paragraph and paragraph[0].startswith("- "):
                close()
            paragraph.append(line.strip())
    close()
    return out


def shown(declaration):
    """The declaration's lines without DT_API; what follows moves along."""
    first = declaration.lines[0]
    if not first.startswith("DT_API "):
        return declaration.lines
    return [first[7:]] + [re.sub(r"^ {7}", "", line) for line in declaration.lines[1:]]


def groups_of(section):
    groups = []
    for declaration in section.declarations:
        if groups and declaration.group is groups[-1][0].group:
            groups[-1].append(declaration)
        else:
            groups.append([declaration])
    return groups


def page_of(header, links):
    out = [f"# ductile/{header.stem}.h", "",
           "Made from the header by `tools/apidoc.py`. [All headers](README.md)", ""]
    out += prose(header.comment, links, header.stem)
    for section in header.sections:
        if not section.declarations:
            continue
        if section.title:
            out += [f"## {section.title}", ""]
        out += prose(section.comment, links, header.stem)
        for group in groups_of(section):
            names = [declaration.name for declaration in group]
            head = ", ".join(names) if len(names) <= 3 else f"{names[0]} to {names[-1]}"
            out += [f"### {head}", ""]
            if len(names) > 1:
                out += ["".join(f'<a id="{name.lower()}"></a>' for name in names), ""]
            out += ["```c"]
            for declaration in group:
                out += shown(declaration)
            out += ["```", ""]
            out += prose(group[0].comment, links, header.stem)
    while out and not out[-1]:
        out.pop()
    return "\n".join(out) + "\n"


def first_sentence(comment):
    end = next((k for k, line in enumerate(comment) if not line), len(comment))
    text = " ".join(line.strip() for line in comment[:end])
    match = re.match(r"(.*?\.)(?= [A-Z]|$)", text)
    return match.group(1) if match else text


def index_of(headers, links):
    out = ["# API reference", "",
           "Made from `include/ductile/` by `tools/apidoc.py`; the headers are the source. `DT_API` is left",
           "out of what is shown. `DT_MUST_USE`: the compiler warns where the result is not used.", "",
           "Thread tags: `[any]`: from any thread at any time. `[external]`: calls on one object must not",
           "overlap; `[external by session]` names the object. `[main thread]`: from the thread of `main`.",
           "", "| header | what it is |", "|---|---|"]
    for header in headers:
        out += [f"| [{header.stem}.h]({header.stem}.md) | {linked(first_sentence(header.comment), links, '')} |"]
    for title, kinds in (("Functions", ("function",)), ("Types", ("type",)),
                         ("Constants", ("constants", "macro"))):
        found = sorted((d for h in headers for d in h.declarations() if d.kind in kinds),
                       key=lambda d: d.name)
        out += ["", f"## {title}", "", "| name | header |" + (" threads |" if title == "Functions" else ""),
                "|---|---|" + ("---|" if title == "Functions" else "")]
        for d in found:
            row = f"| [{d.name}]({target(d, '')}) | {d.header.stem}.h |"
            out += [row + (f" {d.tag() or ''} |" if title == "Functions" else "")]
    return "\n".join(out) + "\n"


# ---- The whole ----------------------------------------------------------------------------------

def exceptions():
    """Lines `comment NAME` and `tag NAME`; # begins a remark."""
    if not EXCEPTIONS.exists():
        return set()
    rows = (line.split("#")[0].split() for line in EXCEPTIONS.read_text(encoding="utf-8").split("\n"))
    return {tuple(row) for row in rows if row}


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__.strip())
        return 2
    check = bool(arguments)
    order = {stem: k for k, stem in enumerate(ORDER)}
    paths = sorted(HEADERS.glob("*.h"), key=lambda p: (order.get(p.stem, len(order)), p.stem))
    headers = [Header(path) for path in paths]
    links = {d.name: d for h in headers for d in h.declarations()}
    for header in headers:  # constants of enums lead to their enum
        for d in header.declarations():
            if "enum" in d.lines[0]:
                for name in re.findall(r"^\s*(DT_\w+)", "\n".join(d.lines), re.M):
                    links.setdefault(name, d)

    lacking = {("comment", d.name) for h in headers for d in h.declarations() if not d.documented()}
    lacking |= {("tag", d.name) for h in headers for d in h.declarations()
                if d.kind == "function" and not d.tag()}
    where = {d.name: f"include/ductile/{h.stem}.h:{d.line}" for h in headers for d in h.declarations()}
    excused = exceptions()
    failures = []
    for what, name in sorted(lacking - excused):
        failures.append(f"{where[name]}: {name} has no {'comment' if what == 'comment' else 'thread tag'}")

    pages = {PAGES / f"{h.stem}.md": page_of(h, links) for h in headers}
    pages[PAGES / "README.md"] = index_of(headers, links)
    if check:
        for what, name in sorted(excused - lacking):
            failures.append(f"test/lint/apidoc.txt: {what} {name} is not needed any more; run tools/apidoc.py")
        for path, text in pages.items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                failures.append(f"docs/api/{path.name} is not up to date; run tools/apidoc.py")
        for path in sorted(set(PAGES.glob("*")) - set(pages)):
            failures.append(f"docs/api/{path.name} is of no header")
    else:
        PAGES.mkdir(exist_ok=True)
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        if excused - lacking:
            kept = [line for line in EXCEPTIONS.read_text(encoding="utf-8").split("\n")
                    if not line.split("#")[0].split() or tuple(line.split("#")[0].split()) in lacking]
            EXCEPTIONS.write_text("\n".join(kept), encoding="utf-8")

    functions = sum(d.kind == "function" for d in links.values())
    print("\n".join(failures + [
        f"{len(headers)} headers, {functions} functions; {len(excused & lacking)} exceptions: "
        f"{sum(w == 'tag' for w, _ in excused & lacking)} functions without a thread tag, "
        f"{sum(w == 'comment' for w, _ in excused & lacking)} declarations without a comment"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
