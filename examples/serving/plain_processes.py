"""What the machine gives without a framework: processes of their own, one a core, at the same time.

Cores share memory and the power of one chip, so that two that work are each slower than one alone.
A cluster is held against this: what is missing then is the framework's.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import tvmrt

BATCH = 256  # rows of one call


def calls(net: tvmrt.Network, rows: np.ndarray) -> np.ndarray:
    """Return the results of rows, by calls whose arrays stay in a core's caches."""
    return np.concatenate([net(rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)])


def shares(rows: np.ndarray, cores: int, each: int = 4) -> list[np.ndarray]:
    """Cut rows into equal parts, ``each`` a core: few, so that handing them out takes no time."""
    return np.array_split(rows, cores * each)


def _work(network: str, rows: np.ndarray, begin: Any, results: Any) -> None:
    net = tvmrt.load(network)
    calls(net, rows[:BATCH])
    begin.wait()
    start = time.perf_counter()
    calls(net, rows)
    results.put(len(rows) / (time.perf_counter() - start))


def rates(network: str, rows: np.ndarray, cores: int) -> Iterator[float]:
    """Yield the rows a second of each of so many processes that begin together."""
    context = multiprocessing.get_context("spawn")
    begin, results = context.Barrier(cores), context.Queue()
    parts = np.array_split(rows, cores)
    workers = [
        context.Process(target=_work, args=(network, part, begin, results)) for part in parts
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        yield results.get()
    for worker in workers:
        worker.join()
