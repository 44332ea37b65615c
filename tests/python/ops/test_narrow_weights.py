"""Weights of 2 and 4 bits, by DequantizeLinear and by ONNX Runtime's product of packed weights."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from nn_case import run_compiled
from onnx import TensorProto, helper

import tvmrt

RNG = np.random.default_rng(11)


def network(nodes, weights, shape) -> onnx.ModelProto:
    """A network of float32 x and y."""
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run_both(tmp_path, nodes, weights, x) -> tuple[np.ndarray, np.ndarray]:
    """What ONNX Runtime and the compiled network say of x."""
    made = network(nodes, weights, x.shape)
    options = onnxruntime.SessionOptions()  # optimised, it rounds x to 8 bits
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    return session.run(None, {"x": x})[0], run_compiled(made, {"x": x}, tmp_path)["y"]


def tensor(name, kind, array):
    """A tensor of narrow integers."""
    return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())


def floats(name, array):
    return helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.reshape(-1).tolist())


FORMS = {"tensor": ((), {}), "channel": ((9,), {"axis": 1}), "block": ((4, 9), {"axis": 0})}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_weights_of_four_bits_are_dequantized(kind, form, tmp_path):
    shape, attrs = FORMS[form]
    low = -8 if kind == "INT4" else 0
    code = getattr(TensorProto, kind)
    numbers = RNG.integers(low, low + 16, (32, 9))
    weights = [
        tensor("q", code, numbers),
        floats("s", RNG.uniform(0.01, 0.2, shape)),
        tensor("z", code, RNG.integers(low, low + 16, shape)),
    ]
    block = {"block_size": 8} if form == "block" else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], **attrs, **block),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    expected, found = run_both(tmp_path, nodes, weights, RNG.standard_normal((3, 32), np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_narrow_zero_point_of_a_result_is_refused():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = [floats("s", np.float32(0.5)), tensor("z", TensorProto.INT4, np.array(1))]
    with pytest.raises(tvmrt.error.UnsupportedError, match="int4 is not supported"):
        tvmrt.compile(network(nodes, weights, [4]))


# ONNX Runtime knows no zero points that are floats beside weights of 8 bits
@pytest.mark.parametrize(
    ("bits", "points"),
    [(4, "middle"), (4, "packed"), (4, "floats"), (8, "middle"), (8, "packed")],
)
@pytest.mark.parametrize("columns", [64, 40], ids=["whole", "partial"])
def test_product_of_packed_weights(columns, bits, points, tmp_path):
    rows, block = 10, 16
    blocks = -(-columns // block)
    weights = [
        ("b", RNG.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)),
        ("s", RNG.uniform(0.01, 0.2, rows * blocks).astype(np.float32)),
    ]
    if points == "packed":
        packed = RNG.integers(0, 256, rows * -(-blocks * bits // 8)).astype(np.uint8)
        weights.append(("z", packed))
    elif points == "floats":
        weights.append(("z", RNG.uniform(0, 15, rows * blocks).astype(np.float32)))
    node = helper.make_node(
        "MatMulNBits",
        ["x", *(name for name, _ in weights)],
        ["y"],
        domain="com.microsoft",
        K=columns,
        N=rows,
        bits=bits,
        block_size=block,
    )
    tensors = [
        helper.make_tensor(
            name,
            TensorProto.UINT8 if array.dtype == np.uint8 else TensorProto.FLOAT,
            array.shape,
            array.tobytes(),
            raw=True,
        )
        for name, array in weights
    ]
    x = RNG.standard_normal((2, 3, columns), np.float32)
    expected, found = run_both(tmp_path, [node], tensors, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
