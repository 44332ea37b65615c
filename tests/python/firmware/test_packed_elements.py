"""Bit-packed elements in a network for the firmware's graph executor."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
from onnx import parser

import tvmrt
from tvmrt.libinfo import find_include_path

NETWORK = """<ir_version: 10, opset_import: ["" : 21]>
g (int4[4,6] x) => (float[4,6] y) <float s = {0.5}> { d = DequantizeLinear(x, s) y = Relu(d) }"""


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32),
        ("dtype", DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


def tensor(array: np.ndarray, code: int, bits: int, *shape: int) -> Tensor:
    extents = (ctypes.c_int64 * len(shape))(*shape)
    return Tensor(
        array.ctypes.data, Device(1, 0), len(shape), DataType(code, bits, 1), extents, None, 0
    )


def test_size_of_bit_packed_tensors(tmp_path):
    """24 elements of 4 bits need 12 bytes: 10 are too few, and are not counted as 20 elements."""
    library = tvmrt.compile(
        parser.parse_model(NETWORK), target="host", executor="graph", runtime="crt"
    )
    library.export_sources(tmp_path / "net")
    sources = sorted(map(str, (tmp_path / "net").glob("*_lib*.c")))
    includes = [f"-I{path}" for path in find_include_path()]
    command = ["cc", "-shared", "-fPIC", *includes, *sources, "-o", str(tmp_path / "net.so"), "-lm"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(tmp_path / "net.so"))
    operator = loaded[library.sources.functions[0].symbol + "_packed"]
    packed = np.arange(12, dtype=np.uint8) * 17
    result = np.full((4, 6), np.nan, np.float32)
    values = (ctypes.c_void_p * 2)()
    codes = (ctypes.c_int * 2)(7, 7)
    code = ctypes.c_int(4)

    def call(*shape: int) -> int:
        arguments = [tensor(packed, 0, 4, *shape), tensor(result, 2, 32, 4, 6)]
        for i, argument in enumerate(arguments):
            values[i] = ctypes.addressof(argument)
        slot = ctypes.c_int64(0)
        return operator(values, codes, 2, ctypes.byref(slot), ctypes.byref(code), None)

    assert call(4, 5) != 0
    assert np.isnan(result).all()
    assert call(4, 6) == 0
    elements = np.stack([packed & 15, packed >> 4], 1).astype(np.int8).reshape(4, 6)
    signed = np.where(elements > 7, elements - 16, elements)
    np.testing.assert_array_equal(result, np.maximum(signed * 0.5, 0))
