"""The runtime: tensors, packed functions, modules, executors. Independent of the compiler.

It needs only NumPy and the shared library. Names and behaviour follow ``tvm.runtime``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tvmrt.runtime import _core  # noqa: F401  isort: skip - refuses subinterpreters before numpy
from tvmrt.error import TVMError
from tvmrt.runtime import ndarray
from tvmrt.runtime.container import ADT, Array, Map, ShapeTuple, String
from tvmrt.runtime.data_type import DataType, DataTypeCode
from tvmrt.runtime.device import (
    Device,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from tvmrt.runtime.module import (
    BenchmarkResult,
    Module,
    enabled,
    load_module,
    num_threads,
    system_lib,
)
from tvmrt.runtime.ndarray import NDArray
from tvmrt.runtime.object import Object, ObjectGeneric, ObjectRValueRef, register_object
from tvmrt.runtime.packed_func import (
    PackedFunc,
    convert_to_tvm_func,
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)
from tvmrt.runtime.params import (
    load_param_dict,
    load_param_dict_from_file,
    save_param_dict,
    save_param_dict_to_file,
)
from tvmrt.runtime.plugin import (
    device_fallbacks,
    list_devices,
    load_device_plugin,
    set_device_options,
)

from tvmrt.runtime import _hooks  # noqa: F401  isort: skip - wants all classes to be there

if TYPE_CHECKING:
    from tvmrt.runtime import executor, profiling

__all__ = [
    "ADT",
    "Array",
    "BenchmarkResult",
    "DataType",
    "DataTypeCode",
    "Device",
    "Map",
    "Module",
    "NDArray",
    "Object",
    "ObjectGeneric",
    "ObjectRValueRef",
    "PackedFunc",
    "ShapeTuple",
    "String",
    "TVMError",
    "convert",
    "convert_to_tvm_func",
    "cpu",
    "cuda",
    "device",
    "device_fallbacks",
    "enabled",
    "executor",
    "ext_dev",
    "get_global_func",
    "gpu",
    "hexagon",
    "list_devices",
    "list_global_func_names",
    "load_device_plugin",
    "load_module",
    "load_param_dict",
    "load_param_dict_from_file",
    "metal",
    "ndarray",
    "num_threads",
    "opencl",
    "profiling",
    "register_func",
    "register_object",
    "remove_global_func",
    "rocm",
    "save_param_dict",
    "save_param_dict_to_file",
    "set_device_options",
    "system_lib",
    "vpi",
    "vulkan",
    "webgpu",
]


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
