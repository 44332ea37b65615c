"""Tensors: copies, element types, DLPack, errors."""

from __future__ import annotations

import ctypes
import gc
import pickle
import weakref

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import DataType, _library

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_round_trip(dtype):
    values = np.random.default_rng(0).integers(0, 2, (3, 4)).astype(dtype)
    tensor = tvmrt.nd.array(values)
    assert (tensor.shape, tensor.dtype, tensor.ndim) == ((3, 4), dtype, 2)
    assert tensor.nbytes == values.nbytes
    back = tensor.numpy()
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(back, values)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3, 4, 5)], ids=str)
def test_shapes(shape):
    values = np.ones(shape, np.float32)
    tensor = tvmrt.nd.array(values)
    assert tensor.shape == shape
    np.testing.assert_array_equal(tensor.numpy(), values)


@pytest.fixture
def threads():
    """Set and start the number of threads, and restore it afterwards."""
    task = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    nothing = task(lambda number, environment, data: 0)
    configure = tvmrt.get_global_func("runtime.config_threadpool")
    before = tvmrt.get_global_func("runtime.NumThreads")()

    def start(count: int) -> None:
        configure(0, count)
        assert ctypes.CDLL(_library.PATH).TVMBackendParallelLaunch(nothing, None, 0) == 0

    yield start
    configure(0, before)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_large_arrays_are_copied_by_any_number_of_threads(threads, count):
    """Arrays of 128 KiB and more are partitioned; parts may meet inside a cache line."""
    threads(count)
    for size in ((128 << 10) - 1, 128 << 10, 300_001, 2_000_003):
        values = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        tensor = tvmrt.nd.array(values)
        np.testing.assert_array_equal(tensor.numpy(), values)
        tensor.copyfrom(values[::-1].copy())
        np.testing.assert_array_equal(tensor.numpy(), values[::-1])


def test_bfloat16_round_trip():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([1.5, -2, 0], ml_dtypes.bfloat16)
    tensor = tvmrt.nd.array(values)
    assert tensor.dtype == "bfloat16"
    np.testing.assert_array_equal(tensor.numpy().astype(np.float32), [1.5, -2, 0])


def test_array_copies():
    values = np.zeros(3, np.float32)
    tensor = tvmrt.nd.array(values)
    values[:] = 1
    np.testing.assert_array_equal(tensor.numpy(), np.zeros(3))


def test_numpy_copies():
    tensor = tvmrt.nd.array(np.zeros(3, np.float32))
    tensor.numpy()[:] = 1
    np.testing.assert_array_equal(tensor.numpy(), np.zeros(3))


@pytest.mark.parametrize(
    "values",
    [[1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3], np.int8), np.arange(1, 7)[::2] // 2 + 1],
    ids=["list", "tuple", "int8", "strided"],
)
def test_copyfrom_converts_elements(values):
    tensor = tvmrt.nd.empty((3,), "float32")
    tensor.copyfrom(values)
    np.testing.assert_array_equal(tensor.numpy(), np.asarray(values, np.float32))


def test_copyfrom_read_only_array():
    values = np.arange(3, dtype=np.float32)
    values.flags.writeable = False
    np.testing.assert_array_equal(tvmrt.nd.array(values).numpy(), values)


def test_copyfrom_returns_the_tensor():
    tensor = tvmrt.nd.empty((3,))
    assert tensor.copyfrom(np.zeros(3, np.float32)) is tensor


@pytest.mark.parametrize("shape", [(2,), (3, 1), (1, 3), ()], ids=str)
def test_copyfrom_wrong_shape(shape):
    tensor = tvmrt.nd.empty((3,))
    with pytest.raises(ValueError, match="shape"):
        tensor.copyfrom(np.zeros(shape, np.float32))


@pytest.mark.parametrize("value", ["text", None, object()], ids=["str", "none", "object"])
def test_copyfrom_something_else(value):
    with pytest.raises((TypeError, ValueError)):
        tvmrt.nd.empty((3,)).copyfrom(value)


def test_copyto_and_setitem():
    source, target = tvmrt.nd.array(np.arange(3.0)), tvmrt.nd.empty((3,), "float64")
    assert source.copyto(target) is target
    np.testing.assert_array_equal(target.numpy(), [0, 1, 2])
    copy = source.copyto(tvmrt.cpu(0))
    source[:] = np.zeros(3)
    np.testing.assert_array_equal(copy.numpy(), [0, 1, 2])
    with pytest.raises(ValueError, match="only whole tensors"):
        source[0] = 1
    with pytest.raises(TypeError, match="NDArray or a Device"):
        source.copyto(5)


def test_copyto_another_size():
    with pytest.raises((tvmrt.TVMError, ValueError)):
        tvmrt.nd.empty((3,)).copyto(tvmrt.nd.empty((4,)))


@pytest.mark.parametrize("shape", [(-1,), (2**40, 2**40)], ids=str)
def test_impossible_shapes(shape):
    with pytest.raises((tvmrt.TVMError, ValueError, MemoryError)):
        tvmrt.nd.empty(shape)


def test_numpy_asarray_and_repr():
    tensor = tvmrt.nd.array(np.arange(3.0))
    np.testing.assert_array_equal(np.asarray(tensor), [0, 1, 2])
    assert "shape=(3)" in repr(tensor)
    assert str(tensor) == str(np.arange(3.0))
    assert len(tensor) == 3
    assert tensor.size == 3


def test_pickle():
    tensor = tvmrt.nd.array(np.arange(3.0))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(tensor)).numpy(), tensor.numpy())


def test_identity():
    tensor = tvmrt.nd.empty((3,))
    assert tensor == tensor  # noqa: PLR0124 - the comparison is what is tested
    assert tensor != tvmrt.nd.empty((3,))
    assert len({tensor, tensor}) == 1


# ---- DLPack ----


def aligned(shape, dtype="float32", offset=0):
    """A numpy array whose data starts `offset` bytes after a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("offset", [0, 16], ids=["aligned", "unaligned"])
def test_from_numpy_shares_memory(offset):
    values = aligned((2, 3), offset=offset)
    tensor = tvmrt.nd.from_dlpack(values)
    values[:] = 7
    np.testing.assert_array_equal(tensor.numpy(), values)
    assert tensor.data_address == values.ctypes.data
    assert tensor.is_view == bool(offset)


@pytest.mark.parametrize("offset", [0, 16], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "float16"])
def test_numpy_round_trip_by_dlpack(offset, dtype):
    if dtype == "bool" and np.lib.NumpyVersion(np.__version__) < "1.25.0":
        pytest.skip("numpy takes tensors of bools since 1.25")
    values = aligned((2, 3), dtype, offset)
    back = np.from_dlpack(tvmrt.nd.from_dlpack(values))
    assert back.dtype == values.dtype
    assert back.ctypes.data == values.ctypes.data
    values[:] = 1
    np.testing.assert_array_equal(back, values)


def test_numpy_gets_writable_memory():
    tensor = tvmrt.nd.array(np.zeros(3, np.float32))
    shared = np.from_dlpack(tensor)
    if not shared.flags.writeable:
        pytest.skip("this numpy makes every imported array read-only")
    shared[:] = 5
    np.testing.assert_array_equal(tensor.numpy(), [5, 5, 5])


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 16], ids=["aligned", "unaligned"])
def test_memory_lives_as_long_as_needed(offset):
    class Tracked(np.ndarray):
        pass

    values = aligned((4,), offset=offset).view(Tracked)
    watch = weakref.ref(values)
    tensor = tvmrt.nd.from_dlpack(values)
    del values
    gc.collect()
    shared = np.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert watch() is not None
    del shared
    gc.collect()
    assert watch() is None


def test_unused_capsule_is_released():
    tensor = tvmrt.nd.from_dlpack(aligned((4,)))
    for version in (None, (1, 0)):
        capsule = tensor.__dlpack__(max_version=version)
        del capsule
    np.testing.assert_array_equal(tensor.numpy(), np.zeros(4))


@pytest.mark.parametrize("version", [None, (1, 0)], ids=["old", "versioned"])
def test_capsule_is_used_once(version):
    tensor = tvmrt.nd.array(np.arange(3.0))
    capsule = tensor.__dlpack__(max_version=version)
    again = tvmrt.nd.from_dlpack(capsule)
    np.testing.assert_array_equal(again.numpy(), [0, 1, 2])
    with pytest.raises(ValueError, match="used before"):
        tvmrt.nd.from_dlpack(capsule)


@pytest.mark.parametrize("version", [None, (1, 0)], ids=["old", "versioned"])
@pytest.mark.parametrize("copy", [None, False, True])
def test_capsule_is_a_copy_if_asked_for(version, copy):
    tensor = tvmrt.nd.array(np.arange(3.0))
    other = tvmrt.nd.from_dlpack(tensor.__dlpack__(max_version=version, copy=copy))
    other[:] = np.ones(3)
    np.testing.assert_array_equal(tensor.numpy(), [0, 1, 2] if copy else [1, 1, 1])
    np.testing.assert_array_equal(other.numpy(), [1, 1, 1])


def test_torch_round_trip():
    torch = pytest.importorskip("torch")
    source = torch.arange(64, dtype=torch.float32).reshape(4, 16)
    tensor = tvmrt.nd.from_dlpack(source)
    source += 1
    np.testing.assert_array_equal(tensor.numpy(), source.numpy())
    assert torch.from_dlpack(tensor).data_ptr() == source.data_ptr()


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: np.zeros((4, 4))[:, ::2], (ValueError, BufferError), "contiguous"),
        (object, TypeError, "DLPack"),
        (lambda: 5, TypeError, "DLPack"),
    ],
    ids=["strided", "object", "int"],
)
def test_from_dlpack_refuses(make, kind, text):
    with pytest.raises(kind, match=text):
        tvmrt.nd.from_dlpack(make())


def test_view_is_an_argument_like_any_other(toolbox):
    values = aligned((4,), offset=16)
    assert toolbox["data_address"](tvmrt.nd.from_dlpack(values)) == values.ctypes.data


# ---- element types ----


@pytest.mark.parametrize(
    ("text", "code", "bits", "lanes"),
    [
        ("float32", 2, 32, 1),
        ("int8x4", 0, 8, 4),
        ("bool", 1, 1, 1),
        ("uint", 1, 32, 1),
        ("bfloat16", 4, 16, 1),
        ("handle", 3, 64, 1),
        ("void", 3, 0, 0),
        ("e4m3_float8", 6, 8, 1),
    ],
)
def test_data_type_text(text, code, bits, lanes):
    dtype = DataType(text)
    assert (dtype.type_code, dtype.bits, dtype.lanes) == (code, bits, lanes)
    assert DataType(str(dtype)) == dtype
    assert pickle.loads(pickle.dumps(dtype)) == dtype


@pytest.mark.parametrize("text", ["float", "int4", "uint1x8"])
def test_data_type_equals_its_text(text):
    assert DataType(text) == str(DataType(text))
    assert hash(DataType(text)) == hash(DataType(text))


@pytest.mark.parametrize("text", ["floaty", "float32x", "32", "int9999", "int8 ", "custom"])
def test_data_type_refuses(text):
    with pytest.raises(ValueError, match="not a data type"):
        DataType(text)


# ---- devices ----


@pytest.mark.parametrize(
    ("given", "kind", "number"),
    [
        (("cpu",), 1, 0),
        (("cpu", 0), 1, 0),
        (("cpu:0",), 1, 0),
        (("llvm -mcpu=native",), 1, 0),
        (("opencl", 2), 4, 2),
        ((12, 1), 12, 1),
    ],
)
def test_device(given, kind, number):
    device = tvmrt.device(*given)
    assert (device.device_type, device.device_id) == (kind, number)
    assert pickle.loads(pickle.dumps(device)) == device


def test_device_repr_and_attributes():
    assert repr(tvmrt.cpu(0)) == "cpu(0)"
    assert tvmrt.cpu(0).exist is True
    assert (
        tvmrt.webgpu(0).exist is False
    )  # other tests of this process may have registered an ext_dev
    assert tvmrt.cpu(0) in {tvmrt.cpu(0)}
    with pytest.raises(AttributeError, match="colour"):
        _ = tvmrt.cpu(0).colour
    with pytest.raises(ValueError, match="unknown device type"):
        tvmrt.device("toaster")


def test_device_sync():
    tvmrt.cpu(0).sync()


@pytest.mark.parametrize("shape", [(2**32, 2**32), (0, 2**62, 4), (2**62, 4, 0)], ids=str)
def test_shapes_beyond_the_memory_are_refused(shape):
    """Strides are products of the extents, even of an empty array."""
    with pytest.raises(ValueError, match="more memory than can be addressed"):
        tvmrt.nd.empty(shape)


def test_views_at_an_offset():
    values = np.arange(1024, dtype="int32")
    array = tvmrt.nd.array(values)
    view = array._create_view([512], relative_byte_offset=2048)
    np.testing.assert_array_equal(view.numpy(), values[512:])
    inner = view._create_view((4, 2), "float32", 1024)
    np.testing.assert_array_equal(inner.numpy(), values[768:776].view("float32").reshape(4, 2))
    view.copyfrom(np.zeros(512, "int32"))
    assert array.numpy()[511] == 511 and not array.numpy()[512:].any()
    for tensor, shape, offset, text in (
        (array, [2048], 0, "the NDArray being viewed only contains 4096 bytes"),
        (array, [1024], 8192, "would occupy bytes 8192 <= i_byte < 12288"),
        (view, [1024], 2048, "would occupy bytes 2048 <= i_byte < 6144"),
        (view, [512], 2048, "would occupy bytes 2048 <= i_byte < 4096"),
    ):
        with pytest.raises(ValueError, match=text):
            tensor._create_view(shape, relative_byte_offset=offset)
    with pytest.raises(ValueError, match="negative"):
        array._create_view([1], relative_byte_offset=-4)
