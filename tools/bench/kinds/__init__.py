# SPDX-License-Identifier: Apache-2.0
"""Kinds of models at practical widths, for benchmarks. A kind is a file; the table lists them."""
from . import (decoders, dense, depthwise, encoders, rankers, real, recurrent, residual, speech,
               tiny, unets, vision)
from .graph import Model
from .quantise import VARIANTS

# `tiny` is for the tools' own test and not measured unless it is named.
FILES = (encoders, decoders, vision, residual, depthwise, dense, unets, speech, recurrent, rankers,
         real)
TABLE = {model.name: model for file in FILES for model in file.MODELS}
KINDS = tuple(dict.fromkeys(model.kind for model in TABLE.values()))
TESTED = {model.name: model for model in tiny.MODELS}


def chosen(words):
    """The models that kinds and names choose; all without any. KeyError for a word that is neither."""
    found = {}
    for word in words or KINDS:
        own = [m for m in (*TABLE.values(), *TESTED.values()) if word in (m.kind, m.name)]
        if not own:
            raise KeyError(word)
        found.update((m.name, m) for m in own)
    return list(found.values())


__all__ = ["KINDS", "Model", "TABLE", "VARIANTS", "chosen"]
