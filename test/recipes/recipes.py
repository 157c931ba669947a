#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes of HACKING.md, followed: each patch of recipes.tsv is what its recipe led to.

usage: recipes.py [NAME…]           lint: each applies to the tree, alone and with the others before
                                    it, and touches the files that its recipe lists, no other one
       recipes.py --full [NAME…]    in a copy of the tree: applies them, builds, runs what the recipes
                                    make anew and their last commands; then takes them out again
       recipes.py --take NAME       applies one to this tree, with conflict marks where it no longer fits
       recipes.py --keep NAME       keeps this tree's changes as the patch, and takes them out

Of a recipe, each step that begins with files is for every patch. Paths in other steps, or behind a
condition, may be touched. `<x>` and `*` stand for anything.

Exit codes: 0 as it must be, 1 findings, 2 wrong usage, 77 there is no git.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts"))
from scratch import ROOT, Bench, as_it_is, run  # noqa: E402

PATH = r"[\w.*<>-]+(?:/[\w.*<>-]+)*/?"
FILE = re.compile(rf"`((?:[\w.*<>-]+/){PATH}|[\w.*<>-]+/)`")
# `a.c`, `b.h`: … at the beginning of a sentence.
HEAD = re.compile(r"(?:^|(?<=[.:;] ))((?:`[^`]+`(?:, | and )?)+):")
# What tests need and their commands do not name.
TOOLS = ["fake_cuda", "ductile-opt", "opsdoc", "envdoc", "ductile-command"]


def say(text):
    print(text, flush=True)


# ---- Recipes --------------------------------------------------------------------------------------

class Recipe:
    """A section of HACKING.md: what a patch must and may touch, and the commands."""

    def __init__(self, title, text):
        self.must, self.may, self.anew, self.made = [], [], [], []
        body, *blocks = re.split(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S)
        lines = blocks[-2].strip().splitlines() if len(blocks) > 1 else []
        self.last = lines[-1] if lines else ""
        if not self.last:
            raise SystemExit(f"HACKING.md: {title}: no command at the end")
        for step in re.split(r"^ *(?:\d+\.|-) ", body, flags=re.M)[1:]:
            self.read(re.sub(r"\s+", " ", step).strip())

    def read(self, step):
        files = FILE.findall(step)
        if step.startswith("Made anew"):
            self.made += [name for name in files if not name.startswith(("build/", "tools/"))]
            self.anew += [code for code in re.findall(r"`([^`]+)`", step)
                          if code.startswith("build/") or " --" in code or code.endswith(".py")]
            return
        # What stands in parentheses says where things come from.
        self.may += FILE.findall(re.sub(r"\([^()]*\)", "", step))
        if step.startswith("`"):
            for head in HEAD.findall(step):
                self.must += FILE.findall(head)


def recipes():
    with open(os.path.join(ROOT, "HACKING.md"), encoding="utf-8") as file:
        text = file.read()
    parts = re.split(r"^### (.*)$", text, flags=re.M)
    return {title: Recipe(title, body) for title, body in zip(parts[1::2], parts[2::2])
            if "```sh" in body}


def fits(path, pattern):
    if pattern.endswith("/"):
        return path.startswith(pattern)
    parts = re.split(r"<[^>]*>|\*", pattern)
    return re.fullmatch("[^/]*".join(re.escape(part) for part in parts), path) is not None


def rows():
    """Of each patch the titles of its recipes."""
    found = {}
    with open(os.path.join(HERE, "recipes.tsv"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, titles = line.rstrip("\n").split("\t")
                found[name] = titles.split(", ")
    return found


# ---- Patches --------------------------------------------------------------------------------------

def path_of(name):
    return os.path.join(HERE, name + ".patch")


def git(*arguments, cwd=ROOT):
    return run(["git", *arguments], cwd, dict(os.environ))


def touched(name):
    with open(path_of(name), encoding="utf-8") as file:
        return re.findall(r"^diff --git a/(\S+) b/", file.read(), re.M)


def lint(names, table):
    findings, known = [], recipes()
    kept = {entry[:-6] for entry in os.listdir(HERE) if entry.endswith(".patch")}
    findings += [f"{name}: a patch without a row" for name in sorted(kept - set(table))]
    findings += [f"{name}: a row without a patch" for name in sorted(set(table) - kept)]
    names = [name for name in names if name in kept]
    for name in names:
        unknown = [title for title in table[name] if title not in known]
        findings += [f"{name}: HACKING.md has no recipe \"{title}\"" for title in unknown]
        if unknown:
            continue
        files = touched(name)
        followed = [known[title] for title in table[name]]
        listed = [pattern for recipe in followed for pattern in recipe.may]
        findings += [f"{name}: {file} is in no step of {', '.join(table[name])}" for file in files
                     if not any(fits(file, pattern) for pattern in listed)]
        findings += [f"{name}: {pattern}: a step of {title}, and the patch does not touch it"
                     for title, recipe in zip(table[name], followed) for pattern in recipe.must
                     if not any(fits(file, pattern) for file in files)]
        status, output = git("apply", "--check", path_of(name))
        if status:
            findings.append(f"{name}: does not apply: recipes.py --take {name} and --keep {name} make it "
                            f"anew\n{output.strip()}")
    # Together, as the full form builds them.
    status, output = git("apply", "--check", *[path_of(name) for name in names])
    if status and not findings:
        findings.append(f"together they do not apply\n{output.strip()}")
    return findings


# ---- The full form --------------------------------------------------------------------------------

class Copy(Bench):
    """A copy of the tree with its build where HACKING.md has it, so that its commands hold as they are."""

    def __init__(self, folder, jobs):
        super().__init__(folder, jobs, change=as_it_is)
        self.build = os.path.join(self.tree, "build", "dev")
        if shutil.which("ccache"):
            self.env["CMAKE_C_COMPILER_LAUNCHER"] = "ccache"
        self.env["CTEST_PARALLEL_LEVEL"] = str(jobs)

    def shell(self, command):
        return run(["bash", "-c", command], self.tree, self.env)

    def prepare(self):
        status, output = self.shell("cmake --preset dev")
        if status:
            sys.exit(f"configuring failed:\n{output}")
        self.programs = self.find_programs()

    def changed(self):
        """Files that differ from the tree's, or are in one of both."""
        listed = git("ls-files", "--cached", "--others", "--exclude-standard")[1].split("\n")
        names = {name for name in listed if name and os.path.isfile(os.path.join(ROOT, name))}
        here = set()
        for folder, folders, files in os.walk(self.tree):
            if folder == self.tree:
                folders[:] = [name for name in folders if name not in ("build", ".deps")]
            here |= {os.path.relpath(os.path.join(folder, file), self.tree) for file in files}
        found = sorted(name for name in names ^ here if not name.endswith(".pyc"))
        for name in sorted(names & here):
            with open(os.path.join(ROOT, name), "rb") as a, open(os.path.join(self.tree, name), "rb") as b:
                if a.read() != b.read():
                    found.append(name)
        return found


def tests_of(copy, command):
    pattern = re.search(r"-R '([^']*)'", command)
    return [name for name in copy.programs if pattern and re.search(pattern[1], name)]


def follow(copy, names, table):
    """Applies, makes anew, builds, runs; what is wrong."""
    known = recipes()
    followed = {title: known[title] for name in names for title in table[name]}
    say(f"{', '.join(names)}: applying")
    status, output = run(["git", "apply", *[path_of(name) for name in names]], copy.tree,
                         dict(copy.env, GIT_CEILING_DIRECTORIES=os.path.dirname(copy.tree)))
    if status:
        return [f"{', '.join(names)}: {output.strip()}"]
    copy.prepare()
    commands = list(dict.fromkeys(code for recipe in followed.values() for code in recipe.anew))
    say("building what makes texts anew")
    status, output = copy.ninja(TOOLS)
    if status:
        return ["does not build\n" + "\n".join(output.splitlines()[-30:])]
    for command in commands:
        status, output = copy.shell(command)
        if status:
            return [f"{command}: {output.strip()}"]
    findings = []
    listed = [pattern for recipe in followed.values() for pattern in recipe.made]
    files = {file for name in names for file in touched(name)}
    findings += [f"{file} changed, and no step lists it" for file in copy.changed()
                 if file not in files and not any(fits(file, pattern) for pattern in listed)]
    for title, recipe in followed.items():
        tests = tests_of(copy, recipe.last)
        if not tests:
            findings.append(f"{title}: no test for {recipe.last}")
            continue
        say(f"{title}: building {len(tests)} tests")
        status, output = copy.compile(tests)
        if status:
            findings.append(f"{title}: does not build\n" + "\n".join(output.splitlines()[-30:]))
            continue
        say(f"{title}: {recipe.last}")
        status, output = copy.shell(recipe.last)
        say("\n".join(output.strip().splitlines()[-6 if status == 0 else -60:]))
        if status:
            findings.append(f"{title}: the last command fails")
    return findings


def full(options, names, table):
    copy = Copy(options.dir, options.jobs)
    findings = follow(copy, names, table)
    if findings and len(names) > 1 and not options.together:
        for finding in findings:
            say(finding)
        say("one by one:")
        findings = []
        for name in names:
            copy = Copy(options.dir, options.jobs)
            findings += [f"{name}: {finding}" for finding in follow(copy, [name], table)]
    Copy(options.dir, options.jobs)  # as it was
    left = [file for file in copy.changed()]
    findings += [f"{file}: differs when the patches are out again" for file in left]
    return findings


# ---- Refreshing -----------------------------------------------------------------------------------

def changes():
    """Changed files of this tree, but for this folder's."""
    status, output = git("status", "--porcelain", "--untracked-files=all")
    return [line[3:] for line in output.splitlines() if not line[3:].startswith("test/recipes/")]


def take(name):
    if changes():
        return ["this tree has changes: commit them first"]
    status, output = git("apply", "--3way", path_of(name))
    say(output.strip())
    say(f"mend what has marks, build, run the recipe's last command; then recipes.py --keep {name}")
    return []


def keep(name, table):
    git("reset", "-q")
    made = [pattern for title in table[name] for pattern in recipes()[title].made]
    files = [file for file in changes()]
    written = [file for file in files if not any(fits(file, pattern) for pattern in made)]
    if not written:
        return ["there is nothing to keep"]
    git("add", "--intent-to-add", "--", *written)
    done = subprocess.run(["git", "diff", "-U1", "--", *sorted(written)], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE)
    with open(path_of(name), "wb") as file:
        file.write(done.stdout)
    git("reset", "-q")
    for file in files:
        if git("ls-files", "--error-unmatch", file)[0]:
            os.remove(os.path.join(ROOT, file))
        else:
            git("checkout", "--", file)
    say(f"{path_of(name)}: {len(written)} files")
    return []


def parse(argv):
    parser = argparse.ArgumentParser(prog="test/recipes/recipes.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--full", action="store_true", help="build them and run the recipes' commands")
    parser.add_argument("--together", action="store_true", help="with --full: not one by one on failure")
    parser.add_argument("--take", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--dir", default=os.path.join(ROOT, "build", "recipes"),
                        help="where the copy and its build are kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the build")
    return parser.parse_args(argv)


def main(argv):
    options = parse(argv)
    if not shutil.which("git"):
        say("SKIP: there is no git")
        return 77
    table = rows()
    names = options.names or list(table)
    unknown = [name for name in names if name not in table]
    if unknown or ((options.take or options.keep) and len(options.names) != 1):
        say(f"no row of recipes.tsv: {', '.join(unknown)}" if unknown else "one NAME is wanted")
        return 2
    if options.take:
        findings = take(names[0])
    elif options.keep:
        findings = keep(names[0], table)
    elif options.full:
        findings = full(options, names, table)
    else:
        findings = lint(names, table)
    for finding in findings:
        say(finding)
    if not options.take and not options.keep:
        say(f"{len(names)} recipes followed, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
