"""Branches on one device run at the same time where it has queues for them."""

from __future__ import annotations

import time

import numpy as np
import onnx
from unary import HEADER, built, executor

import tvmrt

SLEEP = 0.04
RUNS = 6
X = np.array([-1, 2, -3, 4], np.float32)
TEXT = """g (float[4] x) => (float[4] y)
{ a = Neg(x) b = Relu(a) c = Abs(x) d = Neg(c) y = Mul(b, d) }"""


def seconds_of_a_run(folder, queues):
    name = f"queues{queues}"
    macros = f"QUEUES={queues}", f"SLEEP_MS={round(SLEEP * 1e3)}"
    tvmrt.load_device_plugin(str(built(folder, name, *macros)))
    model = onnx.parser.parse_model(HEADER + TEXT)
    library = tvmrt.compile(model, devices=[name], schedule="async")
    assert len(library.summary.regions) == 2
    library.export_library(folder / f"{name}.so")
    network = executor(folder / f"{name}.so")
    network.set_scheduler("async")
    network.run(x=X)
    np.testing.assert_array_equal(network.get_output(0).numpy(), np.maximum(-X, 0) * -np.abs(X))
    start = time.perf_counter()
    for _ in range(RUNS):
        network.run()
    return (time.perf_counter() - start) / RUNS


def test_two_queues_run_two_branches_at_once(tmp_path):
    one, two = (seconds_of_a_run(tmp_path, queues) for queues in (1, 2))
    assert one > 2 * SLEEP
    assert two < one / 1.5, f"{one:.3f} s by one queue, {two:.3f} s by two"
