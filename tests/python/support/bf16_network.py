"""A network with each kind of matmul that ``precision="bf16"`` changes, with odd sizes, and numpy's
results from rounded operands."""

from __future__ import annotations

import numpy as np
import onnx
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(7)
A = RNG.normal(0, 1, (2, 3, 8, 33)).astype(np.float32)
B = RNG.normal(0, 1, (2, 3, 33, 21)).astype(np.float32)
IMAGE = RNG.normal(0, 1, (1, 7, 9, 11)).astype(np.float32)
WEIGHTS = RNG.normal(0, 0.2, (33, 40)).astype(np.float32)
BATCHED = RNG.normal(0, 0.2, (3, 33, 17)).astype(np.float32)
KERNEL = RNG.normal(0, 0.2, (12, 7, 3, 3)).astype(np.float32)
BIAS = RNG.normal(0, 1, 12).astype(np.float32)
FEEDS = {"a": A, "b": B, "image": IMAGE}
OUTPUTS = ("constant", "batched", "rows", "columns", "convolved")


def _tensor(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_of(nodes, bound_weights, inputs, outputs) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [_tensor(name, shape) for name, shape in inputs.items()],
        [_tensor(name, None) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in bound_weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def products() -> onnx.ModelProto:
    """Add a matmul of each kind, from the inputs to a separate output."""
    nodes = [
        helper.make_node("MatMul", ["a", "weights"], ["constant"], "constant"),
        helper.make_node("MatMul", ["a", "batch"], ["batched"], "batched"),
        helper.make_node("MatMul", ["a", "b"], ["rows"], "rows"),
        helper.make_node("Transpose", ["a"], ["turned"], "turn", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["a", "turned"], ["columns"], "columns"),
        helper.make_node(
            "Conv", ["image", "kernel", "bias"], ["convolved"], "conv", pads=[1, 1, 1, 1]
        ),
    ]
    bound_weights = {"weights": WEIGHTS, "batch": BATCHED, "kernel": KERNEL, "bias": BIAS}
    return model_of(nodes, bound_weights, {name: x.shape for name, x in FEEDS.items()}, OUTPUTS)


def rounded(x):
    return x.astype(bfloat16).astype(np.float64)


def convolved(x, w):
    """Compute a padded 3x3 convolution."""
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("cyxij,ocij->oyx", windows, w)[None]


def right() -> dict[str, np.ndarray]:
    """Return numpy's results from rounded operands."""
    a = rounded(A)
    return {
        "constant": a @ rounded(WEIGHTS),
        "batched": a @ rounded(BATCHED),
        "rows": a @ rounded(B),
        "columns": a @ a.swapaxes(2, 3),
        "convolved": convolved(rounded(IMAGE), rounded(KERNEL)) + BIAS[:, None, None],
    }
