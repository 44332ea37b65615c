"""Measure the cost of a boundary between two regions of one device without copies: ``python
tests/bench/bench_device_boundaries.py``.

The device has its own memory, in which tensors between its regions stay, and its runs compute
nothing. A chain of many such regions is compared with a chain of two. Printed are nanoseconds per
boundary, in both executors and with the schedulers of the graph executor. It fails if a boundary
costs more than 200 ns without a scheduler.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.runtime.executor import AotModule, GraphModule

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "devices"))

from unary import chain, plugin

FEW, MANY = 2, 102
MAX_NS = 200.0


def nanoseconds(folder: Path, regions: int, executor: str, scheduler: str) -> float:
    """Return the nanoseconds of one run, the minimum of several."""
    model = chain(*(("Neg", "Relu") * regions)[:regions], extents="4")
    schedule = "async" if scheduler == "async" else "sync"
    library = tvmrt.compile(model, devices=["far"], executor=executor, schedule=schedule)
    assert len(library.summary.regions) == regions
    stays = [row for row in library.summary.borders if row.stays_in == "far"]
    assert len(stays) == regions - 1
    path = folder / f"{executor}{scheduler}{regions}.so"
    library.export(path)
    module = tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0))
    network = (AotModule if executor == "aot" else GraphModule)(module)
    network.set_input("x", np.ones(4, np.float32))
    if executor == "graph" and scheduler != "none":
        network.set_scheduler(scheduler)
    timer = module.time_evaluator("run", tvmrt.cpu(0), number=10, repeat=400)
    return min(timer().results) * 1e9


def measure() -> dict[str, float]:
    ways = {
        "ahead of time": ("aot", "none"),
        "graph": ("graph", "none"),
        "graph, scheduler sync": ("graph", "sync"),
        "graph, scheduler async": ("graph", "async"),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = plugin(folder, "far_device.c", "far", "IDLE", flags=("-O2", "-Wno-unused-function"))
        tvmrt.load_device_plugin(str(built))
        return {
            what: (nanoseconds(folder, MANY, *way) - nanoseconds(folder, FEW, *way)) / (MANY - FEW)
            for what, way in ways.items()
        }


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    found = measure()
    for what, cost in found.items():
        print(f"{what:<26}{cost:>8.1f} ns per boundary")
    slow = [w for w, cost in found.items() if cost > MAX_NS and "scheduler" not in w]
    if slow:
        print(f"above {MAX_NS:.0f} ns: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
