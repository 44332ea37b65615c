"""What the machine gives without a framework: processes of their own, one a core, at the same time.

Cores share memory and the power of one chip, so two busy cores are each slower than one alone. A
cluster is compared with plain processes in alternating rounds; the difference is its overhead.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

import tvmrt

BATCH = 256  # rows of one call


class Moment(NamedTuple):
    """Where a process is: seconds by the clock, and seconds that processors worked for it."""

    clock: float
    worked: float


class Rate(NamedTuple):
    """Rows a second, and rows a second of processor time: what other programs take from a machine
    is in the first, what a framework adds to a process is in both."""

    clock: float
    worked: float


def now() -> Moment:
    """Tell where this process is; all its threads count, a framework's too."""
    return Moment(time.perf_counter(), time.process_time())


def rate(rows: int, begin: Moment, end: Moment) -> Rate:
    """Rows that a process ran from one moment to another."""
    return Rate(rows / (end.clock - begin.clock), rows / (end.worked - begin.worked))


def mean(rates: Iterable[Rate]) -> Rate:
    """The mean of several processes."""
    clock, worked = zip(*rates)
    return Rate(fmean(clock), fmean(worked))


def load(network: str) -> tvmrt.Network:
    """Return a network of one input for calls of up to ``BATCH`` rows, also if its file has one."""
    (given,) = tvmrt.load(network).inputs
    return tvmrt.load(network, shapes={given.name: (f"batch<={BATCH}", *given.shape[1:])})


def calls(net: tvmrt.Network, rows: np.ndarray) -> np.ndarray:
    """Return the results of rows, by calls whose arrays stay in a core's caches."""
    return np.concatenate([net(rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)])


def shares(rows: np.ndarray, cores: int, each: int = 4) -> list[np.ndarray]:
    """Cut rows into equal parts, ``each`` a core: few, so that handing them out takes no time."""
    return np.array_split(rows, cores * each)


def results(net: tvmrt.Network, parts: list[np.ndarray]) -> np.ndarray:
    """Return the results of parts as a cluster computes them: to the last bit, a row's result may
    depend on the rows of its call."""
    return np.concatenate([calls(net, part) for part in parts])


def _work(network: str, rows: np.ndarray, begin: Any, results: Any) -> None:
    net = warm(load(network))
    begin.wait()
    start = now()
    calls(net, rows)
    results.put(rate(len(rows), start, now()))


def rates(network: str, rows: np.ndarray, cores: int) -> list[Rate]:
    """Return the rates of so many processes that begin together."""
    context = multiprocessing.get_context("spawn")
    begin, results = context.Barrier(cores), context.Queue()
    parts = np.array_split(rows, cores)
    workers = [
        context.Process(target=_work, args=(network, part, begin, results)) for part in parts
    ]
    for worker in workers:
        worker.start()
    found: list[Rate] = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return found


def warm(net: tvmrt.Network) -> tvmrt.Network:
    """Return the network after a call with made-up inputs, which opens what later ones use."""
    calls(net, np.zeros((BATCH, *map(int, net.inputs[0].shape[1:])), np.float32))
    return net


def compare(
    network: str, rows: np.ndarray, cores: int, rounds: int, cluster: Callable[[], list[Rate]]
) -> str:
    """Let plain processes and a cluster run the rows in turns; medians of the rounds, for people.

    What else a machine does changes from second to second, so each round has a ratio of its own.
    """
    (alone,) = rates(network, rows, 1)
    pairs = [(mean(rates(network, rows, cores)), mean(cluster())) for _ in range(rounds)]
    plain, workers = (Rate(*map(median, zip(*side))) for side in zip(*pairs))
    lines = [
        f"{label:<24} {row.clock:>11,.0f} images/s each "
        f"{row.worked:>11,.0f} images/s of processor time"
        for label, row in (
            ("one process", alone),
            (f"{cores} plain processes", plain),
            (f"{cores} workers", workers),
        )
    ]
    for name, by in (("clock", "by the clock"), ("worked", "by processor time")):
        ratios = sorted(getattr(b, name) / getattr(a, name) for a, b in pairs)
        lines.append(
            f"a worker relative to a plain process, {by}: {median(ratios):.3f}, "
            f"median of {rounds} rounds from {ratios[0]:.3f} to {ratios[-1]:.3f}"
        )
    return "\n".join(lines)
