"""Test int8 matmuls on the device dnnl: exact, or computed on the CPU."""

from __future__ import annotations

import needs
import numpy as np
import onnx
import pytest
from onnx_case import RNG, judge, network, region_ops, run
from quantised_case import quantised_layers, step_by_step

from tvmrt.compiler import processor

pytestmark = pytest.mark.usefixtures("dnnl")


def integer_product(op: str, kind: str) -> tuple[onnx.ModelProto, dict]:
    low, high = (0, 256) if kind == "uint8" else (-128, 128)
    zero = np.array(120 if kind == "uint8" else -3, kind)
    shape = (3, 40) if op == "matmul" else (1, 8, 9, 7)
    feeds = {"x": RNG.integers(low, high, shape).astype(kind)}
    w_shape = (40, 12) if op == "matmul" else (12, 4 if op == "grouped-conv" else 8, 3, 3)
    weights = {
        "xs": np.float32(0.02),
        "xz": zero,
        "w": RNG.integers(-128, 128, w_shape).astype(np.int8),
        "ws": np.float32(0.01) if op == "matmul" else np.linspace(0.005, 0.02, 12, dtype="f"),
        "wz": np.int8(0) if op == "matmul" else np.zeros(12, np.int8),
        "ys": np.float32(0.15),
        "yz": zero,
        "b": RNG.integers(-500, 500, 12).astype(np.int32),
    }
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    if op == "matmul":
        nodes = [("QLinearMatMul", names, "y", {})]
        del weights["b"]
    else:
        attrs = {"pads": [1, 1, 1, 1], "group": 2 if op == "grouped-conv" else 1}
        nodes = [("QLinearConv", [*names, "b"], "y", attrs)]
    weights = {k: np.asarray(v) for k, v in weights.items()}
    return network(nodes, feeds, weights, {"y": kind}), feeds


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["conv", "grouped-conv", "matmul"])
def test_integer_matmuls_are_exact(tmp_path, op, kind):
    needs.one_of("avx512_vnni", "avx_vnni", why="others overflow")
    model, feeds = integer_product(op, kind)
    library, (found,) = run(model, feeds, tmp_path, "dnnl")
    assert region_ops(library) == [["qmatmul" if op == "matmul" else "qconv"]]
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


@pytest.mark.parametrize(
    ("zero", "regions"), [(128, [["qconv"]]), (127, [])], ids=["in the middle", "next to it"]
)
def test_unsigned_weights_are_moved_to_signed_ones(tmp_path, zero, regions):
    needs.one_of("avx512_vnni", "avx_vnni", why="others overflow")
    feeds = {"x": RNG.integers(0, 256, (1, 8, 9, 7)).astype(np.uint8)}
    weights = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": RNG.integers(0, 256, (12, 8, 3, 3)).astype(np.uint8),
        "ws": np.float32(0.01),
        "wz": np.uint8(zero),
        "ys": np.float32(0.15),
        "yz": np.uint8(110),
    }
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    weights = {k: np.asarray(v) for k, v in weights.items()}
    model = network([("QLinearConv", names, "y", {})], feeds, weights, {"y": "uint8"})
    library, (found,) = run(model, feeds, tmp_path, "dnnl")
    assert region_ops(library) == regions
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


def test_integer_matmuls_that_may_overflow_stay_on_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "flags", lambda: frozenset({"avx2", "fma"}))
    model, feeds = integer_product("conv", "int8")
    library, (found,) = run(model, feeds, tmp_path, "dnnl")
    assert region_ops(library) == []
    (row,) = [row for row in library.summary.nodes if row.op_type == "QLinearConv"]
    assert "no exact int8 matmul" in row.reason
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("pads", [0, 1])
def test_quantised_layers_round_as_the_cpu_does(tmp_path, kind, pads):
    """Use a network in which many results are halfway between two steps."""
    needs.one_of("avx512_vnni", "avx_vnni", why="others overflow")
    model, feeds = quantised_layers(kind, pads, False)
    library, (found,) = run(model, feeds, tmp_path, "dnnl")
    assert region_ops(library) == [["qconv"]]
    np.testing.assert_array_equal(found, step_by_step(model, feeds))
