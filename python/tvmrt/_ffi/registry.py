"""Names of ``tvm._ffi.registry``."""

from __future__ import annotations

from tvmrt._ffi import _init_api, register_extension
from tvmrt.runtime.object import register_object
from tvmrt.runtime.packed_func import (
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)

__all__ = [
    "_init_api",
    "get_global_func",
    "list_global_func_names",
    "register_extension",
    "register_func",
    "register_object",
    "remove_global_func",
]
