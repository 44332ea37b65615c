"""What part of the best that this machine can do an operator reaches.

An operator takes at least as long as its multiplications do at the peak of its precision, and as
its bytes do from memory; the part is the longer of the two over its time. One whose tensors are in
the cache already may take less than its bytes would from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tvmrt.plugins.report.timing import times_of

COPIED = 1 << 24  # floats, more than caches hold
SECONDS = 0.1  # of measuring


def bandwidth(threads: int) -> float:
    """Bytes read and written a second by copies from memory on so many threads."""
    source, target = np.ones(COPIED, np.float32), np.empty(COPIED, np.float32)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    with ThreadPoolExecutor(threads) as pool:
        fastest = min(times_of(lambda: list(pool.map(lambda p: np.copyto(*p), parts)), SECONDS))
    return 2 * source.nbytes / fastest


def enter(
    operators: Sequence[dict[str, Any]], flops: Mapping[str, float], nbytes: float
) -> dict[str, float]:
    """Enter ``roofline``, the part, and ``bound``, what it is of, in rows that have ``seconds``;
    return the peaks by precision that the parts are of.

    Parameters
    ----------
    operators
        Rows of a report.
    flops
        Peaks by precision; where one is not known, or an operator was faster, the fastest
        operator of that precision is the peak.
    nbytes
        A second, from and to memory.
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
