# SPDX-License-Identifier: Apache-2.0
"""Ductile compiles tensor programs when they are called, for sizes that change from call to call."""

from ductile import _core, ops
from ductile._core import (
    Cancel,
    Error,
    Function,
    Package,
    Profile,
    Runtime,
    Session,
    Size,
    Spec,
    Tensor,
    Value,
    __version__,
    empty,
    from_dlpack,
    load,
    open_package,
    runtime,
    tensor,
    write_package,
)

# A class for each code of a failure: ShapeError, DtypeError, …
_errors = {
    name: value
    for name, value in vars(_core).items()
    if isinstance(value, type) and issubclass(value, Error)
}
globals().update(_errors)


class Dim:
    """What is declared of a dim: its name, its bounds, what it is a multiple of, or how it follows from
    the dims named `of`. `mark` is "none", "dynamic", "maybe_dynamic", "static" or "unbacked"."""

    def __init__(self, name=None, *, min=0, max=0, multiple_of=0, mark="none", of=None, scale=1, offset=0):
        self.fields = {"name": name, "min": min, "max": max, "multiple_of": multiple_of, "mark": mark}
        if of is not None:
            self.fields.update(of=of, scale=scale, offset=offset)

    def __repr__(self):
        return f"ductile.Dim({', '.join(f'{name}={value!r}' for name, value in self.fields.items() if value)})"


class Input:
    """An input of a traced program. A dim is None (any size), a number, a name, or a Dim. `kind` is
    "tensor", "integer", "boolean", "integers" or "donated"."""

    def __init__(self, name, dtype, dims=(), *, kind="tensor", alignment=0):
        self.fields = {"name": name, "dtype": dtype, "kind": kind, "alignment": alignment}
        self.dims = tuple(dims)

    def __repr__(self):
        return f"ductile.Input({self.fields['name']!r}, {self.fields['dtype']!r}, {list(self.dims)!r})"


def function(program=None, *, inputs, outputs=1, runtime=None, **options):
    """A Function of a Python program, which is called with Values to record what it does; also as a
    decorator. `outputs` is how many values the program returns."""
    if program is None:
        return lambda traced: function(traced, inputs=inputs, outputs=outputs, runtime=runtime, **options)
    options.setdefault("name", getattr(program, "__name__", None))
    return _core._trace(program, tuple(inputs), outputs, runtime, **options)


__all__ = [
    "Cancel", "Dim", "Error", "Function", "Input", "Package", "Profile", "Runtime", "Session", "Size", "Spec",
    "Tensor", "Value", "__version__", "empty", "from_dlpack", "function", "load", "open_package", "ops", "runtime",
    "tensor", "write_package", *sorted(set(_errors) - {"Error"}),
]
