"""Check tensors with a byte offset, at any address, and between other data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tvmrt.compiler.sdk.devices import CSource, Device
from tvmrt.compiler.sdk.graph import Value
from tvmrt.runtime._library import check as check_call
from tvmrt.runtime._library import ffi, lib
from tvmrt.runtime.packed_func import PackedFunc

from .device_under_test import LoadedNetwork, accepted_cases, merge_cases
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

    def guards_hold(self) -> bool:
        before, after = self._buffer[: self._begin], self._buffer[self._end :]
        return bool((before == PATTERN).all() and (after == PATTERN).all())


WAYS = {
    "at a multiple of 64": (0, 0, False),
    "with a byte_offset": (0, 128, False),
    "at the address of its elements": (8, 0, False),
    "with dense strides": (0, 0, True),
}


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Run the regions of all cases in every way: equal results, and nothing else is written."""
    accepted = [claim.case for claim in accepted_cases(device, only) if claim.regions]
    if not accepted:
        return []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = LoadedNetwork(device, merge_cases(accepted), Path(folder))
        regions = network.library.partition.regions
        regions = [r for r in regions if not isinstance(r.code, CSource)]
        runs = [(r, network.module.get_function(r.symbol, query_imports=True)) for r in regions]
        return [
            Finding(CHECK, way, not wrong, "; ".join(wrong) or f"{len(runs)} regions")
            for way, placement in WAYS.items()
            for wrong in [list(dict.fromkeys(_wrong(runs, placement, tolerance)))]
        ]


def _wrong(runs: list, placement: tuple[int, int, bool], tolerance: float) -> Iterator[str]:
    for region, run in runs:
        rng = np.random.default_rng(3)
        inputs = [_values(value, rng) for value in region.inputs]
        outputs = [np.zeros(value.shape, value.dtype.numpy) for value in region.outputs]
        values = [*region.inputs, *region.outputs]
        used = [np.ones_like(array) for array in outputs]  # previous content must not matter
        plain = [_GuardedTensor(v, a, 0, 0, False) for v, a in zip(values, [*inputs, *outputs])]
        other = [_GuardedTensor(v, a, *placement) for v, a in zip(values, [*inputs, *used])]
        name = ", ".join(node.op for node in region.nodes)
        try:
            _call(run, plain)
            for tensor in plain[: len(inputs)]:
                tensor.array[...] = 0  # must not be read any more
            _call(run, other)
        except Exception as problem:  # a finding, not an end of the test
            yield f"{name}: {problem}"
            continue
        count = len(inputs)
        if not all(tensor.guards_hold() for tensor in other):
            yield f"{name} writes outside of its tensors"
        if not all(_same(t.array, a) for t, a in zip(other, inputs)):
            yield f"{name} writes to its inputs"
        close = [_close(a.array, b.array, tolerance) for a, b in zip(plain[count:], other[count:])]
        if not all(close):
            yield f"{name} gives other results"


def _call(function: PackedFunc, tensors: list[_GuardedTensor]) -> None:
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
    kind = value.dtype.numpy
    if np.dtype(kind).kind == "f":
        return (np.abs(rng.normal(size=value.shape)) + 0.5).astype(kind)
    return np.ones(value.shape, kind)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


def _close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
