"""A quantised network with rounding ties, and its results without fusion."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_case import RNG, network

ort = pytest.importorskip("onnxruntime")
ZEROS = {"xz": 3, "cz": -20, "az": 11, "pz": -7}


def quantised_layers(kind: str, pads: int, whole: bool) -> tuple[onnx.ModelProto, dict]:
    """Return a quantised convolution, residual add and average. Scales are powers of two, so that
    floats are exact and many results are ties."""
    unsigned = kind == "uint8"
    zeros = {name: np.array(z + 128 * unsigned, kind) for name, z in ZEROS.items()}
    scales = {"xs": 1 / 16, "ws": 1 / 8, "cs": 1 / 4, "as": 1 / 8, "ps": 1 / 32}
    weights = {
        **{name: np.asarray(value, np.float32) for name, value in scales.items()},
        **zeros,
        "w": RNG.integers(-9, 9, (8, 8, 3, 3)).astype(np.int8),
        "wz": np.asarray(0, np.int8),
    }
    pool = ("GlobalAveragePool", ["ad"], "p", {})
    if not whole:
        window = {"kernel_shape": [2, 4], "strides": [1, 2], "pads": [pads] * 4}
        pool = ("AveragePool", ["ad"], "p", {**window, "count_include_pad": pads})
    nodes = [
        ("QuantizeLinear", ["x", "xs", "xz"], "xq", {}),
        ("DequantizeLinear", ["xq", "xs", "xz"], "xd", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "wd", {}),
        ("Conv", ["xd", "wd"], "c", {"pads": [1, 1, 1, 1]}),
        ("QuantizeLinear", ["c", "cs", "cz"], "cq", {}),
        ("DequantizeLinear", ["cq", "cs", "cz"], "cd", {}),
        ("Add", ["cd", "xd"], "a", {}),
        ("QuantizeLinear", ["a", "as", "az"], "aq", {}),
        ("DequantizeLinear", ["aq", "as", "az"], "ad", {}),
        pool,
        ("QuantizeLinear", ["p", "ps", "pz"], "pq", {}),
        ("DequantizeLinear", ["pq", "ps", "pz"], "y", {}),
    ]
    feeds = {"x": (RNG.integers(-300, 300, (1, 8, 6, 8)) / 32).astype(np.float32)}
    return network(nodes, feeds, weights, {"y": "float32"}), feeds


def step_by_step(model: onnx.ModelProto, feeds) -> np.ndarray:
    """Return the float result of each node without fusion."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]
