"""Check whether memory grows when networks are repeatedly loaded, run and freed."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
from pathlib import Path

import tvmrt
from tvmrt.compiler.sdk.devices import Device

from .asynchronous import LONG_MS, is_asynchronous
from .device_under_test import LoadedNetwork, accepted_cases, merge_cases
from .finding import Finding

CHECK = "leaks"
WARM_UP, ITERATIONS = 30, 120
MAX_RESIDENT_GROWTH = 2048  # bytes; less is noise of the allocator
MAX_HEAP_GROWTH = 128  # bytes; caches that fill slowly take less


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Measure memory over load-run-free cycles, and over synchronous and asynchronous runs."""
    accepted = [claim.case for claim in accepted_cases(device, only) if claim.regions][:8]
    if not accepted:
        return []
    if not os.path.exists("/proc/self/statm"):
        return [Finding(CHECK, "memory", True, "not measured: this system has no /proc")]
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = LoadedNetwork(device, merge_cases(accepted), Path(folder))
        result = [
            growth("runs", network.instance().run),
            growth("loads and runs", lambda: _load_and_run(network)),
        ]
        if is_asynchronous(device):
            limit = {device.name: {"timeout_ms": LONG_MS}}  # a time limit makes runs asynchronous
            started = LoadedNetwork(
                device, merge_cases(accepted), Path(folder), device_options=limit
            )
            result.append(growth("runs that are started", started.instance().run))
        return result


def _load_and_run(network: LoadedNetwork) -> None:
    """Reload the network's library completely: nothing else holds it between two rounds."""
    network.module = None
    gc.collect()
    network.module = tvmrt.runtime.load_module(str(network.path))
    network.outputs(network.instance())


def growth(what: str, action) -> Finding:
    """Check whether memory grows per round. Growth is measured twice, since a slowly filling cache
    is full by then."""
    found = _measure_growth(what, action)
    return found if found.passed else _measure_growth(what, action)


def _measure_growth(what: str, action) -> Finding:
    """Measure resident memory and heap: a leak first fills free heap space, and not all memory is
    on the heap. Growth in only one half of the rounds is a cache."""
    _growths(action, WARM_UP)
    halves = [_growths(action, ITERATIONS // 2) for _ in range(2)]
    resident, heap = map(min, zip(*halves))
    passed = resident < MAX_RESIDENT_GROWTH and heap < MAX_HEAP_GROWTH
    text = f"{max(resident, heap, 0):.0f} bytes a round over {ITERATIONS} rounds"
    return Finding(CHECK, what, passed, text)


def _growths(action, iterations: int) -> tuple[float, float]:
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
    """``struct mallinfo2`` of the C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _heap() -> int:
    """Return the allocated heap bytes; 0 if the C library does not report them."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _Mallinfo
    info = mallinfo()
    return int(info.uordblks + info.hblkhd)
