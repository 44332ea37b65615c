"""Networks of a folder on the device xnnpack beside XNNPACK's own run of the same graph.

    python tests/bench/bench_xnnpack.py [FOLDER] [--networks NAME ...] [--seconds S] [--cpu]

FOLDER holds NAME.onnx with NAME.npz and defaults to what TVMRT_MODELS names. The device's run is
``net.run()`` of the network compiled ahead. The library's own is ``xnn_invoke_runtime()`` alone of
the runtimes that were made for it, on memory that they have: a small library before XNNPACK
remembers them. Both run in one process, in turn, on one thread unless --threads says more. Speed is
the median over rounds of XNNPACK's time in parts of ours; with --cpu of the process's time on
processors, for machines with other work. Outputs are compared with the stored ones. A network that
leaves more to the CPU than changes of shape and order is left out, since the library has no run of
it; those are part of the device's time alone.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from paired import HEAD, arguments, summary, told

RECORDER = Path(__file__).with_name("xnnpack_recorder.c")
# What the library's own run does without: a caller hands over what lies as XNNPACK wants it.
MOVES = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
MOST_ERROR = 0.02  # in parts of the largest value: 8-bit sums may be a step off


def begin_again(threads: int) -> None:
    """This program with the recorder in front of XNNPACK."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/recorder.so"
        command = ["cc", "-shared", "-fPIC", "-O2", str(RECORDER), "-o", library, "-ldl"]
        subprocess.run(command, check=True)
        changed = {
            "LD_PRELOAD": library,
            "BENCH_RECORDER": library,
            "TVM_NUM_THREADS": str(threads),
        }
        done = subprocess.run(
            [sys.executable, *sys.argv], env={**os.environ, **changed}, check=False
        )
        sys.exit(done.returncode)


def runs(
    path: Path, feeds: dict[str, np.ndarray], recorder: ctypes.CDLL, folder: str
) -> tuple[tuple[Callable, Callable] | None, str, list[np.ndarray]]:
    """The device's run and XNNPACK's own, or why there are none, and the outputs."""
    import tvmrt
    from tvmrt.runtime.executor import AotModule

    library = tvmrt.compile(path, devices=["xnnpack"], executor="aot")
    rows = [row for row in library.summary.nodes if row.device != "none"]
    rest = sorted({row.op_type for row in rows if row.device != "xnnpack"})
    taken = sum(row.device == "xnnpack" for row in rows)
    if not taken or set(rest) - MOVES:
        return None, f"{taken} of {len(rows)} nodes; the CPU has {', '.join(rest)}", []
    library.export_library(f"{folder}/{path.stem}.so")
    recorder.recorder_forget()
    module = tvmrt.runtime.load_module(f"{folder}/{path.stem}.so")
    net = AotModule(module["default"](tvmrt.cpu(0)))
    for name, array in feeds.items():
        net.set_input(name, array)
    net.run()
    found = [net.get_output(i).numpy() for i in range(net.get_num_outputs())]
    return (net.run, recorder.recorder_invoke), "", found


def measure(
    path: Path, options: argparse.Namespace, recorder: ctypes.CDLL, folder: str
) -> float | None:
    """The speed, which is printed; None if the network is left out."""
    stored = np.load(path.with_suffix(".npz"))
    feeds = {name: stored[name] for name in stored.files if not name.startswith("out:")}
    both, why, found = runs(path, feeds, recorder, folder)
    if both is None:
        print(f"{path.stem:28} {why}"[:110], flush=True)
        return None
    for output, array in zip(onnx.load(path).graph.output, found):
        golden = stored[f"out:{output.name}"].astype(np.float64)
        error = np.abs(array - golden).max() / max(np.abs(golden).max(), 1e-6)
        if error > MOST_ERROR:
            sys.exit(f"{path.stem}: {output.name} is off by {error:.3g} of its largest value")
    return told(path.stem, both, options)


def main() -> int:
    options = arguments(__doc__)
    if "BENCH_RECORDER" not in os.environ:
        begin_again(options.threads)
    recorder = ctypes.CDLL(os.environ["BENCH_RECORDER"])
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(path, options, recorder, folder) for path in options.models]
    return summary(found)


if __name__ == "__main__":
    raise SystemExit(main())
