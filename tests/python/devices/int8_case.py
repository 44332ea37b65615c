"""A quantised network for devices."""

from __future__ import annotations

import numpy as np
from onnx_case import network


def bytes_network(to: str, weights_zero: int, scales: np.ndarray):
    """Return two QLinearConv around a residual add, a mean of all pixels and a matmul."""
    rng = np.random.default_rng(3)
    span = (-60, 60) if to == "int8" else (60, 200)
    draw = lambda *shape: rng.integers(*span, shape).astype(to)  # noqa: E731
    zero = np.array(5 if to == "int8" else 131, to)
    weights = {
        "s": np.float32(0.05), "z": zero, "ws": scales, "m": draw(6, 4),
        "wz": np.full(scales.shape, weights_zero, to), "one": np.array(weights_zero, to),
        "w": draw(6, 6, 3, 3), "b": rng.integers(-500, 500, 6).astype(np.int32),
        "ys": np.float32(0.7), "ps": np.float32(0.02), "shape": np.array([1, 6]),
    }  # fmt: skip
    conv = ["x", "s", "z", "w", "ws", "wz", "ys", "z", "b"]
    nodes = [
        ("DequantizeLinear", ["x", "s", "z"], "xf", {}),
        ("QLinearConv", conv, "c", {"pads": [1, 1, 1, 1]}),
        ("DequantizeLinear", ["c", "ys", "z"], "cf", {}),
        ("Add", ["xf", "cf"], "sum", {}),
        ("QuantizeLinear", ["sum", "ys", "z"], "d", {}),
        ("DequantizeLinear", ["d", "ys", "z"], "df", {}),
        ("GlobalAveragePool", ["df"], "ef", {}),
        ("QuantizeLinear", ["ef", "ys", "z"], "e", {}),
        ("Reshape", ["e", "shape"], "f", {}),
        ("QLinearMatMul", ["f", "ys", "z", "m", "s", "one", "ps", "z"], "y", {}),
    ]
    feeds = {"x": draw(1, 6, 7, 5)}
    return network(nodes, feeds, weights, {"y": to}), feeds
