"""NDArray: tensors of the runtime, exchanged with NumPy by copy and with any library by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmrt.runtime import _core
from tvmrt.runtime._library import address, check, ffi, lib
from tvmrt.runtime.data_type import (
    DataType,
    in_memory,
    numpy_dtype,
    of_codes,
    of_numpy,
    unpack,
)
from tvmrt.runtime.dense_array import dense_array, refuse_masks
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

__all__ = [
    "Device",
    "NDArray",
    "array",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "hexagon",
    "metal",
    "numpyasarray",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]


class NDArray(_core.Tensor):
    """A tensor of the runtime.

    It has ``shape``, ``dtype`` (text), ``device``, ``ndim`` and ``nbytes``. ``numpy()`` copies its
    elements; ``copyfrom()`` and ``t[:] = x`` write them. ``from_dlpack(t)`` of NumPy and other
    libraries shares its memory. Tensors are created by array(), empty() and from_dlpack().

    Several threads may use a tensor; the caller must synchronise writes with reads. A tensor that a
    Python callback received as a bare DLTensor is valid only during the call.
    """

    __slots__ = ()

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """Copy to another tensor of equal size in bytes, or to a new one on a device.

        Returns
        -------
        NDArray
            The destination.
        """
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target, mem_scope)
        elif not isinstance(target, _core.Tensor):
            raise TypeError(f"copyto() needs an NDArray or a Device, not {type(target).__name__}")
        source, destination = _handle(self), _handle(target)
        check(lib.TVMArrayCopyFromTo(source, destination, ffi.NULL))
        return target

    def _create_view(
        self, shape: tuple[int, ...], dtype: Any = None, relative_byte_offset: int = 0
    ) -> NDArray:
        """Return a view of this memory with another shape, starting at a byte offset. Its type is
        this tensor's if `dtype` is None. ValueError if it exceeds this tensor's memory."""
        from tvmrt.runtime.container import ShapeTuple
        from tvmrt.runtime.packed_func import get_global_func

        create = get_global_func("runtime.TVMArrayCreateView")
        as_type = self.dtype if dtype is None else str(dtype)
        return create(self, ShapeTuple(shape), as_type, relative_byte_offset)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __setitem__(self, where: Any, value: Any) -> None:
        if where != slice(None) and where is not Ellipsis:
            raise ValueError("only whole tensors can be assigned: tensor[:] = value")
        self.copyfrom(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("numpy() copies; use numpy.from_dlpack(tensor) to share the memory")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __eq__(self, other: object) -> bool:
        return self.same_as(other)

    def __hash__(self) -> int:
        return hash(self.handle)

    def __str__(self) -> str:
        return str(self.numpy())

    def __repr__(self) -> str:
        extents = ", ".join(str(extent) for extent in self.shape)
        return f"<tvmrt.nd.NDArray shape=({extents}), {self.device}>\n{self.numpy()!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return array, (self.numpy(),)


def _handle(tensor: _core.Tensor) -> ffi.CData:
    if tensor.handle == 0:
        raise ValueError("the tensor was borrowed for a call that has returned")
    return ffi.cast("DLTensor*", tensor.handle)


def empty(
    shape: int | tuple[int, ...],
    dtype: Any = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
) -> NDArray:
    """Return a tensor with undefined contents.

    Parameters
    ----------
    shape
        Extents.
    dtype
        A text such as ``"float32"``, a DataType or a numpy dtype.
    device
        The device; the CPU if absent.
    mem_scope
        Name of a memory of the device; its main memory if absent.
    """
    extents = [int(extent) for extent in ((shape,) if isinstance(shape, int) else shape)]
    element = DataType(dtype)
    device = device or cpu(0)
    if mem_scope not in (None, "", "global"):
        from tvmrt.runtime.container import ShapeTuple
        from tvmrt.runtime.packed_func import get_global_func

        allocate = get_global_func("runtime.TVMArrayAllocWithScope")
        return allocate(ShapeTuple(extents), element, device, mem_scope)
    out = ffi.new("TVMArrayHandle*")
    check(
        lib.TVMArrayAlloc(
            ffi.new("int64_t[]", extents),
            len(extents),
            element.type_code,
            element.bits,
            element.lanes,
            device.device_type,
            device.device_id,
            out,
        )
    )
    return _core.tensor_from_handle(address(out[0]))


def array(arr: Any, device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """Return a new tensor with a copy of an array.

    Parameters
    ----------
    arr
        A NumPy array, an NDArray, or anything that ``numpy.asarray`` takes.
    device
        The device; the CPU if absent.
    """
    if not isinstance(arr, (np.ndarray, _core.Tensor)):
        arr = dense_array(arr)
    dtype = of_numpy(arr.dtype) if isinstance(arr, np.ndarray) else arr.dtype
    return empty(arr.shape, dtype, device, mem_scope).copyfrom(arr)


def from_dlpack(dltensor: Any) -> NDArray:
    """Return a tensor that shares the memory of another library's tensor.

    Parameters
    ----------
    dltensor
        Anything with ``__dlpack__`` (NumPy, PyTorch, JAX, CuPy ...) or a DLPack capsule. It must be
        contiguous. Memory that is not aligned to 64 bytes gives a view, which any function takes
        except set_input_zero_copy().

    Raises
    ------
    ValueError
        If it is not contiguous or has masked elements, or the capsule was used before.
    BufferError
        If it is read-only.
    """
    refuse_masks(dltensor)
    return _core.from_dlpack(dltensor)


def numpyasarray(np_data: np.ndarray[Any, Any]) -> NDArray:
    """Return a tensor that shares the memory of a contiguous NumPy array."""
    return _core.from_dlpack(dense_array(np_data))


def convert_elements(source: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return values as a contiguous array with the shape and element type of a tensor.

    For floats that only ml_dtypes has, unsigned integers are taken as bit patterns. For packed
    elements, a one-dimensional uint8 array is taken as the bytes in memory.

    Raises
    ------
    TypeError
        If the values are not numbers.
    ValueError
        If they have another shape, or are masked.
    """
    if isinstance(source, _core.Tensor):
        source = source.numpy()
    values = dense_array(source)
    if values.dtype.kind not in "biufcV":
        raise TypeError(f"the elements of a {type(source).__name__} are not numbers")
    element = DataType(dtype)
    wanted = numpy_dtype(element.type_code, element.bits, element.lanes)
    if values.shape != shape:
        size = (int(np.prod(shape)) * element.bits + 7) // 8
        if element.bits in (2, 4) and values.dtype == np.uint8 and values.shape == (size,):
            return unpack(values.tobytes(), shape, element.type_code, element.bits)
        raise ValueError(
            f"an array of shape {values.shape} does not match the tensor's shape {shape}"
        )
    if of_codes(values, wanted, element.bits):
        values = np.ascontiguousarray(values).view(wanted).reshape(shape)
    # ascontiguousarray would add a dimension to a scalar
    return np.require(values, wanted, ["C", "W"]).reshape(shape)


def _copy_from(target: NDArray, source: Any) -> NDArray:
    """Implement NDArray.copyfrom() for different element types or devices."""
    if isinstance(source, _core.Tensor) and source.dtype == target.dtype:
        if source.shape != target.shape:
            raise ValueError(
                f"a tensor of shape {source.shape} does not match the tensor's shape {target.shape}"
            )
        check(lib.TVMArrayCopyFromTo(_handle(source), _handle(target), ffi.NULL))
        return target
    values = convert_elements(source, target.shape, target.dtype)
    memory = in_memory(values, DataType(target.dtype).bits)
    data = ffi.from_buffer(memory) if values.size else ffi.NULL
    check(lib.TVMArrayCopyFromBytes(_handle(target), ffi.cast("void*", data), memory.nbytes))
    return target
