"""Check whether memory grows when networks are repeatedly loaded, run and freed."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Device
from tvmrt.compiler.sdk.graph import Region

from .asynchronous import LONG_MS, is_asynchronous, time_limit
from .case import Case
from .device_under_test import Network, accepted_cases, few_of_each, regions_of
from .finding import Finding

CHECK = "leaks"
WARM_UP, ITERATIONS, LOADS = 30, 200, 1000
MAX_BYTES = 20_000  # of a network
ALLOCATED = 1 << 16  # bytes of a tensor in the device's memory
MAX_RESIDENT_GROWTH = 2048  # bytes; less is noise of the allocator
MAX_HEAP_GROWTH = 24  # bytes; caches that fill slowly take less


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Measure memory over load-run-free cycles, and over synchronous and asynchronous runs."""
    accepted = few_of_each(accepted_cases(device, only), 1, MAX_BYTES)[:8]
    if not accepted:
        return []
    if not os.path.exists("/proc/self/statm"):
        return [Finding(CHECK, "memory", True, "not measured: this system has no /proc")]
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = Network(device, accepted, Path(folder))

        def load_and_run() -> None:
            network.free()  # nothing else holds it between two rounds
            network.outputs(network.executor())

        result = [
            growth(CHECK, "runs", network.executor().run),
            growth(CHECK, "loads and runs", load_and_run, LOADS),
            growth(CHECK, "profiled runs", network.executor().profile),
        ]
        if device.chips:
            result.append(growth(CHECK, "regions compiled ahead", _preparation(device, accepted)))
        if device.memory is not None:
            where = tvmrt.device(device.memory.type, device.memory.number)
            ones = np.ones(ALLOCATED, np.uint8)
            in_memory = lambda: tvmrt.nd.array(ones, where)  # noqa: E731
            result.append(growth(CHECK, "tensors in its memory", in_memory))
        if is_asynchronous(device):
            started = Network(device, accepted, Path(folder), **time_limit(device, LONG_MS))
            result.append(growth(CHECK, "runs that are started", started.executor().run))
        return result


def _preparation(device: Device, cases: list[Case]) -> Callable[[], Any]:
    """Return a call that compiles one region for the first chip."""
    regions: list[Region] = []

    def observed(region: Region, chip: str) -> bytes:
        regions.append(region)
        return prepare(region, chip)

    prepare, device.prepare = device.prepare, observed
    try:
        regions_of(cases, device)
    finally:
        device.prepare = prepare
    return lambda: prepare(regions[0], device.chips[0])


def growth(check: str, what: str, action: Callable[[], Any], count: int = ITERATIONS) -> Finding:
    """Check whether memory grows per round: resident memory and the heap, since a leak first fills
    free heap space, and not all memory is on the heap. Growth in only one half of the rounds is a
    cache; one that fills slowly is full when growth is measured again."""
    gc.freeze()  # collections of the cases would take most of the time
    for _ in range(2):
        _growths(action, WARM_UP)
        halves = [_growths(action, count // 2) for _ in range(2)]
        resident, heap = map(min, zip(*halves))
        passed = resident < MAX_RESIDENT_GROWTH and heap < MAX_HEAP_GROWTH
        if passed:
            break
    text = f"{max(resident, heap, 0):.0f} bytes a round over {count} rounds"
    return Finding(check, what, passed, text)


def _growths(action: Callable[[], Any], iterations: int) -> tuple[float, float]:
    """Return the growth per round in bytes, of resident memory and of the heap."""
    resident, heap = _resident(), _heap()
    for _ in range(iterations):
        action()
    gc.collect()
    return (_resident() - resident) / iterations, (_heap() - heap) / iterations


def _resident() -> int:
    """Return the bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Mallinfo(ctypes.Structure):
    """``struct mallinfo2`` of the C library; its numbers 4 and 7 are hblkhd and uordblks."""

    _fields_ = (("numbers", ctypes.c_size_t * 10),)


def _heap() -> int:
    """Return the allocated heap bytes; 0 if the C library does not report them."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _Mallinfo
    numbers = mallinfo().numbers
    return int(numbers[4] + numbers[7])
