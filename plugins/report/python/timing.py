"""Time of each operator, and the machine's peak performance."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.codegen import PACKED_SUFFIX

MIN_RUNS, RUNS = 3, 20  # the median per operator is reported
SECONDS = 2.0  # of profiled runs, after at least MIN_RUNS


def measure(executor: Any, operators: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Time an executor whose inputs are set, and add ``seconds`` to each operator.

    Parameters
    ----------
    executor
        A runtime executor that has run once.
    operators
        Rows of a report; those that the executor reports get the median of several runs.

    Returns
    -------
    Seconds of whole runs, without the overhead of profiling: ``median`` and ``fastest``, and their
    number, ``runs``.
    """
    add_seconds(operators, executor)
    whole = times_of(executor.run, SECONDS / 2)
    return {"median": median(whole), "fastest": min(whole), "runs": len(whole)}


def add_seconds(operators: Sequence[dict[str, Any]], executor: Any) -> None:
    """Run an executor several times, and add the median ``seconds`` to the operators that it
    reports, and to regions the ``events`` of the last run."""
    found: dict[str, list[float]] = {}
    runs, end = 0, time.perf_counter() + SECONDS
    while runs < MIN_RUNS or (runs < RUNS and time.perf_counter() < end):
        profile = executor.profile()
        for call in profile.calls:
            found.setdefault(str(call["name"]), []).append(call["seconds"])
        runs += 1
    for operator in operators:
        times = next((found[name] for name in _names_of(operator) if name in found), None)
        if times:
            operator["seconds"] = median(times)
        events = [each for each in profile.events if each["region"] == operator.get("region")]
        if events:
            operator["events"] = events


def _names_of(operator: dict[str, Any]) -> tuple[str, ...]:
    """Return the operator's names in the graph executor and in the ahead-of-time executor."""
    return operator["symbol"] + PACKED_SUFFIX, operator["symbol"], operator["name"]


def times_of(run: Callable[[], object], seconds: float) -> list[float]:
    """Return the seconds of each of at least five calls, for about `seconds` in total."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 1000):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return times


def machine() -> dict[str, float]:
    """Return numpy's peak on this machine, for comparison: ``flops`` in float32 operations per
    second of a matmul."""
    a = np.ones((256, 256), np.float32)
    product = min(times_of(lambda: np.matmul(a, a), 0.1))
    return {"flops": 2 * a.shape[0] ** 3 / product}
