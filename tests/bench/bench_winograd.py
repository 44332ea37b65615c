"""Compare convolutional networks with direct convolution, default Winograd, ``--winograd`` and
onnxruntime: median speed ratios over rounds in turns, differences (of ``--winograd`` and
onnxruntime), bytes of weights.

Run: ``TVM_NUM_THREADS=1 python tests/bench/bench_winograd.py [NAME ...]``. With ``--layers`` single
layers of many shapes with each Winograd tile size, to which the compiler's estimate was fitted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from statistics import median

import numpy as np
import onnxruntime
from convolution_files import BUILDERS, Maker

import tvmrt
from tvmrt.compiler.transform import winograd
from tvmrt.runtime.executor import AotModule

LAYERS = [
    (64, 64, 56), (128, 128, 28), (256, 256, 14), (512, 512, 7), (32, 32, 112), (16, 16, 160),
    (48, 48, 40), (96, 96, 20), (64, 64, 7), (3, 32, 64),
]  # fmt: skip


def executor_of(model, x: np.ndarray, path: str, **options) -> tuple[AotModule, int]:
    """Return the executor, its input, and the bytes of its weights."""
    library = tvmrt.compile(model, executor="aot", **options)
    library.export_library(path)
    executor = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    executor.set_input(0, x)
    return executor, library.summary.weights_bytes


def rival(model) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def networks(names: list[str], rounds: int) -> None:
    print("network      direct ms  by default --winograd  onnxruntime  difference  MB of weights")
    for name in names:
        model = BUILDERS[name]()
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        x = np.random.default_rng(1).standard_normal(shape, np.float32)
        session = rival(model)
        with tempfile.TemporaryDirectory() as folder:
            ways = {"direct": False, "default": None, "winograd": True}
            ours = [executor_of(model, x, f"{folder}/{n}.so", winograd=w) for n, w in ways.items()]
            tiled = ours[-1][0]
            runs = [*(each.run for each, _ in ours), lambda s=session, x=x: s.run(None, {"x": x})]
            for run in runs:
                run()
            times = [[seconds(run) for run in runs] for _ in range(rounds)]
            right = session.run(None, {"x": x})[0]
            apart = np.abs(tiled.get_output(0).numpy() - right).max() / np.abs(right).max()
        gains = [median(row[0] / row[i] for row in times) for i in (1, 2, 3)]
        print(
            f"{name:12} {1e3 * median(row[0] for row in times):9.2f} {gains[0]:10.2f} x "
            f"{gains[1]:8.2f} x {gains[2]:10.2f} x  {apart:10.1e}  "
            + " to ".join(f"{size / 1e6:.1f}" for _, size in ours),
            flush=True,
        )


def layers(rounds: int) -> None:
    print("layer              direct us   tile of 2 (estimate)      of 4 (estimate)")
    estimate = winograd._faster_tiles
    for ins, outs, size in LAYERS:
        maker = Maker(ins, size)
        model = maker.model(maker.relu(maker.conv("x", outs)))
        x = np.random.default_rng(1).standard_normal((1, ins, size, size), np.float32)
        shape = winograd._Shape(1, size, size, ins, outs)
        estimated = {n: shape.direct_cost() / shape.winograd_cost(n) for n in (2, 4)}
        runs = []
        with tempfile.TemporaryDirectory() as folder:
            for n in (0, 2, 4):
                winograd._faster_tiles = lambda _, n=n: iter([(n, 1.0)] if n else [])
                runs.append(executor_of(model, x, f"{folder}/{n}.so", winograd=True)[0].run)
                runs[-1]()
            winograd._faster_tiles = estimate
            times = [[seconds(run) for run in runs] for _ in range(rounds)]
        found = [median(row[0] / row[i] for row in times) for i in (1, 2)]
        print(
            f"{ins:4} {outs:4} {size:4}     {1e6 * median(row[0] for row in times):9.0f} "
            f"{found[0]:12.2f} ({estimated[2]:.2f}) {found[1]:18.2f} ({estimated[4]:.2f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(BUILDERS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--layers", action="store_true")
    given = parser.parse_args()
    if given.layers:
        layers(given.rounds)
    else:
        networks(given.names or list(BUILDERS), given.rounds)


if __name__ == "__main__":
    main()
