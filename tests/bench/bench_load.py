"""What ``tvmrt.load`` and a call of its network cost beyond the network itself.

    python tests/bench/bench_load.py NETWORK.onnx [...]

For each network: milliseconds to load it from the cache in a process that has imported numpy and
tvmrt, and microseconds that ``net(x)`` takes over ``run()`` of an executor with its inputs set;
both are the fastest of rounds in which the sides take turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

LOAD = """
import time, numpy, tvmrt
begin = time.perf_counter()
tvmrt.load({path!r})
print((time.perf_counter() - begin) * 1e3)
"""


def _load_ms(path: str, rounds: int) -> float:
    command = [sys.executable, "-c", LOAD.format(path=os.path.abspath(path))]
    times = []
    for _ in range(rounds):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        times.append(float(done.stdout))
    return min(times)


def _seconds(call: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def _call_us(path: str, rounds: int) -> tuple[float, float]:
    """Of ``run()`` alone, and of a call."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", metavar="NETWORK.onnx")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TVMRT_CACHE"] = cache
        for path in chosen.networks:
            run, call = _call_us(path, chosen.rounds)
            load = _load_ms(path, chosen.rounds)
            print(
                f"{os.path.basename(path):34} load {load:6.1f} ms   run {run:9.2f} us   "
                f"call {call:9.2f} us   {call - run:6.2f} us more"
            )


if __name__ == "__main__":
    main()
