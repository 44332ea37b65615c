"""The call extension with unusual values from C: type codes, tensors and capsules."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import _core, _library

C = ctypes.CDLL(_library.PATH)
INT, HANDLE, DTYPE, DEVICE, VIEW, OBJECT, TENSOR, NUL = 0, 3, 5, 6, 7, 8, 13, 99


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor on a 64-bit machine."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


def tensor_of(array: np.ndarray, dtype=(2, 32, 1), shape=None, strides=None) -> DLTensor:
    shape = array.shape if shape is None else shape
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    steps = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
    return DLTensor(array.ctypes.data, 1, 0, len(shape), *dtype, extents, steps, 0)


def call(function, value: int, code: int) -> int:
    """Let C call the function with one argument; return the result of the call."""
    values, codes = (ctypes.c_int64 * 1)(value), (ctypes.c_int * 1)(code)
    result, result_code = ctypes.c_int64(), ctypes.c_int()
    packed = tvmrt.runtime.convert(function)
    return C.TVMFuncCall(
        ctypes.c_void_p(packed.handle),
        values,
        codes,
        1,
        ctypes.byref(result),
        ctypes.byref(result_code),
    )


def last_error() -> str:
    C.TVMGetLastError.restype = ctypes.c_char_p
    return C.TVMGetLastError().decode()


def seen(tensor: DLTensor, look):
    """Return the description that `look` gives of a tensor borrowed from C."""
    found = []
    assert call(lambda t: found.append(look(t)), ctypes.addressof(tensor), VIEW) == 0, last_error()
    return found[0]


MAKER = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


def returning(value: int, code: int):
    """Return a C function that returns this value, and an object that keeps it alive."""

    @MAKER
    def function(values, codes, n, ret, resource):
        result, result_code = ctypes.c_int64(value), ctypes.c_int(code)
        return C.TVMCFuncSetReturn(
            ctypes.c_void_p(ret), ctypes.byref(result), ctypes.byref(result_code), 1
        )

    handle = ctypes.c_void_p()
    assert C.TVMFuncCreateFromCFunc(function, None, None, ctypes.byref(handle)) == 0
    return _core.function_from_handle(handle.value), function


def test_argument_of_an_unknown_type_is_an_error():
    assert call(lambda x: x, 5, NUL) != 0
    assert "unknown type code 99" in last_error()


def test_object_without_a_handle_is_an_error():
    assert call(lambda x: x, 0, OBJECT) != 0
    assert last_error()


def test_null_borrowed_tensor_is_none():
    found = []
    assert call(found.append, 0, VIEW) == 0
    assert found == [None]


def test_strided_tensor_reports_strides():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    borrowed = tensor_of(array, shape=(3, 2), strides=(1, 3))
    assert seen(borrowed, lambda t: t.strides) == (1, 3)
    assert call(lambda t: t.numpy(), ctypes.addressof(borrowed), VIEW) != 0
    assert "the tensor has strides" in last_error()


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ((2, 32, 4), "float32x4"),
        ((1, 1, 1), "bool"),
        ((150, 16, 1), "custom[150]16"),
        ((150, 16, 2), "custom[150]16x2"),
        ((3, 64, 1), "handle"),
        ((3, 0, 0), "void"),
    ],
)
def test_element_types_unknown_to_numpy_are_reported(dtype, text):
    assert str(seen(tensor_of(np.zeros(16, np.float32), dtype, (1,)), lambda t: t.dtype)) == text


def test_vector_types_have_no_numpy_array():
    borrowed = tensor_of(np.zeros(8, np.float32), (2, 32, 4), (2,))
    kept = []

    def look(tensor):
        with pytest.raises(TypeError) as caught:
            tensor.numpy()
        kept.append(str(caught.value))

    seen(borrowed, look)
    assert kept


def test_large_tensors_are_copied_whole():
    array = np.random.default_rng(0).integers(0, 255, 1 << 20).astype(np.uint8)
    tensor = tvmrt.nd.empty(array.shape, "uint8").copyfrom(array)
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("code", [VIEW, NUL], ids=["borrowed tensor", "unknown type"])
def test_result_without_owner_is_rejected(code):
    borrowed = tensor_of(np.zeros(3, np.float32))
    function, kept = returning(ctypes.addressof(borrowed), code)
    with pytest.raises((TypeError, ValueError, tvmrt.TVMError)):
        function()
    assert kept


def test_raw_pointer_is_returned_as_one():
    function, kept = returning(4096, HANDLE)
    assert function().value == 4096
    assert kept


class Producer:
    """A DLPack producer of the oldest version."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()


def test_strided_foreign_array_is_rejected():
    with pytest.raises(ValueError, match="not contiguous"):
        tvmrt.nd.from_dlpack(Producer(np.zeros((4, 4), np.float32)[:, ::2]))


def capsule(content: ctypes.Structure, name: bytes):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return new(ctypes.addressof(content), name, None)


BOOL = (6, 8, 1)  # DLPack's


@pytest.mark.parametrize("offset", [0, 1], ids=["aligned", "unaligned"])
def test_foreign_bools_are_converted(offset):
    memory = np.zeros(200, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    array = memory[start : start + 5]
    array[:] = [1, 0, 1, 1, 0]
    managed = Managed(tensor_of(array, BOOL), None, None)
    tensor = tvmrt.nd.from_dlpack(capsule(managed, b"dltensor"))
    assert str(tensor.dtype) == "bool"
    assert tensor.numpy().tolist() == [True, False, True, True, False]
    del tensor


def test_newer_dlpack_version_is_rejected_without_taking_ownership():
    versioned = Versioned(99, 0, None, None, 0, tensor_of(np.zeros(3, np.float32)))
    future = capsule(versioned, b"dltensor_versioned")
    with pytest.raises(BufferError, match="DLPack 99 is newer"):
        tvmrt.nd.from_dlpack(future)
    assert "dltensor_versioned" in repr(future)


@pytest.mark.parametrize(
    "array",
    [np.zeros(3, "datetime64[s]"), np.zeros(3, "f4").astype(">f4" if np.little_endian else "<f4")],
    ids=["dates", "other byte order"],
)
def test_arrays_without_a_tensor_type_are_refused(array):
    with pytest.raises((TypeError, ValueError, BufferError)):
        tvmrt.nd.from_dlpack(array)


def test_non_callable_is_rejected():
    with pytest.raises(TypeError, match="int cannot be called"):
        _core.function_from_callable(7)


def test_handles_move_between_objects_only():
    shape = tvmrt.runtime.ShapeTuple([1])
    with pytest.raises(TypeError, match="expected an Object, got a int"):
        shape._move_from(7)
    assert list(shape) == [1]


def test_tensor_of_a_derived_class_is_a_tensor():
    class Own(tvmrt.nd.NDArray):
        __slots__ = ()

    tensor = tvmrt.nd.array(np.arange(3, dtype=np.float32))
    tensor.__class__ = Own
    assert tvmrt.runtime.convert(lambda t: float(t.numpy().sum()))(tensor) == 3


class Unspeakable(Exception):
    def __str__(self):
        return "\ud800"


def test_exception_whose_text_is_no_utf8_passes_through_c():
    def fail():
        raise Unspeakable

    with pytest.raises(Unspeakable):
        tvmrt.runtime.convert(fail)()


def test_more_views_than_are_kept_inline_with_one_that_fails():
    arrays = [np.zeros(2, np.float32) for _ in range(20)]
    frozen = np.zeros(2, np.float32)
    frozen.flags.writeable = False
    count = tvmrt.runtime.convert(lambda *values: len(values))
    assert count(*arrays) == 20
    with pytest.raises(ValueError, match="argument 20"):
        count(*arrays, frozen)
    assert count(*arrays, *[b"bytes"] * 20) == 40
