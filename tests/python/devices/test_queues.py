"""Branches on one device run concurrently if it has several queues."""

from __future__ import annotations

import numpy as np
import onnx
from unary import HEADER, at_once, built, executor

import tvmrt

RUNS = 6
X = np.array([-1, 2, -3, 4], np.float32)
TEXT = """g (float[4] x) => (float[4] y)
{ a = Neg(x) b = Relu(a) c = Abs(x) d = Neg(c) y = Mul(b, d) }"""


def run_branches(folder, queues):
    name = f"queues{queues}"
    tvmrt.load_device_plugin(str(built(folder, name, f"QUEUES={queues}", "SLEEP_MS=40")))
    model = onnx.parser.parse_model(HEADER + TEXT)
    library = tvmrt.compile(model, devices=[name], schedule="async")
    assert len(library.summary.regions) == 2
    library.export_library(folder / f"{name}.so")
    network = executor(folder / f"{name}.so")
    network.set_scheduler("async")
    network.run(x=X)
    np.testing.assert_array_equal(network.get_output(0).numpy(), np.maximum(-X, 0) * -np.abs(X))
    for _ in range(RUNS):
        network.run()


def test_two_queues_run_two_branches_at_once(tmp_path, monkeypatch):
    for queues in (1, 2):
        log = tmp_path / f"log{queues}"
        monkeypatch.setenv("UNARY_LOG", str(log))
        run_branches(tmp_path, queues)
        assert at_once(log) == queues
