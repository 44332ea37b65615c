"""The DLPack exchange interface of NDArray, as apache-tvm-ffi uses it and by its function table."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest
from test_extension_from_c import DLTensor, Versioned, tensor_of

import tvmrt

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")


def test_array_round_trip():
    array = tvmrt.nd.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    seen = []
    same = tvm_ffi.convert(lambda tensor: seen.append(tuple(tensor.strides)) or tensor)
    before = sys.getrefcount(array)
    back = same(array)
    assert seen == [(3, 1)]
    assert isinstance(back, tvmrt.nd.NDArray)
    np.from_dlpack(back)[:] = 5
    assert (array.numpy() == 5).all()
    del back
    seen.clear()
    assert sys.getrefcount(array) == before


def test_bool_and_many_dimensions_keep_their_form():
    flags = tvmrt.nd.array(np.array([True, False]))
    assert tvm_ffi.convert(lambda tensor: str(tensor.dtype))(flags) == "bool"
    deep = tvmrt.nd.array(np.zeros((1,) * 12, np.int8))
    assert tvm_ffi.convert(lambda tensor: len(tensor.shape))(deep) == 12


def test_view_that_expires_with_its_call_is_rejected():
    kept = []
    tvmrt.runtime.convert_to_tvm_func(kept.append)(np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="borrowed"):
        tvm_ffi.convert(lambda tensor: None)(kept[0])


def test_strided_result_is_a_dlpack_tensor():
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    made = tvm_ffi.convert(lambda _: tvm_ffi.from_dlpack(array.T))(tvmrt.nd.array(array))
    assert isinstance(made, tvm_ffi.Tensor)
    np.testing.assert_array_equal(np.from_dlpack(made), array.T)


ALLOCATES = """
#include <stdint.h>
#include <string.h>
typedef struct { int32_t type_index; uint32_t padding; void* ptr; } Any;
typedef struct {
  void* data; int32_t device[2]; int32_t ndim; uint8_t code, bits; uint16_t lanes;
  int64_t *shape, *strides; uint64_t offset;
} Tensor;
int TVMFFIEnvTensorAlloc(Tensor*, void**);
int __tvm_ffi_like(void* self, const Any* args, int32_t n, Any* result) {
  Tensor want = *(Tensor*)((char*)args[0].ptr + 24);
  Tensor* made;
  int rc = TVMFFIEnvTensorAlloc(&want, &result->ptr);
  if (rc != 0) return rc;
  made = (Tensor*)((char*)result->ptr + 24);
  memset(made->data, 1, made->shape[0]);
  result->type_index = 70;
  result->padding = 0;
  return 0;
}
"""


def test_functions_allocate_arrays_of_the_caller(tmp_path):
    source, library = tmp_path / "like.c", tmp_path / "like.so"
    source.write_text(ALLOCATES, encoding="ascii")
    subprocess.run(["cc", "-w", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    like = tvm_ffi.load_module(str(library)).like
    made = like(tvmrt.nd.array(np.zeros(5, bool)))
    assert isinstance(made, tvmrt.nd.NDArray)
    assert made.dtype == "bool"
    assert made.numpy().tolist() == [True] * 5


def test_table_is_found_by_both_names():
    new_name = tvmrt.nd.NDArray.__dlpack_c_exchange_api__
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(new_name, b"dlpack_exchange_api")
    assert tvmrt.nd.NDArray.__c_dlpack_exchange_api__ == address
    assert ctypes.c_uint32.from_address(address).value == 1


class Table(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("previous", ctypes.c_void_p)] + [
        (name, ctypes.c_void_p)
        for name in ("allocate", "from_object", "to_object", "view_of_object", "current_stream")
    ]


def table() -> Table:
    return Table.from_address(tvmrt.nd.NDArray.__c_dlpack_exchange_api__)


SAY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


def test_allocation_that_fails_says_so():
    allocate = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.POINTER(DLTensor),
        ctypes.POINTER(ctypes.POINTER(Versioned)),
        ctypes.c_void_p,
        SAY,
    )(table().allocate)
    said = []
    wanted = tensor_of(np.zeros(1, np.float32), shape=(-3,))
    out = ctypes.POINTER(Versioned)()
    say = SAY(lambda context, kind, text: said.append((kind, text)))
    assert allocate(wanted, out, None, say) == -1 and not out
    assert said[0][0] == b"RuntimeError" and b"-3" in said[0][1]


def test_arrays_are_ready_on_the_default_stream():
    stream = ctypes.c_void_p(1)
    current = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
    )(table().current_stream)
    assert current(1, 0, stream) == 0 and stream.value is None


def test_array_is_given_back_on_a_thread_of_c():
    """The deleter is called without the GIL."""
    array = tvmrt.nd.array(np.arange(3, dtype=np.float32))
    before = sys.getrefcount(array)
    given = ctypes.POINTER(Versioned)()
    take = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Versioned))
    )(table().from_object)
    assert take(array, given) == 0 and sys.getrefcount(array) == before + 1
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(given.contents.deleter)(
        ctypes.addressof(given.contents)
    )
    assert sys.getrefcount(array) == before
