"""Devices, on which tensors are stored and functions run."""

from __future__ import annotations

from typing import Any, Callable

from tvmrt.runtime import _core
from tvmrt.runtime._library import check, ffi, lib, pointer

__all__ = [
    "Device",
    "cpu",
    "cuda",
    "device",
    "ext_dev",
    "gpu",
    "hexagon",
    "metal",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]

RPC_SESSION_MASK = 128

_NAME_OF_TYPE = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    11: "rocm_host",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    32: "aocl",
    33: "sdaccel",
    34: "opengl",
    35: "microdev",
}
_TYPE_OF_NAME = {
    **{name: number for number, name in _NAME_OF_TYPE.items()},
    **dict.fromkeys(("llvm", "stackvm", "c", "hybrid", "composite", "test", "host"), 1),
    **dict.fromkeys(("nvptx", "gpu"), 2),
    "cl": 4,
}

# Attribute kinds of runtime.GetDeviceAttr.
_ATTRIBUTES = {
    "max_threads_per_block": 1,
    "warp_size": 2,
    "max_shared_memory_per_block": 3,
    "compute_version": 4,
    "device_name": 5,
    "max_clock_rate": 6,
    "multi_processor_count": 7,
    "max_thread_dimensions": 8,
    "api_version": 11,
    "driver_version": 12,
    "l2_cache_size_bytes": 13,
    "total_global_memory": 14,
    "available_global_memory": 15,
}


class Device(_core.Device):
    """A device: its type (a DLDeviceType number) and its index among devices of that type.

    A device also has the attributes ``exist``, ``device_name``, ``max_threads_per_block`` and so
    on, which are None if the device does not provide them.
    """

    __slots__ = ()
    MASK2STR = _NAME_OF_TYPE
    STR2MASK = _TYPE_OF_NAME

    @property
    def exist(self) -> bool:
        """Whether the device exists."""
        return bool(self._attribute(0))

    def _attribute(self, kind: int) -> Any:
        from tvmrt.runtime.packed_func import get_global_func

        return get_global_func("runtime.GetDeviceAttr")(self.device_type, self.device_id, kind)

    def __getattr__(self, name: str) -> Any:
        kind = _ATTRIBUTES.get(name)
        if kind is None:
            raise AttributeError(f"a device has no attribute '{name}'")
        return self._attribute(kind)

    def create_raw_stream(self) -> int:
        """Create a stream and return its handle; release it with free_raw_stream()."""
        out = ffi.new("TVMStreamHandle*")
        check(lib.TVMStreamCreate(self.device_type, self.device_id, out))
        return int(ffi.cast("uintptr_t", out[0]))

    def free_raw_stream(self, stream: int) -> None:
        """Release a stream created by create_raw_stream()."""
        check(lib.TVMStreamFree(self.device_type, self.device_id, pointer(stream)))

    def set_raw_stream(self, stream: int) -> None:
        """Set the stream that this thread uses on the device."""
        check(lib.TVMSetStream(self.device_type, self.device_id, pointer(stream)))

    def sync(self, stream: int | None = None) -> None:
        """Wait for all work on a stream, by default the current one."""
        check(lib.TVMSynchronize(self.device_type, self.device_id, pointer(stream or 0)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Device)
            and self.device_type == other.device_type
            and self.device_id == other.device_id
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __reduce__(self) -> tuple[type[Device], tuple[int, int]]:
        return Device, (self.device_type, self.device_id)

    def __repr__(self) -> str:
        kind, session = self.device_type % RPC_SESSION_MASK, self.device_type // RPC_SESSION_MASK
        text = f"{_NAME_OF_TYPE.get(kind, f'device_type_{kind}')}({self.device_id})"
        return f"remote[{session - 1}]:{text}" if session else text


def device(dev_type: str | int, dev_id: int | None = None) -> Device:
    """Return a device by name or number.

    Parameters
    ----------
    dev_type
        ``"cpu"``, ``"opencl"``, ``"cpu:0"``, the start of a target such as ``"llvm -mcpu=..."``, or
        a DLDeviceType number.
    dev_id
        Index of the device among those of its type; 0 if absent.

    Raises
    ------
    ValueError
        If there is no such type.
    """
    if isinstance(dev_type, str):
        name, _, number = dev_type.split()[0].partition(":") if dev_type.split() else ("", "", "")
        if name not in _TYPE_OF_NAME:
            names = ", ".join(sorted(_TYPE_OF_NAME))
            raise ValueError(f"unknown device type '{dev_type}'; choose from {names}")
        if number and dev_id is None:
            if not number.isdigit():
                raise ValueError(f"'{number}' in '{dev_type}' is not a device number")
            dev_id = int(number)
        dev_type = _TYPE_OF_NAME[name]
    return Device(dev_type, dev_id or 0)


def _maker(name: str, title: str) -> Callable[[int], Device]:
    def make(dev_id: int = 0) -> Device:
        return Device(_TYPE_OF_NAME[name], dev_id)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Return {title} device number `dev_id`."
    return make


cpu = _maker("cpu", "the CPU as")
cuda = _maker("cuda", "CUDA")
gpu = _maker("gpu", "CUDA")
rocm = _maker("rocm", "ROCm")
opencl = _maker("opencl", "OpenCL")
metal = _maker("metal", "Metal")
vpi = _maker("vpi", "VPI")
vulkan = _maker("vulkan", "Vulkan")
ext_dev = _maker("ext_dev", "extension")
hexagon = _maker("hexagon", "Hexagon")
webgpu = _maker("webgpu", "WebGPU")
