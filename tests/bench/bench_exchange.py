"""Measure passing foreign tensors to a tvm-ffi function by DLPack's exchange interface.

Calls of two tensors are measured in turns: tvm-ffi's own, NDArrays, and a minimal type with the
interface (calls/minimal_tensor.c: no allocation, only a reference). apache-tvm-ffi 0.1.15 converts
each argument to its own tensor and releases it after the call, under both names of the table and
with or without ownership. So the minimal type takes about 1.45 times the time of own tensors: a
lower bound for all packages. ``__tvm_ffi_object__`` of a type that contains a tvm-ffi tensor takes
about 1.32 times, but results of the call are then not NDArrays. Only types derived from those of
tvm-ffi's extension module avoid the conversion; their layout is private.

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


def minimal_types(folder: Path) -> Any:
    """Build and import the module of the minimal types."""
    path = folder / f"minimal_tensor{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [sysconfig.get_paths()["include"], *libinfo.find_include_path()]
    command = ["cc", "-O2", "-shared", "-fPIC", *(f"-I{name}" for name in includes)]
    subprocess.run([*command, SOURCES / "minimal_tensor.c", "-o", path], check=True)
    spec = importlib.util.spec_from_file_location("minimal_tensor", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
        minimal = minimal_types(Path(folder))
        own = tvm_ffi.from_dlpack(values)
        tensors = [own, tvmrt.nd.array(values), minimal.Tensor(), minimal.Kept(own)]
        rounds = [[per_call(function, tensor) for tensor in tensors] for _ in range(ROUNDS)]
    print(f"two tensors of tvm-ffi {statistics.median(times[0] for times in rounds):.1f} ns")
    for column, name in enumerate(("NDArrays", "the minimal type", "a type that contains one"), 1):
        ratio = statistics.median(times[column] / times[0] for times in rounds)
        print(f"{name}: {ratio:.2f} times that")


if __name__ == "__main__":
    main()
