"""Measure the time of calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Times of successive calls, in seconds."""

    calls: int
    median: float
    fastest: float
    p99: float

    def __str__(self) -> str:
        format_shape = (f"{name} {duration(each)}" for name, each in self._rows())
        return f"{', '.join(format_shape)} ({self.calls:,} calls)"

    __repr__ = __str__

    def _rows(self) -> list[tuple[str, float]]:
        return [("median", self.median), ("fastest", self.fastest), ("99 %", self.p99)]


def duration(seconds: float) -> str:
    """Format a time: ``3.4 us``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def measure(call: Callable[[], object], seconds: float) -> Timing:
    """Time calls for some seconds, at least five, after two warm-up calls."""
    from statistics import median, quantiles  # keeps loading a network fast

    if not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise TypeError(f"seconds is {seconds!r}; give a number of seconds")
    call()
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return Timing(len(times), median(times), min(times), quantiles(times, n=100)[-1])
