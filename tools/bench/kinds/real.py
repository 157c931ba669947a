# SPDX-License-Identifier: Apache-2.0
"""The trained models that the tests take from public packages (scripts/fetch-models), at three of the
sizes of test/onnx/models.py: least, middle, most."""
import importlib.util
import inspect
import math
import os
import pathlib

from .graph import Model

ROOT = pathlib.Path(__file__).resolve().parents[3]


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "ductile" / "models-1"


def three_of(sizes):
    ordered = sorted(sizes, key=math.prod)
    return tuple(dict.fromkeys((ordered[0], ordered[len(ordered) // 2], ordered[-1])))


def models():
    spec = importlib.util.spec_from_file_location("tested", ROOT / "test" / "onnx" / "models.py")
    tested = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tested)
    rows = []
    for name, where, file, make, sizes in tested.MODELS:
        if where == "wheels":
            dims = tuple(inspect.signature(make).parameters)[1:]
            rows.append(Model("real", name, None, make, dims, three_of(sizes),
                              path=str(folder() / file)))
    return rows


MODELS = models()
