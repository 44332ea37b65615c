"""Names of ``tvm._ffi``: the global registry and the registration of classes."""

from __future__ import annotations

from typing import Any, Callable

from tvmrt.runtime.object import register_object
from tvmrt.runtime.packed_func import (
    convert_to_tvm_func,
    get_global_func,
    init_api,
    list_global_func_names,
    register_func,
    remove_global_func,
)

__all__ = [
    "convert_to_tvm_func",
    "get_global_func",
    "list_global_func_names",
    "register_extension",
    "register_func",
    "register_object",
    "remove_global_func",
]

_init_api = init_api


def register_extension(cls: type, fcreate: Callable[..., Any] | None = None) -> type:
    """Return a class with ``_tvm_handle`` unchanged; kept for compatibility."""
    return cls
