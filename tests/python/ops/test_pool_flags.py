"""Int8 pooling compiles with any user flags, and gives equal results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvmrt

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
TEXT = """g (float[N, 8, 16, 16] x) => (float[N, 8, 8, 8] y)
<float s = {0.5}, uint8 z = {128}> {
  a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)
  c = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b)
  d = QuantizeLinear(c, s, z) y = DequantizeLinear(d, s, z) }"""


@pytest.mark.everyday(1)
@pytest.mark.parametrize("flags", ["-O1", "-O0", "-Os"])
def test_int8_pooling_compiles_with_any_flags(tmp_path, monkeypatch, flags):
    monkeypatch.setenv("TVMRT_CFLAGS", flags)
    model = onnx.parser.parse_model(HEADER + TEXT)
    tvmrt.compile(model, executor="aot", dims={"N": (1, 5)}).export_library(tmp_path / "n.so")
    module = tvmrt.runtime.load_module(tmp_path / "n.so")["default"](tvmrt.cpu(0))
    network = tvmrt.runtime.executor.AotModule(module)
    x = np.random.default_rng(1).integers(-60, 60, (3, 8, 16, 16)).astype(np.float32) / 2
    network.set_input("x", x)
    network.run()
    right = x.reshape(3, 8, 8, 2, 8, 2).max((3, 5))
    np.testing.assert_array_equal(network.get_output(0).numpy(), right)


LARGE = """g (float[4, 64, 48, 48] x) => (float[4, 64, 24, 24] y)
<float s = {0.5}, uint8 z = {128}> {
  a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)
  c = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b)
  d = QuantizeLinear(c, s, z) y = DequantizeLinear(d, s, z) }"""


def large_pool(kind: str):
    """Return a layer worth two threads, its library, its input and numpy's result."""
    model = onnx.parser.parse_model(HEADER + LARGE.replace("MaxPool", kind))
    x = np.random.default_rng(2).integers(-30, 30, (4, 64, 48, 48)).astype(np.float32) * 2
    windows = x.reshape(4, 64, 24, 2, 24, 2)
    right = windows.max((3, 5)) if kind == "MaxPool" else windows.mean((3, 5))
    return tvmrt.compile(model, executor="aot"), x, right


@pytest.mark.everyday(1)
@pytest.mark.parametrize("flags", ["-O1", "-O3"])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_large_pools_are_split_into_tasks(tmp_path, monkeypatch, kind, flags):
    monkeypatch.setenv("TVMRT_CFLAGS", flags)
    library, x, right = large_pool(kind)
    text = "".join(f.text for f in library.sources.functions)
    assert "tvmrt_pool_i8_part(&layer" in text
    library.export_library(tmp_path / "n.so")
    module = tvmrt.runtime.load_module(tmp_path / "n.so")["default"](tvmrt.cpu(0))
    network = tvmrt.runtime.executor.AotModule(module)
    network.set_input("x", x)
    network.run()
    np.testing.assert_array_equal(network.get_output(0).numpy(), right)
