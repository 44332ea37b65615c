"""Compare transformers optimised by onnxruntime with PyTorch's exports, both compiled: the median
ratio of times over rounds in turns.

Run: ``python tests/bench/bench_transformers.py``; it needs onnxruntime and sympy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

from transformer_files import BUILDERS, optimized

import tvmrt
from tvmrt.runtime.executor import AotModule


def network(model, feeds: dict, path: str) -> AotModule:
    """Return the compiled network with its inputs."""
    tvmrt.compile(model, executor="aot").export_library(path)
    executor = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    for name, array in feeds.items():
        executor.set_input(name, array)
    executor.run()
    return executor


def seconds(executor: AotModule, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        executor.run()
    return (time.perf_counter() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    given = parser.parse_args()
    sizes = {"layers": given.layers, "width": given.width, "heads": given.heads}
    print("network   plain ms  optimised ms  optimised / plain   largest difference")
    with tempfile.TemporaryDirectory() as folder:
        for kind, build in BUILDERS.items():
            model, feeds = build(**sizes)
            fused = optimized(model, kind, folder, given.heads, given.width)
            plain, fast = (
                network(each, feeds, f"{folder}/{kind}_{i}.so")
                for i, each in enumerate((model, fused))
            )
            calls = max(1, int(0.02 / seconds(plain, 3)))
            pairs = [(seconds(plain, calls), seconds(fast, calls)) for _ in range(given.rounds)]
            ratio = median(b / a for a, b in pairs)
            times = [1e3 * median(column) for column in zip(*pairs)]
            apart = np.abs(plain.get_output(0).numpy() - fast.get_output(0).numpy()).max()
            cells = f"{times[0]:9.3f}  {times[1]:12.3f}  {ratio:17.3f}   {apart:.1e}"
            print(f"{kind:8} {cells}", flush=True)


if __name__ == "__main__":
    main()
