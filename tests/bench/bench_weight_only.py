"""Measure one step of a decoder with weights in float32, in 8 and in 4 bits: speed ratios (the
median over rounds in turns) and differences of results.

Run: ``TVM_NUM_THREADS=1 python tests/bench/bench_weight_only.py``. The weights should be larger
than the caches, as those of real decoders are.
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

from transformer_files import BUILDERS

import tvmrt
from tvmrt.runtime.executor import AotModule

KINDS = (None, "int8", "int4")


def network(model, feeds: dict, path: str, weights: str | None) -> tuple[AotModule, int]:
    """Return the compiled network, its inputs, and the bytes of its weights."""
    library = tvmrt.compile(model, executor="aot", weights=weights)
    library.export_library(path)
    executor = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    for name, array in feeds.items():
        executor.set_input(name, array)
    executor.run()
    return executor, library.summary.weights_bytes


def seconds(executor: AotModule) -> float:
    start = time.perf_counter()
    executor.run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--words", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=1, help="steps computed at once")
    given = parser.parse_args()
    model, feeds = BUILDERS["gpt2"](
        given.layers, given.width, given.heads, steps=given.rows, words=given.words
    )
    with tempfile.TemporaryDirectory() as folder:
        made = [network(model, feeds, f"{folder}/{kind}.so", kind) for kind in KINDS]
        rounds = [[seconds(executor) for executor, _ in made] for _ in range(given.rounds)]
    right = made[0][0].get_output(0).numpy()
    print("weights   MB stored        ms  times as fast  difference")
    for i, (kind, (executor, nbytes)) in enumerate(zip(KINDS, made)):
        apart = executor.get_output(0).numpy() - right
        apart = np.sqrt(np.square(apart).mean() / np.square(right).mean())
        ratio = median(row[0] / row[i] for row in rounds)
        ms = 1e3 * median(row[i] for row in rounds)
        print(
            f"{kind or 'float32':8} {nbytes / 1e6:10.1f}  {ms:8.3f}  {ratio:13.2f}  {apart:10.2g}"
        )


if __name__ == "__main__":
    main()
