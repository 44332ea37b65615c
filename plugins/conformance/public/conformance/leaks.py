"""Whether memory grows when networks are loaded, run and freed again and again."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
from pathlib import Path

import tvmrt
from tvmrt.compiler.devices import Device

from .asynchronous import LONG_MS, is_asynchronous
from .finding import Finding
from .subject import Network, claims, joined

CHECK = "leaks"
WARM_UP, ROUNDS = 30, 120
RESIDENT_A_ROUND = 2048  # less is noise of the allocator
HEAP_A_ROUND = 128  # caches that fill slowly take less


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Memory over rounds of load, run and free; and over rounds of runs alone, of both kinds."""
    claimed = [claim.case for claim in claims(device, only) if claim.regions][:8]
    if not claimed:
        return []
    if not os.path.exists("/proc/self/statm"):
        return [Finding(CHECK, "memory", True, "not measured: this system has no /proc")]
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = Network(device, joined(claimed), Path(folder))
        found = [
            growth("runs", network.instance().run),
            growth("loads and runs", lambda: _load_and_run(network)),
        ]
        if is_asynchronous(device):
            limit = {device.name: {"timeout_ms": LONG_MS}}  # for which runs are started
            started = Network(device, joined(claimed), Path(folder), device_options=limit)
            found.append(growth("runs that are started", started.instance().run))
        return found


def _load_and_run(network: Network) -> None:
    """The library of the network again, in full: nothing else holds it between two rounds."""
    network.module = None
    gc.collect()
    network.module = tvmrt.runtime.load_module(str(network.path))
    network.outputs(network.instance())


def growth(what: str, action) -> Finding:
    """Whether memory grows with the rounds. What grows is measured again: a cache that fills slowly
    has ended by then."""
    found = _measured(what, action)
    return found if found.passed else _measured(what, action)


def _measured(what: str, action) -> Finding:
    """Both are looked at: a leak fills room that was free before what is resident grows, and not
    all memory is of the heap. What grows in one half of the rounds alone is a cache."""
    _growths(action, WARM_UP)
    halves = [_growths(action, ROUNDS // 2) for _ in range(2)]
    resident, heap = map(min, zip(*halves))
    passed = resident < RESIDENT_A_ROUND and heap < HEAP_A_ROUND
    text = f"{max(resident, heap, 0):.0f} bytes a round over {ROUNDS} rounds"
    return Finding(CHECK, what, passed, text)


def _growths(action, rounds: int) -> tuple[float, float]:
    """Bytes a round, of what is resident and of the heap."""
    resident, heap = _resident(), _heap()
    for _ in range(rounds):
        action()
    gc.collect()
    return (_resident() - resident) / rounds, (_heap() - heap) / rounds


def _resident() -> int:
    """Bytes of this process in memory."""
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
    """Bytes that were allocated and not freed; 0 where the C library does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = _Mallinfo
    told = ask()
    return int(told.uordblks + told.hblkhd)
