"""Fraction of the machine's peak performance that an operator reaches (roofline model).

An operator takes at least the time of its multiplications at the peak of its precision, and the
time to transfer its bytes from memory. The fraction is the longer of these times divided by its
measured time. An operator with cached tensors may be faster than its memory transfer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tvmrt.plugins.report.timing import times_of

COPIED = 1 << 24  # number of floats; exceeds the caches
SECONDS = 0.1  # of measuring


def bandwidth(threads: int) -> float:
    """Return the bytes per second read and written by memory copies on `threads` threads."""
    source, target = np.ones(COPIED, np.float32), np.empty(COPIED, np.float32)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    with ThreadPoolExecutor(threads) as pool:
        fastest = min(times_of(lambda: list(pool.map(lambda p: np.copyto(*p), parts)), SECONDS))
    return 2 * source.nbytes / fastest


def add_rooflines(
    operators: Sequence[dict[str, Any]], flops: Mapping[str, float], nbytes: float
) -> dict[str, float]:
    """Add ``roofline`` (fraction) and ``bound`` (limit) to rows with ``seconds``; return the peaks.

    Parameters
    ----------
    operators
        Rows of a report.
    flops
        Peaks by precision. If a peak is missing, or an operator was faster, the fastest operator
        of that precision defines the peak.
    nbytes
        Memory bandwidth in bytes per second.
    """
    best = dict(flops)
    timed = [row for row in operators if row.get("seconds")]
    for row in timed:
        if row["macs"]:
            reached = 2 * row["macs"] / row["seconds"]
            best[row["precision"]] = max(best.get(row["precision"], 0.0), reached)
    for row in timed:
        multiplying = 2 * row["macs"] / best[row["precision"]] if row["macs"] else 0.0
        moving = row["moved_bytes"] / nbytes
        row["roofline"] = max(multiplying, moving) / row["seconds"]
        row["bound"] = "arithmetic" if multiplying > moving else "memory"
    return best
