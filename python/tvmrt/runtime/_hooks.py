"""Python classes and rare conversions for the extension module."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmrt.error import from_text
from tvmrt.runtime import _core
from tvmrt.runtime.container import to_container
from tvmrt.runtime.data_type import numpy_dtype, unpack
from tvmrt.runtime.dense_array import dense_array
from tvmrt.runtime.device import Device
from tvmrt.runtime.module import Module
from tvmrt.runtime.ndarray import NDArray, _copy_from, array
from tvmrt.runtime.object import ObjectGeneric, ObjectRValueRef, _object_class
from tvmrt.runtime.source_lines import with_lines


def _convert(value: Any) -> Any:
    """Convert an argument to a type that the extension module packs itself."""
    if isinstance(value, (np.integer, np.bool_)):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.ndarray):
        return dense_array(value)
    if isinstance(value, (list, tuple, dict)):
        return to_container(value)
    if isinstance(value, ObjectRValueRef):
        return None, value.obj
    if isinstance(value, ObjectGeneric):
        return value.asobject()
    if hasattr(value, "__tvm_object__"):
        return value.__tvm_object__
    if type(value).__module__ in ("ctypes", "_ctypes") and hasattr(value, "value"):
        return (value.value or 0,)
    if hasattr(type(value), "__dlpack__"):
        return _core.from_dlpack(value)
    if callable(value):
        return _core.function_from_callable(value)
    raise TypeError(f"a {type(value).__name__} cannot be passed to a packed function")


def _opaque_pointer(address: int) -> Any:
    import ctypes

    return ctypes.c_void_p(address)


_core.configure(
    module_class=Module,
    tensor_class=NDArray,
    device_class=Device,
    object_class=_object_class,
    convert=_convert,
    own_tensor=array,
    make_error=lambda text: with_lines(from_text(text), text),
    opaque_pointer=_opaque_pointer,
    numpy_array=np.ndarray,
    numpy_empty=np.empty,
    numpy_dtype=numpy_dtype,
    copy_from=_copy_from,
    unpack=unpack,
)
