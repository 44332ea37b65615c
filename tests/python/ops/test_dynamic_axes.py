"""Axes given as network inputs, without a declared result shape."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmrt

X = np.random.default_rng(2).standard_normal((2, 3, 4, 1)).astype(np.float32)


def network(op: str, operands: list[str], batch: int | str, **attributes) -> onnx.ModelProto:
    nodes = [
        helper.make_node(op, operands, ["s"], "along", **attributes),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *X.shape[1:]])
    axis = helper.make_tensor_value_info("axis", TensorProto.INT64, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph(nodes, "g", [x, axis], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10)


def cumulated(function, axis: int, exclusive: int, reverse: int) -> np.ndarray:
    start = 1.0 if function is np.cumprod else 0.0
    x = np.flip(X, axis) if reverse else X
    y = function(x.astype(np.float64), axis)
    if exclusive:
        y = np.roll(y, 1, axis)
        y[(slice(None),) * (axis % 4) + (0,)] = start
    return np.flip(y, axis) if reverse else y


@pytest.mark.parametrize("batch", [2, "n"])
@pytest.mark.parametrize("exclusive, reverse", [(0, 0), (1, 1)])
@pytest.mark.parametrize("op, function", [("CumSum", np.cumsum), ("CumProd", np.cumprod)])
def test_cumulative_axis(op, function, exclusive, reverse, batch):
    model = network(op, ["x", "axis"], batch, exclusive=exclusive, reverse=reverse)
    dims = {"n": (1, 4)} if batch == "n" else None
    net = tvmrt.load(model, cache=False, dims=dims)
    for axis in range(-4, 4):
        right = -cumulated(function, axis, exclusive, reverse)
        found = net({"x": X, "axis": np.array(axis)})["y"]
        np.testing.assert_allclose(found, right, 1e-5, 1e-6)
    with pytest.raises(ValueError, match=rf"{op} 'along', axis: the run has \[4\]"):
        net({"x": X, "axis": np.array(4)})


def test_axis_of_a_fourier_transform():
    net = tvmrt.load(network("DFT", ["x", "", "axis"], 2), cache=False)
    for axis in (0, 1, 2, -2, -4):
        numbers = np.fft.fft(X[..., 0].astype(np.float64), axis=axis % 4)
        right = -np.stack([numbers.real, numbers.imag], -1)
        found = net({"x": X, "axis": np.array(axis)})["y"]
        np.testing.assert_allclose(found, right, 1e-5, 1e-6)
