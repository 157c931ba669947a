# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from ductile import ops as ops
from ductile._core import ArgumentError as ArgumentError
from ductile._core import Cancel as Cancel
from ductile._core import CancelledError as CancelledError
from ductile._core import CompileError as CompileError
from ductile._core import DeadlineError as DeadlineError
from ductile._core import DeviceError as DeviceError
from ductile._core import Dtype
from ductile._core import DtypeError as DtypeError
from ductile._core import Error as Error
from ductile._core import ForkedError as ForkedError
from ductile._core import FormatError as FormatError
from ductile._core import Function as Function
from ductile._core import InternalError as InternalError
from ductile._core import IoError as IoError
from ductile._core import LimitError as LimitError
from ductile._core import NoMemoryError as NoMemoryError
from ductile._core import Package as Package
from ductile._core import Profile as Profile
from ductile._core import RangeError as RangeError
from ductile._core import Runtime as Runtime
from ductile._core import Session as Session
from ductile._core import ShapeError as ShapeError
from ductile._core import Size as Size
from ductile._core import Spec as Spec
from ductile._core import StateError as StateError
from ductile._core import Tensor as Tensor
from ductile._core import UnsupportedError as UnsupportedError
from ductile._core import Value as Value
from ductile._core import __version__ as __version__
from ductile._core import empty as empty
from ductile._core import from_dlpack as from_dlpack
from ductile._core import load as load
from ductile._core import open_package as open_package
from ductile._core import runtime as runtime
from ductile._core import tensor as tensor
from ductile._core import write_package as write_package

class Dim:
    fields: dict[str, Any]
    def __init__(
        self,
        name: str | None = None,
        *,
        min: int = 0,
        max: int = 0,
        multiple_of: int = 0,
        mark: Literal["none", "dynamic", "maybe_dynamic", "static", "unbacked"] = "none",
        of: str | None = None,
        scale: int = 1,
        offset: int = 0,
    ) -> None: ...

class Input:
    fields: dict[str, Any]
    dims: tuple[None | int | str | Dim, ...]
    def __init__(
        self,
        name: str,
        dtype: Dtype,
        dims: Sequence[None | int | str | Dim] = (),
        *,
        kind: Literal["tensor", "integer", "boolean", "integers", "donated"] = "tensor",
        alignment: int = 0,
    ) -> None: ...

@overload
def function(
    program: Callable[..., Any],
    *,
    inputs: Sequence[Input],
    outputs: int = 1,
    runtime: Runtime | None = None,
    **options: Any,
) -> Function: ...
@overload
def function(
    program: None = None,
    *,
    inputs: Sequence[Input],
    outputs: int = 1,
    runtime: Runtime | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Function]: ...
