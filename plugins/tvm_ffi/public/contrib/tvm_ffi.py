"""Functions and tensors of the package apache-tvm-ffi as tvmrt's, and the other way round.

``to_tvm_ffi`` and ``from_tvm_ffi`` convert what Python holds. A converted function is C on both
sides: its calls convert arguments and results without Python, on any thread. ``safe_call``,
``packed_call`` and their opposites are for C, which calls functions by address.

What a call converts, in both directions:

- None, int, float, bool, raw pointers, devices and data types by value; text and bytes as borrowed
  arguments, and as copies when they are results;
- an NDArray and a Tensor share their memory. A tensor of tvm-ffi whose memory is aligned to less
  than 64 bytes is an NDArray for the time of the call only: as a result it is copied. One that is
  not contiguous is refused, as everywhere in tvmrt;
- functions become functions. One that goes back to where it came from is the same again;
- errors keep their kind and message: a ValueError on one side is a ValueError on the other. What
  has no kind is a ``tvmrt.TVMError``;
- arrays, maps and shapes are made anew on the other side; tensors and functions in them are shared.
  A module of tvm-ffi is a module; one of tvmrt becomes a function from names to functions.
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
    """Let the bridge use this libtvm_ffi; its version. Raises ImportError where it cannot."""
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
    """Let tvm_ffi raise Python's and tvmrt's exceptions, unless it knows others by their names."""
    for kind in (*vars(builtins).values(), *vars(_error).values()):
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            continue
        if issubclass(kind, UnicodeError) or not kind.__name__.endswith("Error"):
            continue  # made of more than a text; not told from other words before a colon
        if kind.__name__ not in tvm_ffi.core.ERROR_NAME_TO_TYPE:
            tvm_ffi.register_error(kind.__name__, kind)


_introduce_errors()


def _pointer(address: int) -> ctypes.c_void_p | None:
    return ctypes.c_void_p(address) if address else None


class CFunction(NamedTuple):
    """A function as C calls it: by an address, with a handle as its context.

    Both are good for as long as this object, or another owner of the function, lives.
    """

    address: int
    """Address of the C function."""
    handle: int
    """What it is called with."""
    function: Any
    """The function itself, kept alive here."""


def to_tvm_ffi(value: Any) -> Any:
    """Return a function, module or tensor of tvmrt as one of tvm-ffi.

    Parameters
    ----------
    value
        A PackedFunc, a Module, or an NDArray.

    Returns
    -------
    tvm_ffi.Function or tvm_ffi.Tensor
        That of a module gets a name and gives the function. It keeps what it was made of
        alive. A tensor shares the memory. A function that was one of tvm-ffi before is that again.

    Raises
    ------
    TypeError
        If the value is something else.
    ValueError
        If the NDArray was borrowed for the time of a call.
    """
    if isinstance(value, PackedFunc):
        return _from_packed_func(ctypes.c_void_p(value.handle))
    if isinstance(value, NDArray):
        return tvm_ffi.from_dlpack(value)
    if isinstance(value, Module):
        return to_tvm_ffi(
            convert_to_tvm_func(lambda: value)
        )()  # as every result of a function crosses
    kind = type(value).__name__
    raise TypeError(f"to_tvm_ffi() takes a PackedFunc, a Module or an NDArray, not a {kind}")


def from_tvm_ffi(value: Any) -> Any:
    """Return a function, module or tensor of tvm-ffi as one of tvmrt.

    Parameters
    ----------
    value
        A ``tvm_ffi.Function``, a ``tvm_ffi.Module``, or a contiguous ``tvm_ffi.Tensor``.

    Returns
    -------
    PackedFunc, Module or NDArray
        It keeps what it was made of alive. A tensor shares the memory. A function that was one of
        tvmrt before is that again.

    Raises
    ------
    TypeError
        If the value is something else.
    ValueError
        If the tensor is not contiguous.
    """
    if isinstance(value, tvm_ffi.Function):
        return _from_function(ctypes.c_void_p(value.__chandle__()))
    if isinstance(value, tvm_ffi.Tensor):
        return from_dlpack(value)
    if isinstance(value, tvm_ffi.Module):
        return from_tvm_ffi(tvm_ffi.convert(lambda: value))()  # as every result crosses
    kind = type(value).__name__
    raise TypeError(f"from_tvm_ffi() takes a tvm_ffi.Function, Module or Tensor, not a {kind}")


def safe_call(function: PackedFunc | Callable[..., Any]) -> CFunction:
    """Return a packed function as C code of tvm-ffi calls it.

    Parameters
    ----------
    function
        A PackedFunc, or a callable to make one of.

    Returns
    -------
    CFunction
        ``address`` is a ``TVMFFISafeCallType`` to be called with ``handle`` as its first argument.
    """
    packed = convert_to_tvm_func(function)
    return CFunction(_SAFE_CALL, packed.handle, packed)


def from_safe_call(address: int, handle: int = 0, keep_alive: Any = None) -> PackedFunc:
    """Return a PackedFunc that calls a C function of tvm-ffi.

    Parameters
    ----------
    address
        Of a ``TVMFFISafeCallType``, such as the symbol ``__tvm_ffi_<name>`` of a library.
    handle
        Its first argument.
    keep_alive
        What must live as long as the PackedFunc: the library, or the owner of the handle.
    """
    owner = None if keep_alive is None else convert_to_tvm_func(lambda: keep_alive)
    return _from_safe_call(ctypes.c_void_p(address), _pointer(handle), owner)


def packed_call(function: Any) -> CFunction:
    """Return a function of tvm-ffi as classic C code calls it.

    Parameters
    ----------
    function
        A ``tvm_ffi.Function``, or a callable to make one of.

    Returns
    -------
    CFunction
        ``address`` is a ``TVMCPackedFunc`` to be called with ``handle`` as its resource handle.
        Text comes back as a String object, bytes cannot come back.
    """
    if not isinstance(function, tvm_ffi.Function):
        function = tvm_ffi.convert(function)
    return CFunction(_PACKED_CALL, function.__chandle__(), function)


def from_packed_call(address: int, handle: int = 0, keep_alive: Any = None) -> Any:
    """Return a ``tvm_ffi.Function`` that calls a classic C function.

    Parameters
    ----------
    address
        Of a ``TVMCPackedFunc``, such as an operator of a compiled library.
    handle
        Its resource handle.
    keep_alive
        What must live as long as the Function: the library, or the owner of the handle.
    """
    owner = None if keep_alive is None else tvm_ffi.convert(lambda: keep_alive)
    return _from_c_packed_func(ctypes.c_void_p(address), _pointer(handle), owner)
