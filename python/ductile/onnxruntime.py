# SPDX-License-Identifier: Apache-2.0
"""Ductile as an execution provider of onnxruntime (docs/onnxruntime.md).

    import ductile.onnxruntime
    session = onnxruntime.InferenceSession("model.onnx", ductile.onnxruntime.options())

onnxruntime 1.23 or later is imported when a function is called, not with this module."""

import os

__all__ = ["NAME", "add", "devices", "library", "options", "register", "unregister"]

# What onnxruntime calls the provider.
NAME = "DuctileExecutionProvider"
# What the library is registered as.
_registration = "ductile"


def library():
    """The path of the library that onnxruntime opens."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "libductile-onnxruntime.so")


def _onnxruntime():
    import onnxruntime

    if not hasattr(onnxruntime, "register_execution_provider_library"):
        raise NotImplementedError(
            f"onnxruntime {onnxruntime.__version__} has no providers in libraries: 1.23 or later is needed")
    return onnxruntime


def devices():
    """The provider's devices; none where it is not registered."""
    return [device for device in _onnxruntime().get_ep_devices() if device.ep_name == NAME]


def register():
    """Registers the library with onnxruntime; where it is registered nothing happens."""
    if not devices():
        _onnxruntime().register_execution_provider_library(_registration, library())


def unregister():
    """Undoes `register`. Sessions that there are go on; new ones do not find the provider."""
    if devices():
        _onnxruntime().unregister_execution_provider_library(_registration)


def add(options, **settings):
    """Adds the provider to an onnxruntime.SessionOptions, registered if it is not. A setting is an option of
    the provider: threads, strict, min_nodes, names_are_hints, dims, prepare, strict_fp, weights."""
    register()
    texts = {name: str(int(value)) if isinstance(value, bool) else _text(value)
             for name, value in settings.items()}
    options.add_provider_for_devices(devices(), texts)


def options(**settings):
    """A new onnxruntime.SessionOptions with the provider, as by `add`."""
    made = _onnxruntime().SessionOptions()
    add(made, **settings)
    return made


def _text(value):
    """Dims may be given as {name: size} or {name: (least, most)}."""
    if not isinstance(value, dict):
        return str(value)
    parts = []
    for name, size in value.items():
        bounds = size if isinstance(size, (tuple, list)) else (size,)
        parts.append(f"{name}={':'.join('' if bound is None else str(bound) for bound in bounds)}")
    return ",".join(parts)
