"""Measure the overhead of region calls without copies, with a device that computes nothing.

"call" is the region's packed function as an executor calls it: checking the tensors, locking,
and calling the device.
Run: ``python tests/bench/bench_regions.py``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import tvmrt
from tvmrt import libinfo

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "runtime"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

import libraries
import simulated


def load_nothing(folder: Path) -> None:
    """Build and load a device that computes nothing."""
    path = folder / "libtvmrt_device_nothing.so"
    includes = [f"-I{p}" for p in libinfo.find_include_path()]
    source = libraries.DATA / "null_device.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *includes, source, "-o", path], check=True)
    tvmrt.load_device_plugin(path)


def call_ns(inputs: int) -> float:
    """Return the nanoseconds of one call from C."""
    module = simulated.load_regions("nothing", {"r": inputs})
    tensors = [tvmrt.nd.empty(simulated.SHAPE) for _ in range(inputs + 1)]
    timer = module.time_evaluator("r", tvmrt.cpu(0), number=200000, repeat=7)
    return min(timer(*tensors).results) * 1e9


def graph_ns(steps: int) -> float:
    """Return the nanoseconds per region of a chain in the graph executor, in order."""
    chain = [(f"r{i}", "nothing", [i]) for i in range(steps)]
    executor = simulated.executor(chain)
    executor.set_scheduler("sync")
    timer = executor.time_evaluator("run", tvmrt.cpu(0), number=2000, repeat=7)
    return min(timer().results) * 1e9 / steps


def async_ns(steps: int) -> float:
    """Return the nanoseconds per region with the asynchronous scheduler, all on one device's
    thread."""
    chain = [(f"r{i}", "nothing", [i]) for i in range(steps)]
    executor = simulated.executor(chain)
    timer = executor.time_evaluator("run", tvmrt.cpu(0), number=500, repeat=5)
    return min(timer().results) * 1e9 / steps


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        load_nothing(Path(folder))
        rows = {f"call, {n} input{'s' * (n > 1)}": call_ns(n) for n in (1, 2, 8)}
        rows["step of a graph, scheduler sync"] = graph_ns(50)
        rows["step of a graph, scheduler async"] = async_ns(50)
        return rows


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for name, nanoseconds in measure().items():
        print(f"{name:<34}{nanoseconds:>7.0f} ns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
