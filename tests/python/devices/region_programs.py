"""Regions from explicit nodes, called with tensors of any strides."""

from __future__ import annotations

import ctypes
import json

import numpy as np

import tvmrt
from tvmrt.compiler.devices.region_json import Constants
from tvmrt.error import TVMError
from tvmrt.runtime import _library

C = ctypes.CDLL(_library.PATH)
C.TVMGetLastError.restype = ctypes.c_char_p
CPU = 1
VIEW = 7
"""The type code of a tensor that is lent."""


def run(module: tvmrt.runtime.Module, out: tuple[int, ...], dtype: str, *arrays: np.ndarray):
    """Return the results of region r for the arrays."""
    result = tvmrt.nd.empty(out, dtype)
    module["r"](*(tvmrt.nd.array(a) for a in arrays), result)
    return result.numpy()


def load(device: str, tensors, nodes, inputs=(0,), outputs=None, options=None):
    """Return the module of one region, r.

    Tensors are shapes of float32, (shape, type), or constant arrays; nodes are an operator, its
    inputs, its outputs and its attributes.
    """
    constants, rows = Constants(), []
    for i, tensor in enumerate(tensors):
        if isinstance(tensor, np.ndarray):
            row = {"dtype": tensor.dtype.name, "shape": list(tensor.shape)} | constants.add(tensor)
        else:
            shape, dtype = tensor if isinstance(tensor, tuple) else (tensor, "float32")
            row = {"dtype": dtype, "shape": shape}
        rows.append({"name": f"t{i}", **row})
    keys = ("op", "inputs", "outputs", "attrs")
    nodes = [{"name": f"n{i}", **dict(zip(keys, node))} for i, node in enumerate(nodes)]
    outputs = [len(tensors) - 1] if outputs is None else outputs
    region = {"symbol": "r", "tensors": rows, "nodes": nodes, "inputs": list(inputs)}
    head = {"format": "tvmrt-regions", "version": 1, "device": device, "options": options or {}}
    head["regions"] = [region | {"outputs": outputs}]
    make = tvmrt.get_global_func("tvmrt.device.load_regions")
    return make(json.dumps(head), bytearray(constants.tobytes()))


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor over float32 elements, on a 64-bit machine."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]

    @classmethod
    def of(cls, array: np.ndarray, device: int) -> DLTensor:
        extents = ctypes.c_int64 * array.ndim
        shape = extents(*array.shape)
        strides = extents(*(s // array.itemsize for s in array.strides))
        assert array.dtype == np.float32
        return cls(array.ctypes.data, (device, 0), array.ndim, 2, 32, 1, shape, strides, 0)


def call_with_strides(
    function: tvmrt.runtime.PackedFunc, *arrays: np.ndarray, device: int = CPU
) -> None:
    """Call a region with float32 arrays on a device, with explicit strides."""
    lent = [DLTensor.of(array, device) for array in arrays]
    values = (ctypes.c_void_p * len(lent))(*(ctypes.addressof(t) for t in lent))
    codes = (ctypes.c_int * len(lent))(*[VIEW] * len(lent))
    result, code = ctypes.c_int64(), ctypes.c_int()
    handle = ctypes.c_void_p(function.handle)
    returned = ctypes.byref(result), ctypes.byref(code)
    if C.TVMFuncCall(handle, values, codes, len(lent), *returned) != 0:
        raise TVMError(C.TVMGetLastError().decode())
