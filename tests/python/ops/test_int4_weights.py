"""2-bit and 4-bit weights, by DequantizeLinear and by ONNX Runtime's MatMulNBits."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from nn_case import run_compiled
from onnx import TensorProto, helper

import tvmrt
from tvmrt.cli.session import Session

RNG = np.random.default_rng(11)


def network(nodes, weights, shape) -> onnx.ModelProto:
    """Return a network of float32 x and y."""
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
    """Return the results of ONNX Runtime and of the compiled network for x."""
    made = network(nodes, weights, x.shape)
    options = onnxruntime.SessionOptions()  # optimised, it rounds x to 8 bits
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    return session.run(None, {"x": x})[0], run_compiled(made, {"x": x}, tmp_path)["y"]


def tensor(name, kind, array):
    """Return a tensor of sub-byte integers."""
    return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())


def floats(name, array):
    return helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.reshape(-1).tolist())


FORMS = {"tensor": ((), {}), "channel": ((9,), {"axis": 1}), "block": ((4, 9), {"axis": 0})}


@pytest.mark.everyday(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_int4_weights_are_dequantized(kind, form, tmp_path):
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


def test_int4_quantize_between_floats(tmp_path):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = [floats("s", np.float32(0.5)), tensor("z", TensorProto.INT4, np.array(1))]
    x = np.linspace(-6, 6, 97, dtype=np.float32)
    expected, found = run_both(tmp_path, nodes, weights, x)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) == 16


@pytest.mark.parametrize("form", FORMS)
def test_int4_weights_stay_packed(form, tmp_path):
    shape, attrs = FORMS[form]
    rows, columns = 512, 256
    shape = tuple({9: columns, 4: rows // 32}[n] for n in shape)
    numbers = RNG.integers(-8, 8, (rows, columns))
    weights = [
        tensor("q", TensorProto.INT4, numbers),
        floats("s", RNG.uniform(0.01, 0.2, shape)),
        tensor("z", TensorProto.INT4, RNG.integers(-8, 8, shape)),
    ]
    block = {"block_size": 32} if form == "block" else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], **attrs, **block),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    x = RNG.standard_normal((3, rows), np.float32)
    expected, found = run_both(tmp_path, nodes, weights, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    stored = tvmrt.compile(network(nodes, weights, x.shape)).summary.weights_bytes
    parameters = 5 * np.prod(shape, dtype=int)
    assert rows * columns // 2 <= stored <= rows * columns // 2 + parameters + 256


# ONNX Runtime does not support float zero points for 8-bit weights
@pytest.mark.everyday(1)
@pytest.mark.parametrize(
    ("bits", "points"),
    [(4, "middle"), (4, "packed"), (4, "floats"), (8, "middle"), (8, "packed")],
)
@pytest.mark.parametrize("columns", [64, 40], ids=["whole", "partial"])
def test_matmul_nbits(columns, bits, points, tmp_path):
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


def test_matmul_nbits_with_any_number_of_rows(tmp_path):
    """Few and many rows use different kernels; threads partition the columns."""
    depth, columns, block = 72, 200, 32
    blocks = -(-depth // block)
    numbers = RNG.integers(0, 16, (columns, blocks * block)).astype(np.uint8)
    scales = RNG.uniform(0.01, 0.2, (columns, blocks)).astype(np.float32)
    weights = [
        helper.make_tensor("b", TensorProto.UINT8, (columns, blocks, block // 2),
                           (numbers[:, ::2] | numbers[:, 1::2] << 4).tobytes(), raw=True),
        floats("s", scales.reshape(-1)),
    ]  # fmt: skip
    attrs = {"K": depth, "N": columns, "bits": 4, "block_size": block, "domain": "com.microsoft"}
    made = network([helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], **attrs)], weights,
                   ["N", depth])  # fmt: skip
    path = tmp_path / "rows.so"
    tvmrt.compile(made, executor="aot", dims={"N": (1, 90)}).export_library(str(path))
    real = (numbers.astype(np.float64) - 8) * np.repeat(scales, block, axis=1)
    for threads in (1, 2):
        session = Session(path, threads)
        for rows in (1, 7, 16, 61, 90):
            x = RNG.standard_normal((rows, depth), np.float32)
            (y,) = session.run({"x": x}).values()
            np.testing.assert_allclose(y, x @ real[:, :depth].T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 3])
def test_int4_convolution(groups, tmp_path):
    numbers = RNG.integers(-8, 8, (24, 12 // groups, 3, 3))
    weights = [
        tensor("q", TensorProto.INT4, numbers),
        floats("s", RNG.uniform(0.01, 0.2, 24)),
        floats("b", RNG.standard_normal(24)),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0),
        helper.make_node("Conv", ["x", "w", "b"], ["y"], group=groups, pads=[1, 1, 1, 1]),
    ]
    x = RNG.standard_normal((1, 12, 9, 9), np.float32)
    expected, found = run_both(tmp_path, nodes, weights, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    stored = tvmrt.compile(network(nodes, weights, x.shape)).summary.weights_bytes
    assert numbers.size // 2 <= stored <= numbers.size // 2 + 8 * 24 + 256


@pytest.mark.slow
@pytest.mark.parametrize("op", ["MatMul", "Conv"])
def test_integer_matmul_reads_int8(op, tmp_path):
    """With quantised activations, weights are unpacked at compile time."""
    shape = (16, 24) if op == "MatMul" else (24, 16, 1, 1)
    numbers = RNG.integers(-8, 8, shape)
    weights = [
        tensor("q", TensorProto.INT4, numbers),
        floats("s", RNG.uniform(0.01, 0.2, 24)),
        floats("t", np.float32(0.05)),
        tensor("z", TensorProto.INT8, np.array(3)),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "t", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "t", "z"], ["xf"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=int(op == "MatMul")),
        helper.make_node(op, ["xf", "w"], ["y"]),
    ]
    x = RNG.standard_normal((5, 16) if op == "MatMul" else (1, 16, 5, 5), np.float32)
    expected, found = run_both(tmp_path, nodes, weights, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    made = tvmrt.compile(network(nodes, weights, x.shape))
    assert any(n.op in ("qmatmul", "qconv") for s in made.program.steps for n in s.group.nodes)
