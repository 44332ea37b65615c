"""Networks of a folder on the device openvino beside OpenVINO's own run of the same file.

    python tests/bench/bench_openvino.py [FOLDER] [--networks NAME ...] [--seconds S] [--cpu]

FOLDER holds NAME.onnx with NAME.npz and defaults to what TVMRT_MODELS names. Both run in one
process, in turn, with inputs and outputs in memory that stays: ours by ``net.run()`` of a network
compiled ahead, theirs by ``request.infer()``. Speed is the median over rounds of their time in
parts of ours; with --cpu of the process's time on processors, for machines with other work. What
OpenVINO cannot read, or the device takes less than half of, is named and left out.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import openvino

import tvmrt
import tvmrt.devices.openvino
from tvmrt.runtime.executor import AotModule


def ours(path: Path, feeds: dict[str, np.ndarray], threads: int, folder: str) -> Callable | None:
    """A run of the network on the device; None if the device takes less than half of it."""
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
    """A run of the file by the library itself; None if it cannot read it."""
    core = openvino.Core()
    try:
        model = core.read_model(path)
    except RuntimeError:
        return None
    model.reshape({name: list(array.shape) for name, array in feeds.items()})
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(
        model, "CPU", {**config, "INFERENCE_NUM_THREADS": threads}
    ).create_infer_request()
    for name, array in feeds.items():
        request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(array)))
    return request.infer


def seconds(run: Callable, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def paired(
    first: Callable, second: Callable, limit: float, clock: Callable[[], float]
) -> tuple[float, float, float]:
    """Seconds of both, and how often the first fits into the second."""
    calls = max(1, int(2e-3 / min(seconds(run, 3, time.perf_counter) for run in (first, second))))
    rounds = []
    end = time.perf_counter() + limit
    while time.perf_counter() < end or len(rounds) < 3:
        rounds.append((seconds(first, calls, clock), seconds(second, calls, clock)))
    times = [median(column) for column in zip(*rounds)]
    return times[0], times[1], median(b / a for a, b in rounds)


def measure(path: Path, options: argparse.Namespace, folder: str) -> float | None:
    """The speed, which is printed; None if the network is left out."""
    threads = options.threads
    stored = np.load(path.with_suffix(".npz"))
    feeds = {name: stored[name] for name in stored.files if not name.startswith("out:")}
    own = theirs(path, feeds, threads)
    run = ours(path, feeds, threads, folder) if own is not None else None
    if own is None or run is None:
        why = "OpenVINO cannot read it" if own is None else "the device takes less than half"
        print(f"{path.stem:28} {why}", flush=True)
        return None
    clock = time.process_time if options.cpu else time.perf_counter
    here, there, speed = paired(run, own, options.seconds, clock)
    print(f"{path.stem:28} {here * 1e3:9.4f} {there * 1e3:9.4f} {speed:6.3f}", flush=True)
    return speed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--networks", nargs="*", help="their names; all where it is left out")
    parser.add_argument("--seconds", type=float, default=2.0, help="per network")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="time on processors")
    options = parser.parse_args()
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    models = sorted(Path(options.folder).glob("*.onnx"))
    if options.networks:
        models = [path for path in models if path.stem in options.networks]
    print(f"{'network':28} {'device ms':>9} {'own ms':>9} {'speed':>6}")
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(path, options, folder) for path in models]
    speeds = [speed for speed in found if speed is not None]
    if not speeds:
        sys.exit("no network was measured")
    mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
    print(f"geometric mean {mean:.3f}, least {min(speeds):.3f}, networks {len(speeds)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
