"""Compare forests with onnxruntime on one thread, by number of rows per run.

    python tests/bench/bench_forest.py [--trees N] [--depth D] [--seconds S] [--json]

A random forest of scikit-learn with columns of numbers, as classifier and as regressor. Runs of
both are timed in turns in one process, with numpy arrays; each run has new rows. The ratio compares
the medians. Exits with 1 if a forest is less than 3 times as fast at one row.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time

os.environ["TVM_NUM_THREADS"] = "1"

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import tvmrt

TIMES = 3.0  # required speed relative to onnxruntime, at one row


def ours(model, shape: tuple[int, int]):
    """Return a function of rows that runs the compiled forest."""
    return tvmrt.load(model, shapes={"X": shape}, cache=False)


def theirs(model):
    """Return a function of rows that runs the forest in onnxruntime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda x: session.run(None, {"X": x})


def paired(first, second, inputs: list[np.ndarray], seconds: float) -> tuple[float, float]:
    """Return the median seconds of both, timed in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    end, i = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        x = inputs[i % len(inputs)]
        for run, into in zip((first, second), times):
            begin = time.perf_counter()
            run(x)
            into.append(time.perf_counter() - begin)
        i += 1
    return statistics.median(times[0]), statistics.median(times[1])


def measure(options) -> list[dict]:
    x, y = make_classification(4000, 20, n_informative=12, random_state=0)
    x, found = x.astype(np.float32), []
    size = {"n_estimators": options.trees, "max_depth": options.depth, "random_state": 0}
    for kind in (RandomForestClassifier, RandomForestRegressor):
        forest = kind(**size).fit(x, y)
        more = {"options": {"zipmap": False}} if kind is RandomForestClassifier else {}
        model = to_onnx(forest, x[:1], **more)
        for rows in (1, 8, 64, 512):
            inputs = [x[i : i + rows] for i in range(0, 3200, max(rows, 50))]
            pair = ours(model, (rows, 20)), theirs(model)
            results = pair[0](inputs[0])
            results = results if isinstance(results, tuple) else (results,)
            for a, b in zip(results, pair[1](inputs[0])):
                np.testing.assert_allclose(a, b, 1e-4, 1e-5)
            times = paired(*pair, inputs, options.seconds)
            found.append({"forest": kind.__name__, "rows": rows, "ours": times[0],
                          "onnxruntime": times[1], "speed": times[1] / times[0]})  # fmt: skip
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row of the table")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        json.dump(found, sys.stdout, indent=1)
    else:
        print(f"{'forest':24} {'rows':>5} {'us':>9} {'ort us':>9} {'speed':>6}")
        for row in found:
            print(
                f"{row['forest']:24} {row['rows']:5} {row['ours'] * 1e6:9.2f} "
                f"{row['onnxruntime'] * 1e6:9.2f} {row['speed']:6.2f}"
            )
    return int(any(row["speed"] < TIMES for row in found if row["rows"] == 1))


if __name__ == "__main__":
    sys.exit(main())
