"""Test parallel execution of independent branches in OpenVINO."""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvmrt

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "devices"))

from unary import HEADER, executor_of

BRANCHES = """g (float[1,8] x, float[8,8] v, float[8,8] w) => (float[1,8] y)
{ a = MatMul(x, v) b = Erf(a) c = MatMul(x, w) d = Sin(c) y = Mul(b, d) }"""


@pytest.mark.skipif(not find_spec("openvino"), reason="the package openvino is not installed")
def test_openvino_computes_branches_in_streams(tmp_path, monkeypatch):
    from tvmrt.plugins.openvino import device

    started, made = [], []
    plain, compiled = device._Request.start, device._Compiled.__init__

    def start(self, symbol, *tensors):
        started.append(symbol)
        return plain(self, symbol, *tensors)

    def init(self, *args):
        compiled(self, *args)
        made.append(self.model)

    monkeypatch.setattr(device._Request, "start", start)
    monkeypatch.setattr(device._Compiled, "__init__", init)
    monkeypatch.setattr(device.OpenVinoDevice, "most_nodes", 1)  # so that there are two regions
    options = {"openvino": {"streams": 2, "threads": 2}}
    library = tvmrt.compile(
        onnx.parser.parse_model(HEADER + BRANCHES),
        devices=["openvino"],
        executor="aot",
        schedule="async",
        device_options=options,
    )
    library.export_library(tmp_path / "n.so")
    net = executor_of(tvmrt.runtime.load_module(tmp_path / "n.so"), "aot")
    x, v, w = (
        np.random.default_rng(1).normal(size=s).astype("f") for s in ((1, 8), (8, 8), (8, 8))
    )
    golden = np.vectorize(math.erf)(x @ v) * np.sin(x @ w)
    for _ in range(3):
        net.run(x=x, v=v, w=w)
        np.testing.assert_allclose(net.get_output(0).numpy(), golden, rtol=1e-4, atol=1e-5)
    assert len(set(started)) == 2
    assert made[0].get_property("NUM_STREAMS") == 2
