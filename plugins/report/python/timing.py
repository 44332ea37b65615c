"""How long each operator takes, and what the machine can do at best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from tvmrt.compiler.symbols import PACKED_ENDING

RUNS = 20  # of which the median is told, operator by operator
SECONDS = 2.0  # of profiled runs, as soon as there are three


def measure(executor: Any, operators: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Time an executor whose inputs are set, and enter ``seconds`` of each operator.

    Parameters
    ----------
    executor
        Of the runtime; it has run once.
    operators
        Rows of a report, of which those that the executor knows get the median of several runs.

    Returns
    -------
    Seconds of whole runs, without what measuring operators takes: ``median``, ``fastest``, and
    how many there were, ``runs``.
    """
    found: dict[str, list[float]] = {}
    end = time.perf_counter() + SECONDS
    for i in range(RUNS):
        if i >= 3 and time.perf_counter() > end:
            break
        for call in executor.profile().calls:
            found.setdefault(str(call["name"]), []).append(call["seconds"])
    for operator in operators:
        times = next((found[name] for name in names_of(operator) if name in found), None)
        if times:
            operator["seconds"] = median(times)
    whole = times_of(executor.run, SECONDS / 2)
    return {"median": median(whole), "fastest": min(whole), "runs": len(whole)}


def names_of(operator: dict[str, Any]) -> tuple[str, ...]:
    """What an operator is called by the graph executor, and by the ahead-of-time executor."""
    return operator["symbol"] + PACKED_ENDING, operator["symbol"], operator["name"]


def times_of(run: Callable[[], object], seconds: float) -> list[float]:
    """Seconds of each of many calls, at least five, for about so long."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 1000):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return times


def machine() -> dict[str, float]:
    """What numpy reaches here, to hold operators against: ``flops`` in float32 operations a second
    by a product of matrices, ``bytes`` read and written a second by a copy from memory."""
    a = np.ones((256, 256), np.float32)
    source = np.ones(1 << 24, np.float32)  # 64 MiB: more than caches hold
    target = np.empty_like(source)
    product = min(times_of(lambda: np.matmul(a, a), 0.1))
    copy = min(times_of(lambda: np.copyto(target, source), 0.1))
    return {"flops": 2 * a.shape[0] ** 3 / product, "bytes": 2 * source.nbytes / copy}
