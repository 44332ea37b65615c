"""Tensors wherever callers have them: behind an offset, at any address, between other things."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tvmrt.devices import CSource, Device
from tvmrt.error import TVMError
from tvmrt.ir import Value
from tvmrt.libinfo import find_lib_path
from tvmrt.runtime.packed_func import PackedFunc

from .finding import Finding
from .subject import Network, claims, joined

CHECK = "tensors"
GUARD = 256  # bytes before and behind each tensor, which nobody may change
PATTERN = 0xA5
DLTENSOR_HANDLE = 7  # kTVMDLTensorHandle


class _DLTensor(ctypes.Structure):
    """As in dlpack.h."""

    _fields_ = (
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
    )


class _Placed:
    """A tensor in memory of its own, with guards. ``shift`` are bytes from a multiple of 64 to its
    first element, ``offset`` how many of those before it are its byte_offset."""

    def __init__(self, value: Value, array: np.ndarray, shift: int, offset: int, strides: bool):
        room = np.full(array.nbytes + 2 * GUARD + 128, PATTERN, np.uint8)
        start = GUARD + -(room.ctypes.data + GUARD) % 64 + shift
        self._room, self._begin, self._end = room, start, start + array.nbytes
        self.array = room[start : self._end].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        rank = max(array.ndim, 1)
        dense = [stride // array.itemsize for stride in array.strides]
        self._shape = (ctypes.c_int64 * rank)(*array.shape)
        self._strides = (ctypes.c_int64 * rank)(*dense)
        self._tensor = _DLTensor(
            room.ctypes.data + start - offset, 1, 0, array.ndim, value.dtype.code,
            value.dtype.bits, 1, self._shape, self._strides if strides else None, offset,
        )  # fmt: skip

    @property
    def address(self) -> int:
        return ctypes.addressof(self._tensor)

    def guards_hold(self) -> bool:
        before, behind = self._room[: self._begin], self._room[self._end :]
        return bool((before == PATTERN).all() and (behind == PATTERN).all())


WAYS = {
    "at a multiple of 64": (0, 0, False),
    "behind a byte_offset": (0, 128, False),
    "at the address of its elements": (8, 0, False),
    "with dense strides": (0, 0, True),
}


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Every way with the regions of all cases: the same results, and nothing else is written."""
    claimed = [claim.case for claim in claims(device, only) if claim.regions]
    if not claimed:
        return []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = Network(device, joined(claimed), Path(folder))
        regions = network.library.partition.regions
        regions = [r for r in regions if not isinstance(r.code, CSource)]
        runs = [(r, network.module.get_function(r.symbol, query_imports=True)) for r in regions]
        return [
            Finding(CHECK, way, not wrong, "; ".join(wrong) or f"{len(runs)} regions")
            for way, place in WAYS.items()
            for wrong in [list(dict.fromkeys(_wrong(runs, place, tolerance)))]
        ]


def _wrong(runs: list, place: tuple[int, int, bool], tolerance: float) -> Iterator[str]:
    for region, run in runs:
        rng = np.random.default_rng(3)
        inputs = [_values(value, rng) for value in region.inputs]
        outputs = [np.zeros(value.shape, value.dtype.numpy) for value in region.outputs]
        values = [*region.inputs, *region.outputs]
        plain = [_Placed(v, a, 0, 0, False) for v, a in zip(values, [*inputs, *outputs])]
        other = [_Placed(v, a, *place) for v, a in zip(values, [*inputs, *outputs])]
        name = ", ".join(node.op for node in region.nodes)
        try:
            _call(run, plain)
            for tensor in plain[: len(inputs)]:
                tensor.array[...] = 0  # nobody may read it any more
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


def _call(function: PackedFunc, tensors: list[_Placed]) -> None:
    """By the C interface, as generated code calls it: Python's tensors lie where it likes."""
    count = len(tensors)
    values = (ctypes.c_uint64 * count)(*(tensor.address for tensor in tensors))
    codes = (ctypes.c_int * count)(*[DLTENSOR_HANDLE] * count)
    result, code = ctypes.c_uint64(), ctypes.c_int()
    runtime = ctypes.CDLL(find_lib_path()[0])
    runtime.TVMGetLastError.restype = ctypes.c_char_p
    ends = ctypes.byref(result), ctypes.byref(code)
    if runtime.TVMFuncCall(ctypes.c_void_p(function.handle), values, codes, count, *ends) != 0:
        raise TVMError(runtime.TVMGetLastError().decode(errors="replace").splitlines()[0])


def _values(value: Value, rng: np.random.Generator) -> np.ndarray:
    kind = value.dtype.numpy
    if np.dtype(kind).kind == "f":
        return (np.abs(rng.normal(size=value.shape)) + 0.5).astype(kind)
    return np.ones(value.shape, kind)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


def _close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
