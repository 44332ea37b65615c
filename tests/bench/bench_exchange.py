"""Tensors of others into a function of tvm-ffi, by DLPack's exchange interface.

A call of two tensors, in turns: tvm-ffi's own, NDArrays, and tensors of the least type that can
offer the interface (calls/least_tensor.c: no allocation, no work but a reference). Whatever is
offered, apache-tvm-ffi 0.1.15 makes a tensor of its own of it and releases that after the call,
whether the table stands under today's name or the older one, with a view without ownership or not:
the least type takes about 1.45 times the own tensors' time, below which no package can come.
Run: ``python tests/bench/bench_exchange.py``.
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import tvm_ffi
from bench_calls import SOURCES, build

import tvmrt
from tvmrt import libinfo

ROUNDS, CALLS = 25, 100000


def least_tensor(folder: Path) -> Any:
    """Build and import the least type; one tensor of it."""
    path = folder / f"least_tensor{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [sysconfig.get_paths()["include"], *libinfo.find_include_path()]
    command = ["cc", "-O2", "-shared", "-fPIC", *(f"-I{name}" for name in includes)]
    subprocess.run([*command, SOURCES / "least_tensor.c", "-o", path], check=True)
    spec = importlib.util.spec_from_file_location("least_tensor", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Tensor()


def per_call(function: Callable[..., Any], tensor: Any) -> float:
    """Return nanoseconds of one call, by the thread's processor time."""
    start = time.thread_time_ns()
    for _ in range(CALLS):
        function(tensor, tensor)
    return (time.thread_time_ns() - start) / CALLS


def main() -> None:
    values = np.zeros(4, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        function = build(Path(folder))[1].tensors
        function.release_gil = False
        least = least_tensor(Path(folder))
        tensors = [tvm_ffi.from_dlpack(values), tvmrt.nd.array(values), least]
        rounds = [[per_call(function, tensor) for tensor in tensors] for _ in range(ROUNDS)]
    own = statistics.median(times[0] for times in rounds)
    print(f"two tensors of tvm-ffi {own:.1f} ns")
    for name, column in (("NDArrays", 1), ("tensors of the least type", 2)):
        ratio = statistics.median(times[column] / times[0] for times in rounds)
        print(f"{name}: {ratio:.2f} times that")


if __name__ == "__main__":
    main()
