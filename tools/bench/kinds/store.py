# SPDX-License-Identifier: Apache-2.0
"""Where made models lie: a folder of the user's cache, a file a model and variant, made once.

A file's name has the digest of what made it: graph.py, the file of its kind, for variants
quantise.py, and the versions of onnx and onnxruntime. Files of the same model that other versions
made go when a new one is made.
"""
import hashlib
import os
import pathlib
import sys
import tempfile

import onnx
import onnxruntime

from . import quantise

HERE = pathlib.Path(__file__).resolve().parent


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "ductile" / "bench-models"


def digest(model, variant):
    state = hashlib.sha256(f"{onnx.__version__} {onnxruntime.__version__}".encode())
    if model.path:
        state.update(pathlib.Path(model.path).read_bytes())
    else:
        state.update((HERE / "graph.py").read_bytes())
        state.update(pathlib.Path(sys.modules[model.inputs.__module__].__file__).read_bytes())
        state.update(pathlib.Path(model.build.__code__.co_filename).read_bytes())
    if variant != "f32":
        state.update((HERE / "quantise.py").read_bytes())
    return state.hexdigest()[:12]


def write(path, make):
    """The file whole or not at all; what `make` says of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".onnx")
    os.close(handle)
    try:
        good = make(pathlib.Path(name))
        if good:
            os.replace(name, path)
        else:
            path.with_suffix(".none").touch()
        return good
    finally:
        pathlib.Path(name).unlink(missing_ok=True)
        for more in path.parent.glob(pathlib.Path(name).name + "*"):
            more.unlink()


def clear_older(path):
    name, _, variant = path.stem.split(".")
    for old in path.parent.glob(f"{name}.*.{variant}.*"):
        if old.stem != path.stem:
            old.unlink()


def base(model):
    if model.path:
        return pathlib.Path(model.path)
    path = folder() / f"{model.name}.{digest(model, 'f32')}.f32.onnx"
    if not path.exists():
        def make(out):
            onnx.save(model.build(), out)
            return True

        write(path, make)
        clear_older(path)
    return path


def file_of(model, variant):
    """The path of the model's variant; None where there is no such variant."""
    if variant == "f32":
        return base(model)
    if variant not in model.variants:
        return None
    path = folder() / f"{model.name}.{digest(model, variant)}.{variant}.onnx"
    if not path.exists() and not path.with_suffix(".none").exists():
        source = base(model)
        write(path, lambda out: quantise.quantise(model, variant, source, out))
        clear_older(path)
    return path if path.exists() else None
