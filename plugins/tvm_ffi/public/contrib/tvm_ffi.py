"""Convert functions and tensors between apache-tvm-ffi and tvmrt, in both directions.

``to_tvm_ffi`` and ``from_tvm_ffi`` convert Python objects. A converted function is C code on both
sides: its calls convert arguments and results without Python, on any thread. ``safe_call``,
``packed_call`` and their inverses are for C code, which calls functions by address.

A call converts, in both directions:

- None, int, float, bool, raw pointers, devices and data types by value; text and bytes as borrowed
  arguments, and as copies when they are results;
- an NDArray and a Tensor share their memory. A tvm-ffi tensor with memory aligned to less than 64
  bytes is an NDArray only during the call: as a result it is copied. A tensor that is not
  contiguous is rejected, as everywhere in tvmrt;
- functions become functions. Converting one back gives the original function;
- errors keep their kind and message: a ValueError on one side is a ValueError on the other. An
  error without a kind is a ``tvmrt.TVMError``;
- arrays, maps and shapes are copied; tensors and functions in them are shared. A tvm-ffi module is
  a module; a tvmrt module becomes a function from names to functions.
"""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

try:
    import tvm_ffi
except ModuleNotFoundError as error:
    if error.name != "tvm_ffi":
        raise
    raise ImportError(
        "tvmrt.contrib.tvm_ffi needs the package apache-tvm-ffi: pip install apache-tvm-ffi"
    ) from None

from tvmrt import error as _error
from tvmrt.runtime import Module, NDArray, PackedFunc, convert_to_tvm_func, get_global_func
from tvmrt.runtime.ndarray import from_dlpack

__all__ = [
    "TVM_FFI_VERSION",
    "CFunction",
    "from_packed_call",
    "from_safe_call",
    "from_tvm_ffi",
    "packed_call",
    "safe_call",
    "to_tvm_ffi",
]


def _join(path: str) -> tuple[int, ...]:
    """Connect the bridge to this libtvm_ffi; return its version or raise ImportError."""
    try:
        get_global_func("tvmrt.tvm_ffi.start")()
        version = get_global_func("tvmrt.tvm_ffi.join")(str(path))
    except (OSError, _error.TVMError) as failure:
        raise ImportError(str(failure)) from None
    return tuple(int(part) for part in version.split("."))


TVM_FFI_VERSION: tuple[int, ...] = _join(tvm_ffi.libinfo.find_libtvm_ffi())
"""Version of the ABI of the loaded libtvm_ffi."""

_SAFE_CALL: int = get_global_func("tvmrt.tvm_ffi.address")("safe_call").value
_PACKED_CALL: int = get_global_func("tvmrt.tvm_ffi.address")("packed_call").value

_from_packed_func = tvm_ffi.get_global_func("tvmrt.from_packed_func")
_from_c_packed_func = tvm_ffi.get_global_func("tvmrt.from_c_packed_func")
_from_function = get_global_func("tvmrt.tvm_ffi.from_function")
_from_safe_call = get_global_func("tvmrt.tvm_ffi.from_safe_call")


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


def _pointer(address: int) -> ctypes.c_void_p | None:
    return ctypes.c_void_p(address) if address else None


class CFunction(NamedTuple):
    """C function given by an address and a handle as its context.

    Both are valid while this object, or another owner of the function, is alive.
    """

    address: int
    """Address of the C function."""
    handle: int
    """What it is called with."""
    function: Any
    """The function itself, kept alive here."""


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
    if isinstance(value, PackedFunc):
        return _from_packed_func(ctypes.c_void_p(value.handle))
    if isinstance(value, NDArray):
        return tvm_ffi.from_dlpack(value)
    if isinstance(value, Module):
        return to_tvm_ffi(convert_to_tvm_func(lambda: value))()  # converted as a result
    kind = type(value).__name__
    raise TypeError(f"to_tvm_ffi() takes a PackedFunc, a Module or an NDArray, not a {kind}")


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


def safe_call(function: PackedFunc | Callable[..., Any]) -> CFunction:
    """Return a packed function in the form for C code of tvm-ffi.

    Parameters
    ----------
    function
        A PackedFunc, or a callable that is converted to one.

    Returns
    -------
    CFunction
        ``address`` is a ``TVMFFISafeCallType`` to be called with ``handle`` as its first argument.
    """
    packed = convert_to_tvm_func(function)
    return CFunction(_SAFE_CALL, packed.handle, packed)


def from_safe_call(address: int, handle: int = 0, keep_alive: Any = None) -> PackedFunc:
    """Return a PackedFunc that calls a tvm-ffi C function.

    Parameters
    ----------
    address
        Address of a ``TVMFFISafeCallType``, such as a library's symbol ``__tvm_ffi_<name>``.
    handle
        Its first argument.
    keep_alive
        Object that must live as long as the PackedFunc: the library, or the owner of the handle.
    """
    owner = None if keep_alive is None else convert_to_tvm_func(lambda: keep_alive)
    return _from_safe_call(ctypes.c_void_p(address), _pointer(handle), owner)


def packed_call(function: Any) -> CFunction:
    """Return a tvm-ffi function in the form for classic C code.

    Parameters
    ----------
    function
        A ``tvm_ffi.Function``, or a callable that is converted to one.

    Returns
    -------
    CFunction
        ``address`` is a ``TVMCPackedFunc`` to be called with ``handle`` as its resource handle.
        Text is returned as a String object; bytes cannot be returned.
    """
    if not isinstance(function, tvm_ffi.Function):
        function = tvm_ffi.convert(function)
    return CFunction(_PACKED_CALL, function.__chandle__(), function)


def from_packed_call(address: int, handle: int = 0, keep_alive: Any = None) -> Any:
    """Return a ``tvm_ffi.Function`` that calls a classic C function.

    Parameters
    ----------
    address
        Address of a ``TVMCPackedFunc``, such as an operator of a compiled library.
    handle
        Its resource handle.
    keep_alive
        Object that must live as long as the Function: the library, or the owner of the handle.
    """
    owner = None if keep_alive is None else tvm_ffi.convert(lambda: keep_alive)
    return _from_c_packed_func(ctypes.c_void_p(address), _pointer(handle), owner)
