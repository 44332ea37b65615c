"""The loaded libtvm_runtime: the cffi functions of its C API, and the check of their results.

The library is loaded with global symbols, because libraries of generated code resolve its functions
at load time.
"""

from __future__ import annotations

import os

from tvmrt.error import from_text
from tvmrt.runtime import _core
from tvmrt.runtime._capi import ffi, lib

__all__ = ["PATH", "address", "check", "decode", "encode", "ffi", "last_error", "lib", "pointer"]

PATH: str = _core.make_library_global()
"""File of the loaded library."""


def last_error() -> BaseException:
    """Return the exception for the error text of this thread."""
    return from_text(decode(lib.TVMGetLastError()))


def check(rc: int) -> None:
    """Raise the last error unless `rc` is 0."""
    if rc != 0:
        raise last_error()


def encode(text: str | bytes | os.PathLike[str]) -> bytes:
    """Encode a string or path as a C string."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError(f"{text!r} contains a NUL character, at which C strings end")
    return data


def decode(text: ffi.CData) -> str:
    """Decode a C string; "" for a null pointer."""
    return ffi.string(text).decode("utf-8", "replace") if text else ""


def address(pointer: ffi.CData) -> int:
    """Return a pointer as an integer for the extension module."""
    return int(ffi.cast("uintptr_t", pointer))


def pointer(address: int) -> ffi.CData:
    """Return an integer as a ``void*``."""
    return ffi.cast("void*", address)
