# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree and its build, in which scripts try changes: mutants, recipes, tables, growth."""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(command, cwd, env, limit=None):
    """Exit status and output; None for a command that took longer than `limit` seconds."""
    try:
        done = subprocess.run(command, cwd=cwd, env=env, timeout=limit, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def as_it_is(name, data):
    """What copy_tree does with the bytes of file `name`."""
    return data


def copy_tree(tree, change=as_it_is):
    """Brings the copy to the state of this tree; files that are the same keep their times."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    names = [name for name in listed.decode().split("\0") if name]
    wanted = set(names)
    for folder, folders, files in os.walk(tree):
        if folder == tree:
            folders[:] = [name for name in folders if name not in (".deps", "build")]
        for name in files:
            path = os.path.join(folder, name)
            if os.path.relpath(path, tree) not in wanted:
                os.remove(path)
    for name in names:
        source, target = os.path.join(ROOT, name), os.path.join(tree, name)
        if not os.path.isfile(source):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as file:
            wanted_data = change(name, file.read())
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == wanted_data:
                    continue
        with open(target, "wb") as file:
            file.write(wanted_data)
        shutil.copymode(source, target)
    deps = os.path.join(tree, ".deps")
    if os.path.isdir(os.path.join(ROOT, ".deps")) and not os.path.lexists(deps):
        os.symlink(os.path.join(ROOT, ".deps"), deps)


class Bench:
    """The copy of the tree in `folder`, each file as `change` makes it, and its build. Without a
    change at all (None) there is no copy: `folder` is a build of the tree itself."""

    def __init__(self, folder, jobs, limit=None, change=as_it_is):
        folder = os.path.abspath(folder)
        self.tree = os.path.join(folder, "tree") if change else ROOT
        self.build = os.path.join(folder, "build") if change else folder
        self.jobs = jobs
        self.limit = limit
        self.env = dict(os.environ)
        self.programs = {}
        if change:
            os.makedirs(self.tree, exist_ok=True)
            copy_tree(self.tree, change)

    def configure(self, *more):
        """By CMake's `more` arguments, of which a --preset may be one."""
        command = ["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", *more]
        if shutil.which("ccache"):
            command.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
        status, output = run(command, self.tree, self.env)
        if status:
            sys.exit(f"configuring failed:\n{output}")
        self.programs = self.find_programs()

    def find_programs(self):
        """Of each test, what of the build its command names, as Ninja's targets: programs, and folders
        `x.d`, which are made with x.stamp."""
        status, output = run(["ninja", "-C", self.build, "-t", "targets", "all"], self.tree, self.env)
        if status:
            sys.exit(f"listing the targets failed:\n{output}")
        targets = {line.split(":")[0] for line in output.split("\n")}
        begin = self.build + os.sep
        programs = {}
        for folder, _, files in os.walk(self.build):
            if "CTestTestfile.cmake" not in files:
                continue
            with open(os.path.join(folder, "CTestTestfile.cmake"), encoding="utf-8") as file:
                for name, command in re.findall(r"^add_test\((?:\[=*\[)?([^\s\]]+)(?:\]=*\])? (.*)\)$",
                                                file.read(), re.M):
                    words = [word[len(begin):] for word in re.findall(r'"([^"]*)"', command)
                             if word.startswith(begin)]
                    words += [word[:-2] + ".stamp" for word in words if word.endswith(".d")]
                    programs[name] = [word for word in words if word in targets]
        return programs

    def compile(self, tests):
        unknown = sorted(test for test in tests if test not in self.programs)
        if unknown:
            sys.exit(f"there is no test {', '.join(unknown)}")
        return self.ninja(sorted({program for test in tests for program in self.programs[test]}))

    def ninja(self, targets):
        return run(["ninja", "-C", self.build, f"-j{self.jobs}", *targets], self.tree, self.env)

    def test(self, name):
        return run(["ctest", "--test-dir", self.build, "--no-tests=error", "-R",
                    "^" + name.replace(".", r"\.") + "$", "--output-on-failure"],
                   self.tree, self.env, self.limit)
