"""The structs of ``tvm/runtime/custom_op.h``: their types, and functions to read them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import cffi

from tvmrt.libinfo import find_include_path

HEADER = "tvm/runtime/custom_op.h"


def _header() -> str:
    for folder in find_include_path():
        path = Path(folder) / HEADER
        if path.is_file():
            return path.read_text()
    raise OSError(f"{HEADER} is not found; reinstall tvmrt")


def abi_version() -> int:
    """Return the version of the structs that this tvmrt reads."""
    return int(re.search(r"#define TVMRT_OPERATORS_ABI (\d+)", _header())[1])


@lru_cache(maxsize=1)
def declarations() -> cffi.FFI:
    """Return the header's types, parsed from the header itself to have a single definition."""
    text = re.sub(r"/\*.*?\*/", "", _header(), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    body = "\n".join(line for line in lines if 'extern "C"' not in line and line != "} ")
    ffi = cffi.FFI()
    ffi.cdef(body.replace("TVMRT_OPERATORS_EXPORT ", ""))
    return ffi


def rows(ffi: cffi.FFI, pointer: Any, count: int, what: str) -> list[Any]:
    """Return the structs of a list. Raise ValueError if the pointer is NULL with a count."""
    if count < 0 or (count > 0 and pointer == ffi.NULL):
        raise ValueError(f"{what}: the count is {count}, but the pointer is NULL")
    return [pointer[i] for i in range(count)]


def text(ffi: cffi.FFI, pointer: Any) -> str:
    """Return a C string; NULL is empty."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def scalars_of(ffi: cffi.FFI, pointer: Any, count: int) -> dict[str, Any]:
    """Return scalar parameters in the form that ``tvmrt.custom.Kernel`` takes."""
    scalars: dict[str, Any] = {}
    for row in rows(ffi, pointer, count, "scalars"):
        name, kind, default = text(ffi, row.name), text(ffi, row.type), row.default_value
        if name in scalars:
            raise ValueError(f"scalars: {name} is declared twice; rename one")
        scalars[name] = kind if default == ffi.NULL else (kind, default[0])
    return scalars
