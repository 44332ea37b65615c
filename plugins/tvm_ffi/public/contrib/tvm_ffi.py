"""Convert functions, modules and tensors between apache-tvm-ffi and tvmrt, in both directions.

A converted function is C code on both sides: its calls convert arguments, results and errors
without Python, on any thread. A converted tensor shares its memory.
"""

from __future__ import annotations

import builtins
import ctypes
from typing import Any

try:
    import tvm_ffi
except ModuleNotFoundError as error:
    if error.name != "tvm_ffi":
        raise
    raise ImportError(
        "tvmrt.contrib.tvm_ffi needs the package apache-tvm-ffi: pip install apache-tvm-ffi"
    ) from None

from tvmrt import error as _error
from tvmrt.runtime import Module, NDArray, PackedFunc, get_global_func
from tvmrt.runtime.ndarray import from_dlpack

__all__ = ["from_tvm_ffi", "to_tvm_ffi"]


def _load(path: str) -> None:
    """Connect the bridge to this libtvm_ffi, or raise ImportError."""
    try:
        get_global_func("tvmrt.tvm_ffi.load")(str(path))
    except (OSError, _error.TVMError) as failure:
        raise ImportError(str(failure)) from None


_load(tvm_ffi.libinfo.find_libtvm_ffi())

_from_function = get_global_func("tvmrt.tvm_ffi.from_function")


def _introduce_errors() -> None:
    """Register Python's and tvmrt's exceptions with tvm_ffi, unless their names are taken."""
    for kind in (*vars(builtins).values(), *vars(_error).values()):
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            continue
        if issubclass(kind, UnicodeError) or not kind.__name__.endswith("Error"):
            continue  # needs more than a text, or is ambiguous with other words before a colon
        if kind.__name__ not in tvm_ffi.core.ERROR_NAME_TO_TYPE:
            tvm_ffi.register_error(kind.__name__, kind)


_introduce_errors()


def to_tvm_ffi(value: Any) -> Any:
    """Return a tvmrt function, module or tensor as a tvm-ffi object.

    Parameters
    ----------
    value
        A PackedFunc, a Module, or an NDArray.

    Returns
    -------
    tvm_ffi.Function or tvm_ffi.Tensor
        The result keeps `value` alive. A module becomes a function from names to functions. A
        tensor shares the memory. A function that came from tvm-ffi is returned as the original.

    Raises
    ------
    TypeError
        If the value has another type.
    ValueError
        If the NDArray is borrowed for the duration of a call.
    """
    if isinstance(value, NDArray):
        return tvm_ffi.from_dlpack(value)
    if not isinstance(value, (PackedFunc, Module)):
        kind = type(value).__name__
        raise TypeError(f"to_tvm_ffi() takes a PackedFunc, a Module or an NDArray, not a {kind}")
    received: list[Any] = []  # the bridge converts arguments of calls
    from_tvm_ffi(tvm_ffi.convert(received.append))(value)
    return received[0]


def from_tvm_ffi(value: Any) -> Any:
    """Return a tvm-ffi function, module or tensor as a tvmrt object.

    Parameters
    ----------
    value
        A ``tvm_ffi.Function``, a ``tvm_ffi.Module``, or a contiguous ``tvm_ffi.Tensor``.

    Returns
    -------
    PackedFunc, Module or NDArray
        The result keeps `value` alive. A tensor shares the memory. A function that came from tvmrt
        is returned as the original.

    Raises
    ------
    TypeError
        If the value has another type.
    ValueError
        If the tensor is not contiguous.
    """
    if isinstance(value, tvm_ffi.Function):
        return _from_function(ctypes.c_void_p(value.__chandle__()))
    if isinstance(value, tvm_ffi.Tensor):
        return from_dlpack(value)
    if isinstance(value, tvm_ffi.Module):
        return from_tvm_ffi(tvm_ffi.convert(lambda: value))()  # converted as a result
    kind = type(value).__name__
    raise TypeError(f"from_tvm_ffi() takes a tvm_ffi.Function, Module or Tensor, not a {kind}")
