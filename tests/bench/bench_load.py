"""Measure the overhead of importing tvmrt, of ``tvmrt.load`` and of calling its network.

    python tests/bench/bench_load.py NETWORK.onnx [...]

First the milliseconds that ``import tvmrt`` takes, alone and after numpy. Then for each network:
milliseconds to load it from the cache in a process that has imported numpy and tvmrt, and
microseconds of processor time that ``net(x)`` takes over ``run()`` of an executor with its inputs
set; all are minima over rounds in turns. Last, how many of 100,000 concurrent calls by 8 threads
equal a single call bit by bit. Run it where a wheel is installed: an editable installation looks at
its sources when it is imported.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

IMPORT = """
import time
{before}
begin = time.perf_counter()
import tvmrt
print((time.perf_counter() - begin) * 1e3)
"""
LOAD = """
import time, numpy, tvmrt
begin = time.perf_counter()
tvmrt.load({path!r})
print((time.perf_counter() - begin) * 1e3)
"""


def _min_ms(code: str, rounds: int) -> float:
    """Return the minimum of the times that a program prints."""
    command = [sys.executable, "-c", code]
    times = []
    for _ in range(rounds):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        times.append(float(done.stdout))
    return min(times)


def _seconds(call: Callable[[], object], times: int) -> float:
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


def _call_us(path: str, rounds: int) -> tuple[float, float]:
    """Return the microseconds of ``run()`` alone, and of a call."""
    import tvmrt

    net = tvmrt.load(path)
    inputs = list(net.example_inputs().values())
    executor = net.new_executor()
    for index, value in enumerate(inputs):
        executor.set_input(net.inputs[index].name, value)
    run, call = executor.module["run"], lambda: net(*inputs)
    times = max(5, int(0.02 / _seconds(call, 5)))
    pairs = [(_seconds(run, times), _seconds(call, times)) for _ in range(rounds)]
    return min(a for a, _ in pairs) * 1e6, min(b for _, b in pairs) * 1e6


def _right_calls(path: str, threads: int = 8, calls: int = 100_000) -> int:
    """Return how many calls equal a call alone with the same inputs; each thread has its own
    inputs."""
    import numpy as np

    import tvmrt

    net, rng = tvmrt.load(path), np.random.default_rng(0)
    examples = net.example_inputs().values()
    inputs = [
        [(rng.random(value.shape) * 2).astype(value.dtype) for value in examples]
        for _ in range(threads)
    ]
    expected = [_arrays(net(*each)) for each in inputs]

    def work(which: int) -> int:
        found = (_arrays(net(*inputs[which])) for _ in range(calls // threads))
        return sum(all(map(np.array_equal, each, expected[which])) for each in found)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def _arrays(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", metavar="NETWORK.onnx")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TVMRT_CACHE"] = cache
        for label, before in (("alone", ""), ("after numpy", "import numpy")):
            milliseconds = _min_ms(IMPORT.format(before=before), chosen.rounds)
            print(f"{'import tvmrt, ' + label:34} {milliseconds:6.1f} ms")
        for path in chosen.networks:
            run, call = _call_us(path, chosen.rounds)
            load = _min_ms(LOAD.format(path=os.path.abspath(path)), chosen.rounds)
            print(
                f"{os.path.basename(path):34} load {load:6.1f} ms   run {run:9.2f} us   "
                f"call {call:9.2f} us   {call - run:6.2f} us more"
            )
        right = _right_calls(chosen.networks[0])
        print(f"{right:,} of 100,000 calls by 8 threads are correct")


if __name__ == "__main__":
    main()
