"""Compile the digits networks, run them over their test images, and show what comes of it.

``./run demo`` starts it in an environment of its own. It writes below ``out/digits``: the two
shared libraries.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Callable

import numpy as np

import tvmrt
from tvmrt.cli import bench, console

HERE = Path(__file__).parent
NETWORKS = {"digits_f32": "graph", "digits_int8": "aot"}
PIXEL_MAX = 16


@dataclass
class Outcome:
    """Results of one network."""

    network: str
    executor: str
    compile_seconds: float
    compiled: Any
    probabilities: np.ndarray
    accuracy: float
    call: Callable[[np.ndarray], np.ndarray]


def compile_network(name: str, executor: str, folder: Path) -> tuple[Any, Path, float]:
    """Compile to a shared library; return the compiled network, the library's path and seconds."""
    start = time.perf_counter()
    compiled = tvmrt.compile(HERE / f"{name}.onnx", executor=executor)
    path = folder / f"{name}.so"
    compiled.export_library(path)
    return compiled, path, time.perf_counter() - start


def load(path: Path, executor: str) -> Callable[[np.ndarray], np.ndarray]:
    """Load a library; return a function from an image to its ten probabilities."""
    factory = tvmrt.runtime.load_module(str(path))["default"]
    network: tvmrt.runtime.executor.Executor
    if executor == "aot":
        network = tvmrt.runtime.executor.AotModule(factory(tvmrt.cpu(0)))
    else:
        network = tvmrt.contrib.graph_executor.GraphModule(factory(tvmrt.cpu(0)))

    def call(image: np.ndarray) -> np.ndarray:
        network.set_input("image", image)
        network.run()
        return network.get_output(0).numpy()

    return call


def run_all(call: Callable[[np.ndarray], np.ndarray], images: np.ndarray) -> np.ndarray:
    """Return the probabilities of all images, one call an image."""
    return np.concatenate([call(image).copy() for image in images])


def demonstrate(
    name: str, executor: str, folder: Path, images: np.ndarray, labels: np.ndarray
) -> Outcome:
    """Compile, load and run one network over all images."""
    compiled, path, seconds = compile_network(name, executor, folder)
    call = load(path, executor)
    probabilities = run_all(call, images)
    accuracy = float(np.mean(probabilities.argmax(axis=1) == labels))
    return Outcome(name, executor, seconds, compiled, probabilities, accuracy, call)


def onnxruntime_call(name: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return the same function by onnxruntime with one thread, or None if it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(HERE / f"{name}.onnx"), options)
    return lambda image: np.asarray(session.run(None, {"image": image})[0])


def compare(outcome: Outcome, images: np.ndarray, seconds: float) -> dict[str, str]:
    """Return agreement with onnxruntime, and both latencies measured side by side."""
    rival = onnxruntime_call(outcome.network)
    calls = {"tvmrt": lambda: outcome.call(images[0])}
    if rival:
        calls["onnxruntime"] = lambda: rival(images[0])
    times = bench.interleave(calls, seconds)
    latency = console.format_seconds(median(times["tvmrt"]))
    if not rival:
        return {"latency": latency, "onnxruntime": "not installed: nothing to compare with"}
    expected = run_all(rival, images)
    agree = int(np.sum(expected.argmax(axis=1) == outcome.probabilities.argmax(axis=1)))
    worst = float(np.max(np.abs(expected - outcome.probabilities)))
    ratio = median(a / b for a, b in zip(times["onnxruntime"], times["tvmrt"]))
    other = console.format_seconds(median(times["onnxruntime"]))
    return {
        "agreement": f"{agree} of {len(images)} digits as onnxruntime reads them, "
        f"probabilities within {worst:.2g}",
        "latency": f"{latency} a digit, onnxruntime {other}: {ratio:.1f} times its speed",
    }


def report(outcome: Outcome, images: np.ndarray, folder: Path, seconds: float) -> None:
    """Print what came of one network."""
    summary, size = outcome.compiled.summary, console.format_bytes
    console.print_pairs(
        {
            "network": f"{outcome.network}.onnx, {outcome.executor} executor",
            "compiled": f"{folder / outcome.network}.so "
            f"in {console.format_seconds(outcome.compile_seconds)}",
            "accuracy": f"{outcome.accuracy:.1%} of {len(images)} test images",
            **compare(outcome, images, seconds),
            "weights": size(summary.weights_bytes),
            "memory": f"{size(summary.arena_bytes)} for tensors; lower bound of any placement "
            f"{size(summary.lower_bound_bytes)}",
        }
    )
    print()


def main() -> None:
    """Run the demonstration; see the head of the file."""
    parser = argparse.ArgumentParser(description="Compile and run the digits networks.")
    parser.add_argument("--folder", type=Path, default=Path("out/digits"))
    parser.add_argument("--seconds", type=float, default=1.0, help="time to measure each network")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with np.load(HERE / "digits_test.npz") as data:
        images = (data["images"][:, None, None] / PIXEL_MAX).astype(np.float32)
        labels = data["labels"]
    for name, executor in NETWORKS.items():
        print(f"compiling {name}.onnx ...", flush=True)
        outcome = demonstrate(name, executor, options.folder, images, labels)
        report(outcome, images, options.folder, options.seconds)


if __name__ == "__main__":
    main()
