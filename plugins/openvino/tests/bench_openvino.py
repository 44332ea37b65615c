"""Compare networks of a folder on the device openvino with OpenVINO's own run of the same file.

    python plugins/openvino/tests/bench_openvino.py [FOLDER] [--networks NAME ...] [--seconds S]
        [--cpu]

FOLDER holds NAME.onnx with NAME.npz and defaults to what TVMRT_MODELS names. Both run in one
process, in turn, with inputs and outputs in memory that stays: ours by ``net.run()`` of a network
compiled ahead, theirs by ``request.infer()``. Speed is the median over rounds of their time in
parts of ours; with --cpu of the process's time on processors, for machines with other work. What
OpenVINO cannot run, or the device takes less than half of, is named and left out.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino
from paired import HEAD, arguments, measure_speed, summary

import tvmrt
import tvmrt.plugins.openvino.device
from tvmrt.runtime.executor import AotModule


def ours(path: Path, feeds: dict[str, np.ndarray], threads: int, folder: str) -> Callable | None:
    """Return a run of the network on the device; None if the device takes less than half of it."""
    options = {"openvino": {"threads": threads}}
    library = tvmrt.compile(path, devices=["openvino"], executor="aot", device_options=options)
    rows = [row.device for row in library.summary.nodes if row.device != "none"]
    if 2 * rows.count("openvino") < len(rows):
        return None
    library.export_library(f"{folder}/{path.stem}.so")
    module = tvmrt.runtime.load_module(f"{folder}/{path.stem}.so")
    net = AotModule(module["default"](tvmrt.cpu(0)))
    for name, array in feeds.items():
        net.set_input(name, array)
    return net.run


def theirs(path: Path, feeds: dict[str, np.ndarray], threads: int) -> Callable | None:
    """Return a run of the file by OpenVINO itself; None if it rejects the file or the inputs."""
    core = openvino.Core()
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    config["INFERENCE_NUM_THREADS"] = threads
    try:
        model = core.read_model(path)
        model.reshape({name: list(array.shape) for name, array in feeds.items()})
        request = core.compile_model(model, "CPU", config).create_infer_request()
        for name, array in feeds.items():
            request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(array)))
    except RuntimeError:
        return None
    return request.infer


def measure(path: Path, options: argparse.Namespace, folder: str) -> float | None:
    """Measure and print the speed; None if the network is skipped."""
    threads = options.threads
    stored = np.load(path.with_suffix(".npz"))
    feeds = {name: stored[name] for name in stored.files if not name.startswith("out:")}
    own = theirs(path, feeds, threads)
    run = ours(path, feeds, threads, folder) if own is not None else None
    if own is None or run is None:
        why = "OpenVINO cannot run it" if own is None else "the device takes less than half"
        print(f"{path.stem:28} {why}", flush=True)
        return None
    return measure_speed(path.stem, (run, own), options)


def main() -> int:
    options = arguments(__doc__)
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(path, options, folder) for path in options.models]
    return summary(found)


if __name__ == "__main__":
    raise SystemExit(main())
