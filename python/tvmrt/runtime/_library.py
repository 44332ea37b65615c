"""The loaded libtvm_runtime: the cffi functions of its C API, and the one check of their result.

The library becomes global in the process, because libraries of generated code look its functions up
there.
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
    """Return a string or path as C takes it."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError(f"{text!r} contains a NUL character, at which C strings end")
    return data


def decode(text: ffi.CData) -> str:
    """Return a C string as Python's."""
    return ffi.string(text).decode("utf-8", "replace") if text else ""


def address(pointer: ffi.CData) -> int:
    """Return a pointer as a number, as the extension module takes it."""
    return int(ffi.cast("uintptr_t", pointer))


def pointer(address: int) -> ffi.CData:
    """Return a number as a ``void*``."""
    return ffi.cast("void*", address)
