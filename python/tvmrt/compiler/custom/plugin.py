"""Operators declared in C by a shared library, see ``tvm/runtime/custom_op.h``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cffi

from .c_structs import abi_version, declarations, rows
from .operator import Operator
from .plugin_graph import ComposedInC
from .plugin_kernel import KernelInC

_loaded: dict[str, list[Operator]] = {}


def load_library(path: Path) -> list[Operator]:
    """Return the operators of a shared library, which is loaded once per process.

    Raises OSError when it cannot be loaded, ValueError when it has no operators, another version,
    or an invalid declaration.
    """
    key = str(path.resolve())
    if key not in _loaded:
        ffi = declarations()
        try:
            library = ffi.dlopen(key)
            listed = library.tvmrt_get_operators()
        except OSError as problem:
            raise OSError(f"{path} cannot be loaded: {problem}") from problem
        except AttributeError as problem:
            raise ValueError(
                f"{path} is not an operator library: it has no function tvmrt_get_operators"
            ) from problem
        _loaded[key] = _read(ffi, library, listed, path)
    return _loaded[key]


def _read(ffi: cffi.FFI, library: Any, listed: Any, path: Path) -> list[Operator]:
    abi = abi_version()
    if listed == ffi.NULL or listed.abi != abi:
        version = "none" if listed == ffi.NULL else listed.abi
        raise ValueError(
            f"{path}: built for operator ABI {version}, this tvmrt supports {abi}; build the "
            "library with this tvmrt's headers"
        )
    try:
        declarations = rows(ffi, listed.kernels, listed.num_kernels, "kernels")
        kernels = [KernelInC(ffi, library, row) for row in declarations]
        declarations = rows(ffi, listed.composed, listed.num_composed, "composed")
        composed = [ComposedInC(ffi, library, row) for row in declarations]
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from problem
    operators: list[Operator] = [*kernels, *composed]
    for operator in composed:
        operator.siblings = operators
    if not operators:
        raise ValueError(f"{path} declares no operator")
    return operators
