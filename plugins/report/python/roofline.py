"""Fraction of the machine's peak performance that an operator reaches (roofline model).

An operator takes at least the time of its multiplications at the peak of its precision, and the
time to transfer its bytes from the cache level, or the memory, that holds them. The fraction is the
longer of these times divided by its measured time, and at most one: where an operator is faster
than what was measured of the machine, it defines the peak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tvmrt.plugins.report.timing import times_of

# Bytes that a measured copy reads and writes: data of the caches' sizes, and more than they hold.
SIZES = (1 << 15, 1 << 18, 1 << 21, 1 << 24, 1 << 27)
SECONDS = 0.05  # of measuring each size
_BATCH_BYTES = 1 << 22  # of repeated copies in one measurement


def bandwidths(threads: int) -> dict[int, float]:
    """Return the bytes per second that copies on ``threads`` threads read and write, by the bytes
    that they touch; the last one is that of the memory."""
    with ThreadPoolExecutor(threads) as pool:
        return {size: _bandwidth(size, threads, pool) for size in SIZES}


def _bandwidth(size: int, threads: int, pool: ThreadPoolExecutor) -> float:
    source, target = np.ones(size // 8, np.float32), np.empty(size // 8, np.float32)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    repeats = max(1, _BATCH_BYTES // size)

    def copy(part: tuple[Any, Any]) -> None:
        for _ in range(repeats):
            np.copyto(*part)

    fastest = min(times_of(lambda: list(pool.map(copy, parts)), SECONDS))
    return repeats * 2 * source.nbytes / fastest


def add_rooflines(
    operators: Sequence[dict[str, Any]], flops: Mapping[str, float], nbytes: Mapping[int, float]
) -> tuple[dict[str, float], dict[int, float]]:
    """Add ``roofline`` (fraction) and ``bound`` (limit) to rows with ``seconds``; return the peaks.

    Parameters
    ----------
    operators
        Rows of a report.
    flops
        Peaks by precision. If a peak is missing, or an operator was faster, the fastest operator
        of that precision defines the peak.
    nbytes
        Bandwidth in bytes per second, by the bytes of data that it holds for; not empty.

    Returns
    -------
    Peaks as in ``flops`` and ``nbytes``. A smaller size has at least the bandwidth of a larger one.
    """
    best, moved = dict(flops), dict(nbytes)
    timed = [row for row in operators if row.get("seconds")]
    for row in timed:
        if row["macs"]:
            reached = 2 * row["macs"] / row["seconds"]
            best[row["precision"]] = max(best.get(row["precision"], 0.0), reached)
        size = _level(row["moved_bytes"], moved)
        moved[size] = max(moved[size], row["moved_bytes"] / row["seconds"])
    fastest = 0.0
    for size in sorted(moved, reverse=True):
        fastest = moved[size] = max(moved[size], fastest)
    for row in timed:
        multiplying = 2 * row["macs"] / best[row["precision"]] if row["macs"] else 0.0
        moving = row["moved_bytes"] / moved[_level(row["moved_bytes"], moved)]
        row["roofline"] = min(1.0, max(multiplying, moving) / row["seconds"])  # of rounding
        row["bound"] = "arithmetic" if multiplying > moving else "memory"
    return best, moved


def _level(moved_bytes: int, sizes: Mapping[int, float]) -> int:
    """Return the smallest measured size that holds the data, or the largest."""
    return min((size for size in sizes if size >= moved_bytes), default=max(sizes))
