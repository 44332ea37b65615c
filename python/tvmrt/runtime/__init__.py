"""The runtime: tensors, packed functions, modules, executors. Independent of the compiler.

It needs only NumPy and the shared library. Names and behaviour follow ``tvm.runtime``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tvmrt.runtime import _core  # noqa: F401  isort: skip - refuses subinterpreters before numpy
from tvmrt.error import TVMError
from tvmrt.runtime import device as devices
from tvmrt.runtime import ndarray, packed_func, params, plugin
from tvmrt.runtime import object as objects
from tvmrt.runtime.container import ADT, Array, Map, ShapeTuple, String
from tvmrt.runtime.data_type import DataType, DataTypeCode
from tvmrt.runtime.device import *  # noqa: F403
from tvmrt.runtime.module import (
    BenchmarkResult,
    Module,
    enabled,
    load_module,
    num_threads,
    system_lib,
)
from tvmrt.runtime.ndarray import NDArray
from tvmrt.runtime.object import *  # noqa: F403
from tvmrt.runtime.packed_func import *  # noqa: F403
from tvmrt.runtime.packed_func import PackedFunc, convert_to_tvm_func
from tvmrt.runtime.params import *  # noqa: F403
from tvmrt.runtime.plugin import *  # noqa: F403

from tvmrt.runtime import _hooks  # noqa: F401  isort: skip - wants all classes to be there

if TYPE_CHECKING:
    from tvmrt.runtime import executor, profiling

__all__ = [
    "ADT", "Array", "BenchmarkResult", "DataType", "DataTypeCode", "Map", "Module", "NDArray",
    "ShapeTuple", "String", "TVMError", "convert", "enabled", "executor", "load_module", "ndarray",
    "num_threads", "profiling", "system_lib",
]  # fmt: skip
__all__ += devices.__all__
__all__ += objects.__all__
__all__ += packed_func.__all__
__all__ += params.__all__
__all__ += plugin.__all__


def convert(value: Any) -> Any:
    """Convert strings, lists, tuples, dicts and callables to runtime objects; keep other values."""
    if isinstance(value, str):
        return String(value)
    if isinstance(value, (list, tuple)):
        return Array(value)
    if isinstance(value, dict):
        return Map(value)
    if callable(value) and not isinstance(value, (Module, PackedFunc)):
        return convert_to_tvm_func(value)
    return value


def __getattr__(name: str) -> Any:
    """Import the executors and the profiler at first use."""
    if name in ("executor", "profiling"):
        return importlib.import_module(f"tvmrt.runtime.{name}")
    raise AttributeError(f"module 'tvmrt.runtime' has no attribute '{name}'")
