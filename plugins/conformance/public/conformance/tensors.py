"""Check tensors with a byte offset, at any address, between other data, and in the device's own
memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import CSource, Device
from tvmrt.compiler.sdk.graph import DeviceMemory, Value
from tvmrt.runtime._library import check as check_call
from tvmrt.runtime._library import ffi, lib
from tvmrt.runtime.packed_func import PackedFunc

from .device_under_test import Network, accepted_cases
from .finding import Finding

CHECK = "tensors"
GUARD = 256  # bytes before and after each tensor that must not change
PATTERN = 0xA5


class _GuardedTensor:
    """A tensor in its own memory, with guards. ``shift`` is the distance in bytes from a multiple
    of 64 to the first element; ``offset`` of these bytes are its byte_offset."""

    def __init__(self, value: Value, array: np.ndarray, shift: int, offset: int, strides: bool):
        buffer = np.full(array.nbytes + 2 * GUARD + 128, PATTERN, np.uint8)
        start = GUARD + -(buffer.ctypes.data + GUARD) % 64 + shift
        self._buffer, self._begin, self._end = buffer, start, start + array.nbytes
        self.array = buffer[start : self._end].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        dense = [stride // array.itemsize for stride in array.strides]
        self._shape = ffi.new("int64_t[]", array.shape)
        self._strides = ffi.new("int64_t[]", dense)
        self.tensor = tensor = ffi.new("DLTensor *")
        tensor.data = ffi.cast("void *", buffer.ctypes.data + start - offset)
        tensor.device = (lib.kDLCPU, 0)
        tensor.ndim = array.ndim
        tensor.dtype = (value.dtype.code, value.dtype.bits, 1)
        tensor.shape = self._shape
        tensor.strides = self._strides if strides else ffi.NULL
        tensor.byte_offset = offset

    def content(self) -> tuple[np.ndarray, bool]:
        """Return the elements, and whether the guards hold."""
        before, after = self._buffer[: self._begin], self._buffer[self._end :]
        return self.array, bool((before == PATTERN).all() and (after == PATTERN).all())


class _FarTensor:
    """A tensor in the device's memory, with guards, at an offset."""

    def __init__(self, value: Value, array: np.ndarray, memory: DeviceMemory) -> None:
        self._start, self._like = max(GUARD, memory.align_bytes), array
        guard = bytes([PATTERN]) * self._start
        content = np.frombuffer(guard + array.tobytes() + guard, np.uint8)
        self._buffer = tvmrt.nd.array(content, tvmrt.device(memory.type, memory.number))
        self._view = self._buffer._create_view(array.shape, value.dtype.name, self._start)
        self.tensor = ffi.cast("DLTensor *", self._view.handle)

    def content(self) -> tuple[np.ndarray, bool]:
        """Return the elements, and whether the guards hold."""
        found, end = self._buffer.numpy(), self._start + self._like.nbytes
        around = np.concatenate([found[: self._start], found[end:]])
        inner = found[self._start : end].view(self._like.dtype).reshape(self._like.shape)
        return inner, bool((around == PATTERN).all())


Maker = Callable[[Value, np.ndarray], Any]  # of a tensor


def _near(*placement: Any) -> Maker:
    return lambda value, array: _GuardedTensor(value, array, *placement)


def _ways(device: Device) -> dict[str, tuple[Maker, Maker]]:
    """Return how to make inputs and outputs."""
    plain = _near(0, 0, False)
    made = {
        "at a multiple of 64": plain,
        "with a byte_offset": _near(0, 128, False),
        "at the address of its elements": _near(8, 0, False),
        "with dense strides": _near(0, 0, True),
    }
    ways = {way: (maker, maker) for way, maker in made.items()}
    if device.memory is not None:
        memory = device.memory
        far = lambda value, array: _FarTensor(value, array, memory)  # noqa: E731
        ways |= {"in the device's memory": (far, far), "results in its memory": (plain, far)}
    return ways


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Run the regions of all cases in every way: equal results, and nothing else is written."""
    accepted = [claim.case for claim in accepted_cases(device, only) if claim.regions]
    if not accepted:
        return []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = Network(device, accepted, Path(folder))
        regions = network.library.partition.regions
        regions = [r for r in regions if not isinstance(r.code, CSource)]
        runs = [(r, network.module.get_function(r.symbol, query_imports=True)) for r in regions]
        return [
            Finding(CHECK, way, not wrong, "; ".join(wrong) or f"{len(runs)} regions")
            for way, makers in _ways(device).items()
            for wrong in [list(dict.fromkeys(_wrong(runs, *makers, tolerance)))]
        ]


def _wrong(runs: list, of_input: Maker, of_output: Maker, tolerance: float) -> Iterator[str]:
    for region, run in runs:
        rng = np.random.default_rng(3)
        inputs = [(value, _values(value, rng)) for value in region.inputs]
        zeros = [(value, np.zeros(value.shape, value.dtype.numpy)) for value in region.outputs]
        plain = [_near(0, 0, False)(*pair) for pair in (*inputs, *zeros)]
        other = [of_input(*pair) for pair in inputs]
        # previous content must not matter
        other += [of_output(value, np.ones_like(array)) for value, array in zeros]
        name, count = ", ".join(node.op for node in region.nodes), len(inputs)
        try:
            _call(run, plain)
            for tensor in plain[:count]:
                tensor.array[...] = 0  # must not be read any more
            _call(run, other)
            found = [tensor.content() for tensor in other]
        except Exception as problem:  # a finding, not an end of the test
            yield f"{name}: {problem}"
            continue
        if not all(holds for _, holds in found):
            yield f"{name} writes outside of its tensors"
        if not all(a.tobytes() == b.tobytes() for (a, _), (_, b) in zip(found, inputs)):
            yield f"{name} writes to its inputs"
        results = zip(plain[count:], found[count:])
        if not all(np.allclose(a.array, b, tolerance, tolerance, True) for a, (b, _) in results):
            yield f"{name} gives other results"


def _call(function: PackedFunc, tensors: list) -> None:
    """Call through the C interface, since Python chooses the addresses of its tensors."""
    count = len(tensors)
    values = ffi.new("TVMValue[]", count)
    for value, placed in zip(values, tensors):
        value.v_handle = placed.tensor
    codes = ffi.new("int[]", [lib.kTVMDLTensorHandle] * count)
    result, code = ffi.new("TVMValue *"), ffi.new("int *")
    handle = ffi.cast("TVMFunctionHandle", function.handle)
    check_call(lib.TVMFuncCall(handle, values, codes, count, result, code))


def _values(value: Value, rng: np.random.Generator) -> np.ndarray:
    kind = np.dtype(value.dtype.numpy)
    if kind.kind == "f":
        return (np.abs(rng.normal(size=value.shape)) + 0.5).astype(kind)
    if kind.itemsize == 1 and kind.kind != "b":
        return rng.integers(0, 256, value.shape).astype(np.uint8).view(kind)
    return rng.integers(0, 2 if kind.kind == "b" else 9, value.shape).astype(kind)
