# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any, Literal

NAME: str

def library() -> str: ...
def devices() -> list[Any]: ...
def register() -> None: ...
def unregister() -> None: ...
def add(
    options: Any,
    *,
    threads: int | Literal["session"] = "session",
    strict: bool = False,
    min_nodes: int = 4,
    names_are_hints: bool = False,
    dims: str | Mapping[str, int | tuple[int | None, int | None]] = "",
    prepare: Literal["best", "first", "none"] = "best",
    strict_fp: bool = False,
    weights: Literal["", "bf16"] = "",
) -> None: ...
def options(
    *,
    threads: int | Literal["session"] = "session",
    strict: bool = False,
    min_nodes: int = 4,
    names_are_hints: bool = False,
    dims: str | Mapping[str, int | tuple[int | None, int | None]] = "",
    prepare: Literal["best", "first", "none"] = "best",
    strict_fp: bool = False,
    weights: Literal["", "bf16"] = "",
) -> Any: ...
