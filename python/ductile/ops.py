# SPDX-License-Identifier: Apache-2.0
"""Builders: what programs compute with. They work on Values, inside of a program that is being traced."""

from ductile import _core

globals().update(_core._ops)

_BACKWARDS, _NUMBERED = 1, 2


def constant(name, array):
    """A constant of the function: `array` is kept, and may be exchanged by Function.update(name, …)."""
    return _core._constant(name, array)


def _one_or_all(values):
    return values[0] if len(values) == 1 else values


def cond(predicate, then, otherwise, inputs=(), outputs=1):
    """then(*inputs) if `predicate`, one bool, is true, else otherwise(*inputs); both are traced, one runs."""
    return _one_or_all(_core._cond(predicate, (then, otherwise), inputs, outputs))


def switch(index, cases, inputs=(), outputs=1):
    """cases[index](*inputs); an index outside is that of the nearest case."""
    return _one_or_all(_core._switch(index, cases, inputs, outputs))


def while_loop(condition, body, state, captured=()):
    """The last state of a loop that runs while condition(*state, *captured) is true. `body` gives the next
    state, of the same dtypes and sizes. A tuple."""
    return _core._while((condition, body), state, captured)


def scan(body, init, xs, outputs=0, length=None, backwards=False, numbered=False):
    """A loop over the first axis of `xs`: body(*carry, *slices) gives the next carry and `outputs` values,
    which are stacked. A tuple: the last carry, then the stacked values."""
    flags = _BACKWARDS * bool(backwards) | _NUMBERED * bool(numbered)
    return _core._scan((body,), init, xs, outputs, length, flags)


def associative_scan(combine, xs, axis=-1, backwards=False):
    """combine(*left, *right) joins the elements of `xs` along `axis`, one after another. A tuple."""
    return _core._associative_scan((combine,), xs, axis, _BACKWARDS * bool(backwards))


def subgraph(function, inputs, outputs=1):
    """function(*inputs), which is traced once and compiled once for all calls with operands of the same
    kind, such as the layers of a model. Give what differs as operands."""
    return _one_or_all(_core._subgraph(function, inputs, outputs))
