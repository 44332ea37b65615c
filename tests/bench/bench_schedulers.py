"""Measure the throughput of the asynchronous scheduler against the synchronous one, on simulated
devices.

Each device takes 10 ms for a run. Run: ``python tests/bench/bench_schedulers.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

import simulated


def seconds_in_turn(steps, scheduler: str, runs: int) -> float:
    """Use one executor, one run after the other."""
    executor = simulated.executor(steps)
    executor.set_scheduler(scheduler)
    executor.set_input("x", np.zeros(simulated.SHAPE, np.float32))
    executor.run()
    start = time.perf_counter()
    for _ in range(runs):
        executor.run()
    return (time.perf_counter() - start) / runs


def seconds_in_flight(steps, runs: int, executors: int = 4) -> float:
    """Use several executors of one library, each with a run in progress; return the time per
    result."""
    module = simulated.library(steps)
    busy = deque(simulated.executor(steps, module) for _ in range(executors))
    for executor in busy:
        executor.set_scheduler("async")
        executor.set_input("x", np.zeros(simulated.SHAPE, np.float32))
        executor.run_async()
    ended = []
    for i in range(runs):
        busy[0].wait()
        ended.append(time.perf_counter())
        if i + executors < runs:
            busy[0].run_async()
        busy.rotate(-1)
    return (ended[-1] - ended[0]) / (runs - 1)


def measure(seconds: float = 0.01, runs: int = 60) -> dict[str, tuple[float, float]]:
    """Return the seconds per inference, synchronous and asynchronous, of both networks."""
    for name in ("left", "right", "third"):
        simulated.add_device(name, seconds)
    simulated.add_device("join", 0.0)
    return {
        "two branches": (
            seconds_in_turn(simulated.BRANCHES, "sync", runs // 2),
            seconds_in_turn(simulated.BRANCHES, "async", runs),
        ),
        "three-stage pipeline": (
            seconds_in_turn(simulated.STAGES, "sync", runs // 3),
            seconds_in_flight(simulated.STAGES, runs),
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="inferences to time")
    arguments = parser.parse_args()
    for name, (sync, overlapped) in measure(runs=arguments.runs).items():
        print(
            f"{name:<22} sync {sync * 1e3:6.2f} ms   async {overlapped * 1e3:6.2f} ms   "
            f"{sync / overlapped:.2f} times the throughput"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
