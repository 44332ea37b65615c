"""Check a folder's float networks on the opencl device, and measure the overhead of its regions.

    python plugins/opencl/bench/bench_opencl.py [FOLDER] [--seconds S] [--network NAME ...] [--json]

FOLDER contains NAME.onnx with NAME.npz and defaults to TVMRT_MODELS; networks with integer matmuls
or convolutions are skipped. The overhead is the time of a run minus its kernels' time on the
device's clock, divided by the number of regions. It includes copies of boundary tensors, kernel
launches and steps on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "bench"))
sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "networks"))
import golden_case as golden
from float_networks import float_networks

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule

DEVICE = "opencl"


def kernel_nanoseconds() -> int:
    """Return the total time of all measured kernels so far."""
    text = str(tvmrt.get_global_func(f"device.{DEVICE}.profile")())
    return sum(int(line.split("\t")[4]) for line in text.splitlines())


def open_network(model: Path, folder: Path, inputs: dict, **options) -> tuple:
    """Return the compiled network, and an executor with its inputs set."""
    library = tvmrt.compile(model, devices=[DEVICE], **options)
    path = folder / f"{model.stem}{len(options)}.so"
    library.export_library(path)
    net = GraphModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    net.set_input(**inputs)
    net.run()
    return library, net


def median_seconds(net: GraphModule, seconds: float) -> float:
    """Return the median time of one run."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        net.run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def profiled_seconds(net: GraphModule, seconds: float) -> tuple[float, float]:
    """Return the median times of a run's kernels, and of everything else in it."""
    kernels: list[float] = []
    rest: list[float] = []
    end = time.perf_counter() + seconds
    while len(rest) < 3 or time.perf_counter() < end:
        before, begin = kernel_nanoseconds(), time.perf_counter()
        net.run()
        whole = time.perf_counter() - begin
        kernels.append((kernel_nanoseconds() - before) * 1e-9)
        rest.append(whole - kernels[-1])
    return statistics.median(kernels), statistics.median(rest)


def is_right(net: GraphModule, outputs: dict[str, np.ndarray], noise: float) -> bool:
    for i, (name, expected) in enumerate(outputs.items()):
        try:
            golden.check(name, net.get_output(i).numpy(), expected, noise)
        except AssertionError:
            return False
    return True


def measure(model: Path, folder: Path, seconds: float) -> dict:
    inputs, outputs = golden.load(model.parent, model.stem)
    library, net = open_network(model, folder, inputs)
    profile = {DEVICE: {"profile": 1}}
    _, profiled = open_network(model, folder, inputs, device_options=profile)
    regions = library.partition.regions
    kernels, rest = profiled_seconds(profiled, seconds)
    launches = sum(n.op == "custom_opencl" for region in regions for n in region.nodes)
    return {
        "network": model.stem,
        "right": is_right(net, outputs, golden.noise(model.parent, model.stem)),
        "regions": len(regions),
        "kernels": launches,
        "seconds": median_seconds(net, seconds),
        "kernel_seconds": kernels,
        "overhead_seconds": rest / max(len(regions), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--seconds", type=float, default=0.5, help="per network and measurement")
    parser.add_argument("--network", action="append", help="only this one; may be repeated")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    models = float_networks(Path(options.folder))
    models = [m for m in models if not options.network or m.stem in options.network]
    if not models:
        parser.error(f"{options.folder} holds no such network")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            rows.append(measure(model, Path(folder), options.seconds))
            if not options.json:
                print_row(rows[-1], first=len(rows) == 1)
    if options.json:
        json.dump(rows, sys.stdout, indent=1)
    return 0 if all(row["right"] for row in rows) else 1


def print_row(row: dict, first: bool) -> None:
    if first:
        head = f"{'network':28} {'right':>5} {'regions':>7} {'kernels':>7} {'ms':>10} "
        print(head + f"{'kernels ms':>10} {'overhead us a region':>20}")
    print(
        f"{row['network']:28} {'yes' if row['right'] else 'NO':>5} {row['regions']:7} "
        f"{row['kernels']:7} {row['seconds'] * 1e3:10.3f} {row['kernel_seconds'] * 1e3:10.3f} "
        f"{row['overhead_seconds'] * 1e6:20.1f}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
