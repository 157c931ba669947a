#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: python/stubs.py [--check]. Writes python/ductile/ops.pyi from the tables of builders, or with --check
says whether it is what they make. Exit codes: 0 it is, 1 it is not."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "ductile" / "ops.pyi"
TABLES = {"unary": "v x", "binary": "v a, v b", "reduce": "v x, a axes=, b keepdims=0"}
TYPES = {"v": "Operand", "p": "Operand", "x": "Operand", "o": "Operand | None", "V": "Sequence[Operand]",
         "i": "int", "u": "int", "f": "float", "b": "bool", "d": "Dtype", "t": "str", "s": "Dim",
         "S": "Dim | Sequence[Dim]", "A": "Dim | Sequence[Dim] | None", "a": "int | Sequence[int] | None"}
RESULTS = {"VALUE": "Value", "VALUES": "tuple[Value, ...]", "SIZE": "Size | int", "TRUTH": "bool",
           "NOTHING": "None"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Made by python/stubs.py from lower/graph/ops.def and python/src/builders.def; do not edit.
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ductile._core import Dtype, Size, Value

Dim = int | Size
# A number takes the dtype of the other operands; an array is a constant.
Operand = Any
Results = Value | tuple[Value, ...]
Body = Callable[..., Any]

def constant(name: str, array: Any) -> Value: ...
def cond(
    predicate: Operand, then: Body, otherwise: Body, inputs: Sequence[Operand] = (), outputs: int = 1
) -> Any: ...
def switch(index: Operand, cases: Sequence[Body], inputs: Sequence[Operand] = (), outputs: int = 1) -> Any: ...
def while_loop(
    condition: Body, body: Body, state: Sequence[Operand], captured: Sequence[Operand] = ()
) -> tuple[Value, ...]: ...
def scan(
    body: Body, init: Sequence[Operand], xs: Sequence[Operand], outputs: int = 0, length: Dim | None = None,
    backwards: bool = False, numbered: bool = False
) -> tuple[Value, ...]: ...
def associative_scan(
    combine: Body, xs: Sequence[Operand], axis: int = -1, backwards: bool = False
) -> tuple[Value, ...]: ...
def subgraph(function: Body, inputs: Sequence[Operand], outputs: int = 1) -> Any: ...
'''


def rows():
    """Kind, name and arguments of each builder."""
    for line in (ROOT / "lower" / "graph" / "ops.def").read_text(encoding="utf-8").splitlines():
        if line.startswith("OP("):
            cells = [cell.strip() for cell in line[3:].split(",", 11)]
            if cells[8] in TABLES:
                yield "VALUE", cells[0], TABLES[cells[8]]
    for line in (ROOT / "python" / "src" / "builders.def").read_text(encoding="utf-8").splitlines():
        match = re.match(r'([A-Z]+)\((\w+), "([^"]*)"', line)
        if match:
            yield match.groups()


def parameter(text):
    match = re.match(r"(\w)(\{[^}]*\})? *(\w+)(=(.*))?$", text)
    letter, words, name, default, value = match.groups()
    kind = f"Literal[{', '.join(repr(word) for word in words[1:-1].split())}]" if words else TYPES[letter]
    kind = kind.replace("'", '"')
    if default is None:
        return f"{name}: {kind}"
    if value == "":
        value = "None"
    elif letter == "b":
        value = str(value == "1")
    elif letter == "f":
        value = repr(float(value))
    elif letter not in "ius":
        value = f'"{value}"'
    return f"{name}: {kind} = {value}"


def made():
    text = HEAD
    for kind, name, arguments in rows():
        inside = ", ".join(parameter(part.strip()) for part in arguments.split(","))
        text += f"def {name}({inside}) -> {RESULTS[kind]}: ...\n"
    return text


def main():
    if sys.argv[1:] != ["--check"]:
        STUB.write_text(made(), encoding="utf-8")
        return 0
    if STUB.read_text(encoding="utf-8") == made():
        return 0
    print("python/ductile/ops.pyi is not what the tables make: run python/stubs.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
