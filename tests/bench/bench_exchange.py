"""Measure passing foreign tensors to a tvm-ffi function by DLPack's exchange interface.

A call of two tensors, in turns: tvm-ffi's own, NDArrays, and tensors of the least type that can
offer the interface (calls/minimal_tensor.c: no allocation, no work but a reference). Whatever is
offered, apache-tvm-ffi 0.1.15 makes a tensor of its own of it and releases that after the call,
whether the table stands under today's name or the older one, with a view without ownership or not:
the least type takes about 1.45 times the own tensors' time, below which no package can come by it.
The other way in, ``__tvm_ffi_object__`` of a type that keeps a tensor of tvm-ffi's, takes about
1.32 times, but tells nothing of the interface: what a call returns or allocates is then no NDArray.
Without a conversion go only types derived from those of tvm-ffi's own extension module, whose
layout is private to it and which would have to be imported before.
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
        least = minimal_types(Path(folder))
        own = tvm_ffi.from_dlpack(values)
        tensors = [own, tvmrt.nd.array(values), least.Tensor(), least.Kept(own)]
        rounds = [[per_call(function, tensor) for tensor in tensors] for _ in range(ROUNDS)]
    print(f"two tensors of tvm-ffi {statistics.median(times[0] for times in rounds):.1f} ns")
    for column, name in enumerate(("NDArrays", "the least type", "a type that keeps one"), 1):
        ratio = statistics.median(times[column] / times[0] for times in rounds)
        print(f"{name}: {ratio:.2f} times that")


if __name__ == "__main__":
    main()
