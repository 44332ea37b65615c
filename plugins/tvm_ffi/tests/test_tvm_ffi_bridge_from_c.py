"""Test the bridge to apache-tvm-ffi from C, with values that Python's packages never create."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from bridge_case import bridge, tvm_ffi
from test_extension_from_c import DTYPE, NUL, OBJECT, VIEW, C, last_error, tensor_of

import tvmrt

FFI = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())


class Any(ctypes.Structure):
    _fields_ = [
        ("type_index", ctypes.c_int32),
        ("small_size", ctypes.c_uint32),
        ("value", ctypes.c_int64),
    ]


class ByteArray(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


def from_ffi_side(function, type_index: int, value: int) -> int:
    """Call a classic function with one value from tvm-ffi's C API; return its result."""
    shown = bridge.to_tvm_ffi(tvmrt.runtime.convert(function))
    arg, result = Any(type_index, 0, value), Any()
    handle = ctypes.c_void_p(shown.__chandle__())
    rc = FFI.TVMFFIFunctionCall(handle, ctypes.byref(arg), 1, ctypes.byref(result))
    if rc != 0:
        error = ctypes.c_void_p()
        FFI.TVMFFIErrorMoveFromRaised(ctypes.byref(error))
        FFI.TVMFFIObjectDecRef(error)
    return rc


def from_classic_side(function, code: int, value: int) -> int:
    """Call a tvm-ffi function with one value from the classic C API; return its result."""
    shown = bridge.from_tvm_ffi(tvm_ffi.convert(function))
    values, codes = (ctypes.c_int64 * 1)(value), (ctypes.c_int * 1)(code)
    result = (ctypes.c_int64(), ctypes.c_int())
    return C.TVMFuncCall(
        ctypes.c_void_p(shown.handle), values, codes, 1, *map(ctypes.byref, result)
    )


def test_borrowed_texts_bytes_and_tensors_of_the_other_side_are_read():
    text = ctypes.create_string_buffer(b"borrowed text")
    content = ByteArray(b"a\0b", 3)
    array = np.arange(4, dtype=np.float32)
    lent = tensor_of(array, strides=(1,))
    found = []
    assert from_ffi_side(found.append, 8, ctypes.addressof(text)) == 0
    assert from_ffi_side(found.append, 9, ctypes.addressof(content)) == 0
    assert from_ffi_side(lambda t: found.append(t.numpy()), 7, ctypes.addressof(lent)) == 0
    assert found[0] == "borrowed text"
    assert bytes(found[1]) == b"a\0b"
    np.testing.assert_array_equal(found[2], array)


@pytest.mark.parametrize("type_index", [7, 8, 9])
def test_null_of_the_other_side_is_none(type_index):
    found = []
    assert from_ffi_side(found.append, type_index, 0) == 0
    assert found == [None]


def test_value_of_an_unknown_kind_is_refused():
    assert from_ffi_side(print, 40, 0) != 0
    assert from_classic_side(print, NUL, 0) != 0
    assert "type code 99 has no equivalent" in last_error()


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 3), (1, 2)), ((1,) * 65, (1,) * 65)],
    ids=["strides", "dimensions"],
)
def test_tensors_that_classic_functions_cannot_take_are_refused(shape, strides):
    lent = tensor_of(np.zeros(6, np.float32), shape=shape, strides=strides)
    assert from_ffi_side(print, 7, ctypes.addressof(lent)) != 0


def test_type_reaches_the_other_side():
    found = []
    assert from_classic_side(found.append, DTYPE, 2 | 32 << 8 | 4 << 16) == 0, last_error()
    assert str(found[0]) == "float32x4"


@pytest.mark.parametrize("code", [VIEW, OBJECT, 9, 10, 12, 13])
def test_null_of_the_classic_side_is_none(code):
    found = []
    assert from_classic_side(found.append, code, 0) == 0, last_error()
    assert found == [None]


def test_too_many_dimensions_do_not_reach_the_other_side():
    lent = tensor_of(np.zeros(1, np.float32), shape=(1,) * 65)
    assert from_classic_side(print, VIEW, ctypes.addressof(lent)) != 0
    assert "65 dimensions" in last_error()
