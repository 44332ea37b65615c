"""Branches on one device run concurrently if it has several queues."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from unary import HEADER, at_once, built, executor

import tvmrt

RUNS = 6
X = np.array([-1, 2, -3, 4], np.float32)
BRANCHES = """g (float[4] x) => (float[4] y)
{ a = Neg(x) b = Relu(a) c = Abs(x) d = Neg(c) y = Mul(b, d) }"""


def network(folder, text, kind, queues):
    name = f"{kind}_queues{queues}"
    tvmrt.load_device_plugin(str(built(folder, name, f"QUEUES={queues}", "SLEEP_MS=40")))
    model = onnx.parser.parse_model(HEADER + text)
    library = tvmrt.compile(model, devices=[name], executor=kind, schedule="async")
    library.export_library(folder / f"{name}.so")
    return executor(folder / f"{name}.so", kind)


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_two_queues_run_two_branches_at_once(tmp_path, monkeypatch, kind):
    for queues in (1, 2):
        log = tmp_path / f"log{queues}"
        monkeypatch.setenv("UNARY_LOG", str(log))
        net = network(tmp_path, BRANCHES, kind, queues)
        for _ in range(RUNS):
            net.run(x=X)
            expected = np.maximum(-X, 0) * -np.abs(X)
            np.testing.assert_array_equal(net.get_output(0).numpy(), expected)
        assert at_once(log) == queues


def test_dependent_steps_wait_for_a_region(tmp_path):
    """A chain over device and CPU, whose regions reuse no memory that is still written."""
    text = """g (float[4] x) => (float[4] y, float[4] z)
    { a = Neg(x) b = Exp(a) c = Neg(b) d = Exp(c) z = Abs(d) e = Add(d, b) y = Neg(e) }"""
    net = network(tmp_path, text, "aot", queues=3)
    for x in (X, X / 2, X * 0):
        net.run(x=x)
        b = np.exp(-x)
        d = np.exp(-b)
        np.testing.assert_allclose(net.get_output(0).numpy(), -(d + b), rtol=1e-5)
        np.testing.assert_allclose(net.get_output(1).numpy(), d, rtol=1e-5)
