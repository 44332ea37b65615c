"""A network of two dense layers."""

from __future__ import annotations

import numpy as np
import onnx_graph
from onnx import ModelProto, helper


def two_layers() -> tuple[ModelProto, list[np.ndarray]]:
    """Return x (4, 64), dense layers of 48 (with bias and Relu) and 10; the weights."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((64, 48), (48,), (48, 10))]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p"], name="p"),
        helper.make_node("Add", ["p", "b0"], ["a"], name="a"),
        helper.make_node("Relu", ["a"], ["r"], name="r"),
        helper.make_node("MatMul", ["r", "w1"], ["y"], name="y"),
    ]
    x = {"x": np.zeros((4, 64), np.float32)}
    return onnx_graph.model(nodes, x, ["y"], dict(zip(["w0", "b0", "w1"], weights))), weights
