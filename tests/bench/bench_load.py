"""Measure the overhead of importing tvmrt, of ``tvmrt.load`` and of calling its network.

    python tests/bench/bench_load.py NETWORK.onnx [...]

First the milliseconds that ``import tvmrt`` takes, alone and after numpy. Then for each network:
milliseconds to load it from the cache in a process that has imported numpy and tvmrt, and
microseconds of processor time that ``net(x)`` takes over ``run()`` of an executor with its inputs
set; all are minima over rounds in turns. Last, how many of 100,000 concurrent calls by 8 threads
equal a single call bit by bit. Run it where a wheel is installed: an editable installation looks at
its sources when it is imported.

    python tests/bench/bench_load.py --first NETWORK.onnx [...]

measures first loads instead, with an empty cache and without ccache: processor seconds of Python
and of the C compiler, the latter also at -O0, which is the floor for this C; bytes of the library
and of its code.
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
from pathlib import Path
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
FIRST = """
import resource, sys, tvmrt
tvmrt.load(sys.argv[1])
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    used = resource.getrusage(who)
    print(used.ru_utime + used.ru_stime)
"""


def _first_load(path: str, flags: str) -> tuple[float, float, Path]:
    """Return the processor seconds of Python and of the C compiler, and the library."""
    folder = tempfile.mkdtemp(dir=os.environ["TVMRT_CACHE"])
    paths = [p for p in os.environ["PATH"].split(os.pathsep) if "ccache" not in p]
    more = {"TVMRT_CACHE": folder, "PATH": os.pathsep.join(paths), "TVMRT_CFLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", FIRST, path],
        env={**os.environ, **more}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    python, compiler = map(float, done.stdout.split())
    return python, compiler, next(Path(folder).rglob("network.so"))


def _code_bytes(library: Path) -> int:
    """Return the size of a library's .text section."""
    done = subprocess.run(["size", "-A", library], capture_output=True, text=True, check=True)
    return next(int(r.split()[1]) for r in done.stdout.splitlines() if r.startswith(".text"))


def _print_first_loads(paths: list[str], rounds: int) -> None:
    """Print a line for each network; times are minima over rounds."""
    print(f"{'first load, CPU s':34} Python      C  C -O0  ratio       library       code")
    for path in paths:
        loads = [_first_load(path, "") for _ in range(rounds)]
        floor = min(_first_load(path, "-O0")[1] for _ in range(rounds))
        python, compiler = (min(load[i] for load in loads) for i in range(2))
        library = loads[0][2]
        print(
            f"{os.path.basename(path):34} {python:6.2f} {compiler:6.2f} {floor:6.2f} "
            f"{compiler / floor:6.1f} {library.stat().st_size:11,} B {_code_bytes(library):8,} B"
        )


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
    parser.add_argument("--rounds", type=int, help="default: 15, for first loads 3")
    parser.add_argument("--first", action="store_true", help="measure first loads")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TVMRT_CACHE"] = cache
        if chosen.first:
            _print_first_loads(chosen.networks, chosen.rounds or 3)
            return
        rounds = chosen.rounds or 15
        for label, before in (("alone", ""), ("after numpy", "import numpy")):
            milliseconds = _min_ms(IMPORT.format(before=before), rounds)
            print(f"{'import tvmrt, ' + label:34} {milliseconds:6.1f} ms")
        for path in chosen.networks:
            run, call = _call_us(path, rounds)
            load = _min_ms(LOAD.format(path=os.path.abspath(path)), rounds)
            print(
                f"{os.path.basename(path):34} load {load:6.1f} ms   run {run:9.2f} us   "
                f"call {call:9.2f} us   {call - run:6.2f} us more"
            )
        right = _right_calls(chosen.networks[0])
        print(f"{right:,} of 100,000 calls by 8 threads are correct")


if __name__ == "__main__":
    main()
