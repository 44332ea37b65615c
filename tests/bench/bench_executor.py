"""Measure the overhead of the Python layer per run: set_input, run, get_output(0).numpy() of a tiny
network.

The network's own code takes nanoseconds, so nearly all that is measured is the way to it and back.
Run: ``python tests/bench/bench_executor.py``.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

import tvmrt
from tvmrt.runtime.executor import AotModule, GraphModule

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "runtime"))

import libraries


def executors(folder: Path) -> dict[str, Any]:
    """Compile the network and return an executor of each kind."""
    source = libraries.DATA / "network.c"
    kinds = {
        "graph": (libraries.graph_blob(), GraphModule),
        "aot": (libraries.aot_blob(), AotModule),
    }
    made = {}
    for name, (blob, kind) in kinds.items():
        path = libraries.compile_library(source, folder / f"{name}.so", blob)
        made[name] = kind(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    return made


def median_ns(function: Callable[[], Any], rounds: int = 15, count: int = 20000) -> float:
    """Return the nanoseconds of one call."""
    times = []
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in itertools.repeat(None, count):
            function()
        times.append((time.thread_time_ns() - start) / count)
    return statistics.median(times)


def steps(executor: Any, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return the parts of a run, and the whole."""
    out = tvmrt.nd.empty((2, 3))

    def whole() -> np.ndarray:
        executor.set_input("x", x)
        executor.run()
        return executor.get_output(0).numpy()

    return {
        "set_input": lambda: executor.set_input("x", x),
        "run": executor.run,
        "get_output(0)": lambda: executor.get_output(0),
        "get_output(0).numpy()": lambda: executor.get_output(0).numpy(),
        "get_output(0, out)": lambda: executor.get_output(0, out),
        "all three": whole,
    }


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    x = np.ones((2, 3), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for kind, executor in executors(Path(folder)).items():
            executor.run(x=x)
            own = executor.time_evaluator("run", tvmrt.cpu(0), number=10000, repeat=5)().median
            print(f"{kind}: the network's own run {own * 1e9:.0f} ns")
            for name, step in steps(executor, x).items():
                print(f"  {name:<24}{median_ns(step):>8.0f} ns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
