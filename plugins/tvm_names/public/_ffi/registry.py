"""Names of ``tvm._ffi.registry``."""

from __future__ import annotations

from tvmrt.runtime.object import register_object
from tvmrt.runtime.packed_func import (
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)

__all__ = [
    "get_global_func",
    "list_global_func_names",
    "register_func",
    "register_object",
    "remove_global_func",
]
