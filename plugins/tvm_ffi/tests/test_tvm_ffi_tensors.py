"""Test the bridge to apache-tvm-ffi: how tensors share memory, and for how long."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from bridge_case import address_of, aligned, bridge, ffi_tensor, from_ffi, to_ffi, tvm_ffi

import tvmrt


def test_classic_function_writes_into_tensor(toolbox):
    source, target = aligned(6), aligned(6, offset=4)
    source[:] = range(6)
    bridge.to_tvm_ffi(toolbox["scale"])(ffi_tensor(source), ffi_tensor(target), 0.5)
    np.testing.assert_array_equal(target, source / 2)


# numpy before 2.1 imports every tensor by DLPack as read-only
needs_writable_dlpack = pytest.mark.skipif(
    not np.from_dlpack(tvmrt.nd.empty((1,))).flags.writeable,
    reason="this numpy makes every imported array read-only",
)


@needs_writable_dlpack
@pytest.mark.parametrize("offset", [0, 4], ids=["array", "view"])
def test_tvm_ffi_function_writes_into_tensor(offset):
    memory = aligned(3, offset=offset)
    tensor = tvmrt.nd.from_dlpack(memory)

    def function(got):
        np.from_dlpack(got)[:] = [1, 2, 3]

    from_ffi(function)(tensor)
    np.testing.assert_array_equal(memory, [1, 2, 3])


@needs_writable_dlpack
@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda x: x, id="whole"),
        pytest.param(lambda x: x[1:, ::2], id="every-second"),
        pytest.param(lambda x: x.T, id="transposed"),
        pytest.param(lambda x: np.broadcast_to(x[:1], (3, 6)), id="broadcast"),
        pytest.param(lambda x: x[:0, ::3], id="nothing"),
    ],
)
def test_views_reach_tvm_ffi_with_their_strides(view):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    shown, seen = view(array), []
    wanted = shown.copy()
    if not shown.flags.writeable:
        shown.flags.writeable = True

    def function(got):
        shared = np.from_dlpack(got)
        seen.append((shared.ctypes.data, shared.copy()))
        shared[...] = 7

    from_ffi(function)(shown)
    assert shown.size == 0 or seen[0][0] == shown.ctypes.data
    np.testing.assert_array_equal(seen[0][1], wanted)
    assert (shown == 7).all()


def test_unsupported_views_are_refused():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    take = from_ffi(lambda got: None)
    with pytest.raises(ValueError, match="strides that run backwards or split elements; pass a"):
        take(array[::-1])
    frozen = array[:, ::2]
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"not C-contiguous|read-only"):
        take(frozen)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (1,) * 20], ids=str)
def test_odd_shapes(shape):
    seen = []
    to_ffi(lambda t: seen.append(t.shape))(ffi_tensor(np.zeros(shape, np.float32)))
    from_ffi(lambda t: seen.append(tuple(t.shape)))(tvmrt.nd.empty(shape))
    from_ffi(lambda t: seen.append(tuple(t.shape)))(np.zeros(shape, np.float32))
    assert seen == [shape] * 3


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [("int8", 0, 8), ("uint16", 1, 16), ("float16", 2, 16), ("float64", 2, 64), ("bool", 1, 1)],
)
def test_element_types(toolbox, dtype, code, bits):
    element_type = bridge.to_tvm_ffi(toolbox["element_type"])
    for offset in (0, 8):  # an NDArray, and a view
        tensor = ffi_tensor(aligned(8, dtype, offset))
        assert element_type(tensor) == code * 65536 + bits * 256 + 1
    assert from_ffi(lambda t: np.from_dlpack(t).dtype.name)(tvmrt.nd.empty((3,), dtype)) == dtype


@pytest.mark.parametrize(
    ("classic", "other"),
    [
        ("bfloat16", "bfloat16"),
        ("e4m3_float8", "float8_e4m3fn"),
        ("e5m2_float8", "float8_e5m2"),
    ],
)
def test_elements_that_numpy_lacks_keep_their_meaning(classic, other):
    tensor = tvmrt.nd.empty((64,), classic)
    assert from_ffi(lambda t: str(t.dtype))(tensor) == other
    assert from_ffi(lambda t: t)(tensor).dtype == classic


def test_argument_with_a_reference_outlives_the_call():
    kept, array = [], aligned(3)
    array[:] = [1, 2, 3]
    tensor = ffi_tensor(array)
    to_ffi(kept.append)(tensor)
    from_ffi(kept.append)(tvmrt.nd.array(np.float32([1, 2, 3])))
    del tensor, array
    gc.collect()
    np.testing.assert_array_equal(kept[0].numpy(), [1, 2, 3])
    np.testing.assert_array_equal(np.from_dlpack(kept[1]), [1, 2, 3])


def test_unaligned_argument_ends_with_the_call():
    kept = []
    to_ffi(kept.append)(ffi_tensor(aligned(3, offset=4)))
    with pytest.raises(ValueError, match="borrowed"):
        kept[0].numpy()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_borrowed_argument_is_empty_after_the_call(shape):
    """The memory of a numpy array belongs to the caller: it may be gone after the call."""
    kept = []
    from_ffi(kept.append)(np.zeros(shape, np.float32))
    assert 0 in tuple(kept[0].shape)
    assert np.from_dlpack(kept[0]).size == 0


@needs_writable_dlpack
@pytest.mark.parametrize("offset", [0, 4], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("start", [0, 1], ids=["itself", "part"])
def test_borrowed_argument_is_returned_as_a_copy(start, offset):
    array = aligned((17, 16), offset=offset)
    array[:] = np.arange(17 * 16).reshape(17, 16)
    result = from_ffi(lambda tensor: ffi_tensor(np.from_dlpack(tensor)[start:]))(array)
    assert not 0 <= result.data_address - array.ctypes.data < array.nbytes
    np.testing.assert_array_equal(result.numpy(), array[start:])


def test_tensor_result_shares_memory():
    array = aligned(3)
    tensor = tvmrt.nd.from_dlpack(array)
    assert address_of(to_ffi(lambda: tensor)()) == array.ctypes.data
    other = from_ffi(lambda lent: ffi_tensor(array))(aligned(3))
    assert other.data_address == array.ctypes.data


def test_unaligned_result_is_copied():
    array = aligned((2, 3), offset=4)
    array[:] = [[1, 2, 3], [4, 5, 6]]
    result = from_ffi(lambda: ffi_tensor(array))()
    assert result.data_address != array.ctypes.data
    np.testing.assert_array_equal(result.numpy(), array)


def test_tensors_convert_by_themselves():
    array = aligned((2, 3))
    tensor = bridge.to_tvm_ffi(tvmrt.nd.from_dlpack(array))
    assert isinstance(tensor, tvm_ffi.Tensor)
    assert address_of(tensor) == array.ctypes.data
    back = bridge.from_tvm_ffi(tensor)
    assert isinstance(back, tvmrt.nd.NDArray)
    assert (back.data_address, back.shape) == (array.ctypes.data, (2, 3))
