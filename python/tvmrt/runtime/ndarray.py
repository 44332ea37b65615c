"""NDArray: tensors of the runtime, exchanged with numpy by copy and with anything by DLPack."""

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

    ``shape``, ``dtype`` (text), ``device``, ``ndim``, ``nbytes`` describe it; ``numpy()`` copies it
    out, ``copyfrom()`` and ``t[:] = x`` copy in, ``numpy.from_dlpack(t)`` and any other library's
    ``from_dlpack`` share its memory. Made by array(), empty() and from_dlpack().

    A tensor may be used from several threads; writing while another thread reads is the caller's
    affair. A tensor that a Python callback got as a bare DLTensor ends with the call.
    """

    __slots__ = ()

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """Copy to another tensor of the same byte size, or to a new one on a device.

        Returns
        -------
        NDArray
            The tensor that was written.
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
        """Return a tensor of another shape that shares the memory, from an offset on; its type is
        this one's if None. ValueError if it has bytes that this one does not have."""
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
            raise ValueError("a tensor is written as a whole: tensor[:] = value")
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
        Extents, in elements.
    dtype
        A text such as ``"float32"``, a DataType or a numpy dtype.
    device
        Where; the CPU if absent.
    mem_scope
        A memory of the device; its main memory if absent.
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
    """Return a tensor with a copy of an array's elements.

    Parameters
    ----------
    arr
        A numpy array, an NDArray, or anything that ``numpy.asarray`` takes.
    device
        Where; the CPU if absent.
    """
    if not isinstance(arr, (np.ndarray, _core.Tensor)):
        arr = np.asarray(arr)
    dtype = of_numpy(arr.dtype) if isinstance(arr, np.ndarray) else arr.dtype
    return empty(arr.shape, dtype, device, mem_scope).copyfrom(arr)


def from_dlpack(dltensor: Any) -> NDArray:
    """Return a tensor that shares the memory of another library's, without a copy.

    Parameters
    ----------
    dltensor
        Anything with ``__dlpack__`` (numpy, torch, jax, cupy ...) or a DLPack capsule. It must be
        contiguous. Memory that is not aligned to 64 bytes gives a view: good for every function
        that takes a tensor, but not for set_input_zero_copy().

    Raises
    ------
    ValueError
        If it is not contiguous, or the capsule was used before.
    BufferError
        If it may not be written to.
    """
    return _core.from_dlpack(dltensor)


def numpyasarray(np_data: np.ndarray[Any, Any]) -> NDArray:
    """Return a tensor that shares the memory of a contiguous numpy array."""
    return _core.from_dlpack(np.asarray(np_data))


def convert_elements(source: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return values as a contiguous array of a shape, with elements of a tensor's type.

    Unsigned integers for floats that numpy knows by ml_dtypes alone are their codes. Of elements
    that share bytes, the bytes of memory serve too: an array of uint8 with one dimension.

    Raises
    ------
    TypeError
        If they are no numbers.
    ValueError
        If they have another shape.
    """
    if isinstance(source, _core.Tensor):
        source = source.numpy()
    values = np.asarray(source)
    if values.dtype.kind not in "biufcV":
        raise TypeError(f"the elements of a {type(source).__name__} are not numbers")
    element = DataType(dtype)
    wanted = numpy_dtype(element.type_code, element.bits, element.lanes)
    if values.shape != shape:
        size = (int(np.prod(shape)) * element.bits + 7) // 8
        if element.bits in (2, 4) and values.dtype == np.uint8 and values.shape == (size,):
            return unpack(values.tobytes(), shape, element.type_code, element.bits)
        raise ValueError(f"an array of shape {values.shape} was given for one of {shape}")
    if of_codes(values, wanted, element.bits):
        values = np.ascontiguousarray(values).view(wanted).reshape(shape)
    # ascontiguousarray gives a scalar a dimension
    return np.require(values, wanted, ["C", "W"]).reshape(shape)


def _copy_from(target: NDArray, source: Any) -> NDArray:
    """Copy with conversions: what NDArray.copyfrom() does when types or places differ."""
    if isinstance(source, _core.Tensor) and source.dtype == target.dtype:
        if source.shape != target.shape:
            raise ValueError(
                f"a tensor of shape {source.shape} was given for one of {target.shape}"
            )
        check(lib.TVMArrayCopyFromTo(_handle(source), _handle(target), ffi.NULL))
        return target
    values = convert_elements(source, target.shape, target.dtype)
    memory = in_memory(values, DataType(target.dtype).bits)
    data = ffi.from_buffer(memory) if values.size else ffi.NULL
    check(lib.TVMArrayCopyFromBytes(_handle(target), ffi.cast("void*", data), memory.nbytes))
    return target
