"""Compare calls between Python and C with apache-tvm-ffi, in pairs in one run.

Each round measures both contenders for every case, in turning order; the ratio is the median over
rounds of (ours / theirs) within one round. Times are the thread's processor time, so that other
programs on the machine disturb little. Run: ``python tests/bench/bench_calls.py``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import tvm_ffi

import tvmrt
from tvmrt import libinfo

SOURCES = Path(__file__).parent / "calls"


def build(folder: Path) -> tuple[Any, Any]:
    """Compile and load the two libraries of the same functions."""
    compiler = shutil.which("cc") or "cc"
    flags = [compiler, "-O2", "-shared", "-fPIC"]
    ours, theirs = folder / "classic.so", folder / "ffi.so"
    own = [f"-I{path}" for path in libinfo.find_include_path()]
    subprocess.run([*flags, *own, SOURCES / "classic.c", "-o", ours], check=True)
    theirs_include = Path(tvm_ffi.__file__).parent / "include"
    subprocess.run([*flags, f"-I{theirs_include}", SOURCES / "ffi.c", "-o", theirs], check=True)
    return tvmrt.runtime.load_module(ours), tvm_ffi.load_module(str(theirs))


def per_call(run: Callable[..., Any], args: tuple[Any, ...], count: int) -> float:
    """Return the nanoseconds of one call; the loop itself is included."""
    loops = itertools.repeat(None, count)
    start = time.thread_time_ns()
    if len(args) == 0:
        for _ in loops:
            run()
    elif len(args) == 1:
        (a,) = args
        for _ in loops:
            run(a)
    else:
        a, b, c = args
        for _ in loops:
            run(a, b, c)
    return (time.thread_time_ns() - start) / count


def call_cases(ours: Any, theirs: Any) -> dict[str, tuple[Any, Any]]:
    """Return for each case a function and its arguments, ours and theirs."""
    array = np.zeros((4, 8), np.float32)
    mine, other = tvmrt.nd.array(array), tvm_ffi.from_dlpack(array)
    return {
        "0 arguments": ((ours["nothing"], ()), (theirs.nothing, ())),
        "3 ints": ((ours["add"], (1, 2, 3)), (theirs.add, (1, 2, 3))),
        "1 tensor": ((ours["tensors"], (mine,)), (theirs.tensors, (other,))),
        "3 tensors": ((ours["tensors"], (mine,) * 3), (theirs.tensors, (other,) * 3)),
        "numpy array": ((ours["tensors"], (array,)), (theirs.tensors, (array,))),
        "str": ((ours["text"], ("a longer text",)), (theirs.text, ("a longer text",))),
    }


NAMES = {"0 arguments": "nothing", "3 ints": "add", "3 tensors": "tensors"}


def kept_cases(ours: Any, theirs: Any) -> dict[str, tuple[Any, Any]]:
    """Return the cases with functions of both sides that keep the GIL."""
    kept = {}
    for name, symbol in NAMES.items():
        cases = []
        for (_, args), module in zip(call_cases(ours, theirs)[name], (ours, theirs)):
            own = module.get_function(symbol)  # not the object of the other cases
            own.release_gil = False
            cases.append((own, args))
        kept[f"{name}, GIL kept"] = tuple(cases)
    return kept


def callback_times(function: Callable[[Any, int], Any], packed: Any, count: int) -> float:
    """Return the nanoseconds of one call from C to a Python function of 3 ints."""
    start = time.thread_time_ns()
    function(packed, count)
    return (time.thread_time_ns() - start) / count


def exchange_cases() -> dict[str, tuple[Any, Any]]:
    """Return the exchanges with numpy by DLPack, without copies."""
    array = np.zeros((4, 8), np.float32)
    mine, other = tvmrt.nd.from_dlpack(array), tvm_ffi.from_dlpack(array)
    to_mine, to_other, to_numpy = tvmrt.nd.from_dlpack, tvm_ffi.from_dlpack, np.from_dlpack
    return {
        "numpy -> tensor": ((to_mine, (array,)), (to_other, (array,))),
        "tensor -> numpy": ((to_numpy, (mine,)), (to_numpy, (other,))),
        "numpy -> tensor -> numpy": (
            (lambda: to_numpy(to_mine(array)), ()),
            (lambda: to_numpy(to_other(array)), ()),
        ),
    }


def measure(cases: dict[str, Any], rounds: int, count: int) -> dict[str, list[tuple[float, float]]]:
    """Return the times of each case, a pair a round."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for turn in range(rounds):
        for name, pair in cases.items():
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            result = [0.0, 0.0]
            for side in order:
                result[side] = pair[side](count)
            times[name].append((result[0], result[1]))
    return times


def as_timer(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[int], float]:
    """Return a function of a count that measures calls."""
    return lambda count: per_call(function, args, count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=40000, help="calls of one measurement")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = build(Path(folder))
        plain = {**call_cases(ours, theirs), **kept_cases(ours, theirs), **exchange_cases()}
        cases = {name: tuple(as_timer(*side) for side in pair) for name, pair in plain.items()}

        def python(a: int, b: int, c: int) -> int:
            return a

        mine, other = tvmrt.runtime.convert(python), tvm_ffi.convert(python)
        cases["callback of 3 ints"] = (
            lambda count: callback_times(ours["repeat"], mine, count),
            lambda count: callback_times(theirs.repeat, other, count),
        )
        results = measure(cases, options.rounds, options.count)
    report(results, options.json)
    return 0


def report(results: dict[str, list[tuple[float, float]]], as_json: bool) -> None:
    """Print medians, the median of the ratios, and the ratio of minima, which is most robust under
    load."""
    rows = {
        name: {
            "tvmrt_ns": statistics.median(pair[0] for pair in pairs),
            "tvm_ffi_ns": statistics.median(pair[1] for pair in pairs),
            "ratio": statistics.median(pair[0] / pair[1] for pair in pairs),
            "ratio_of_minima": min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs),
        }
        for name, pairs in results.items()
    }
    if as_json:
        print(json.dumps(rows))
        return
    print(f"{'case':<26}{'tvmrt ns':>10}{'tvm-ffi ns':>12}{'ratio':>8}{'of minima':>11}")
    for name, row in rows.items():
        print(
            f"{name:<26}{row['tvmrt_ns']:>10.1f}{row['tvm_ffi_ns']:>12.1f}"
            f"{row['ratio']:>8.2f}{row['ratio_of_minima']:>11.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())
