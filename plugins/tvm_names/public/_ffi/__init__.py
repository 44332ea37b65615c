"""Names of ``tvm._ffi``: the global registry and the registration of classes."""

from __future__ import annotations

from tvmrt.runtime.object import register_object
from tvmrt.runtime.packed_func import (
    convert_to_tvm_func,
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)

__all__ = [
    "convert_to_tvm_func",
    "get_global_func",
    "list_global_func_names",
    "register_func",
    "register_object",
    "remove_global_func",
]
