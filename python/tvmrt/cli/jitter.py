"""Times of single runs for ``tvmrt bench --jitter``: percentiles, and how they were scheduled."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tvmrt.cli import console

if TYPE_CHECKING:
    from tvmrt.cli.session import Session

WARM_RUNS = 20
BATCH_SECONDS = 0.05  # between two looks at the clock
POLICIES = ("SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "SCHED_IDLE", "SCHED_DEADLINE")


@dataclass(frozen=True)
class Scheduling:
    """Scheduling of the measuring process, as far as the system states it.

    ``policy``: Name of the policy. ``priority``: Real-time priority; 0 for other policies.
    ``nice``: Nice value. ``processors``: Processors that the process may use. ``locked_bytes``:
    Memory that is locked in RAM.
    """

    policy: str
    priority: int
    nice: int
    processors: int
    locked_bytes: int

    def __str__(self) -> str:
        level = f"priority {self.priority}" if self.priority else f"nice {self.nice}"
        locked = console.format_bytes(self.locked_bytes) if self.locked_bytes else "no"
        plural = "" if self.processors == 1 else "s"
        return (
            f"{self.policy}, {level}, {self.processors} processor{plural}, {locked} memory locked"
        )


@dataclass(frozen=True)
class Jitter:
    """Times of single runs in seconds, without setting inputs and reading outputs.

    ``runs``: Number of runs. ``p50``: Median. ``p99``: 99 of 100 runs took at most this time.
    ``p99_9``: 999 of 1000 runs took at most this time; null for fewer than 1000 runs. ``max``:
    Slowest run. ``scheduling``: Scheduling of the process.
    """

    runs: int
    p50: float
    p99: float
    p99_9: float | None
    max: float
    scheduling: Scheduling


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest time that this share of the runs did not exceed; ``ordered`` ascends."""
    return ordered[max(0, ceil(round(share * len(ordered), 6)) - 1)]


def of_times(seconds: Sequence[float], scheduling: Scheduling) -> Jitter:
    """Return the percentiles of the times of at least one run."""
    ordered = sorted(seconds)
    rare = percentile(ordered, 0.999) if len(ordered) >= 1000 else None
    return Jitter(
        len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), rare, ordered[-1],
        scheduling,
    )  # fmt: skip


def measure(session: Session, seconds: float) -> Jitter:
    """Time single runs of a local network on its last inputs, after some runs to warm up.

    Python's garbage collector is off meanwhile, since it would interrupt runs.
    """
    one = max(min(session.time(WARM_RUNS)), 1e-7)
    batch = max(1, int(BATCH_SECONDS / one))
    times: list[float] = []
    collects = gc.isenabled()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times += session.time(batch)
    finally:
        if collects:
            gc.enable()
    return of_times(times, scheduling())


def scheduling() -> Scheduling:
    """Return the scheduling of this process; defaults where the system does not state it."""
    policy, priority, nice, processors = "unknown", 0, 0, os.cpu_count() or 1
    if hasattr(os, "sched_getscheduler"):
        number = os.sched_getscheduler(0)
        names = {getattr(os, name): name for name in POLICIES if hasattr(os, name)}
        policy = names.get(number & 0xFFFF, str(number))
        priority = os.sched_getparam(0).sched_priority
        processors = len(os.sched_getaffinity(0))
    if hasattr(os, "nice"):
        nice = os.nice(0)
    return Scheduling(policy, priority, nice, processors, _locked_bytes())


def _locked_bytes() -> int:
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        (line,) = [each for each in text.splitlines() if each.startswith("VmLck:")]
        return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return 0


def print_jitter(found: Sequence[tuple[str, Jitter]], threads: int) -> None:
    """Print a table of the networks' percentiles, and the scheduling."""
    rows = []
    for name, each in found:
        columns = (each.p50, each.p99, each.p99_9, each.max)
        rows.append([name, *map(_seconds, columns), each.runs])
    plural = "" if threads == 1 else "s"
    title = f"time of single runs, warm, {threads} thread{plural}"
    header = ["network", "p50", "p99", "p99.9", "max", "runs"]
    console.print_table(title, header, rows, left=("network",))
    for _, each in found[:1]:
        click.echo(f"scheduling: {each.scheduling}")


def _seconds(value: float | None) -> str:
    return "-" if value is None else console.format_seconds(value)
