"""Products of 8-bit integers on the device dnnl: exact, or left to the CPU."""

from __future__ import annotations

import needs
import numpy as np
import onnx
import pytest
from dnnl_case import RNG, judge, network, region_ops, run
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
def test_integer_products_are_exact(tmp_path, op, kind):
    needs.one_of("avx512_vnni", "avx_vnni", why="others overflow")
    model, feeds = integer_product(op, kind)
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == [["qmatmul" if op == "matmul" else "qconv"]]
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


@pytest.mark.parametrize(
    ("zero", "regions"), [(128, [["qconv"]]), (127, [])], ids=["in the middle", "beside it"]
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
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == regions
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


def test_integer_products_stay_on_the_cpu_where_they_overflow(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "flags", lambda: frozenset({"avx2", "fma"}))
    model, feeds = integer_product("conv", "int8")
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == []
    (row,) = [row for row in library.summary.nodes if row.op_type == "QLinearConv"]
    assert "no exact products of bytes" in row.reason
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("pads", "whole"), [(0, False), (1, False), (0, True)], ids=["window", "pads", "image"]
)
def test_quantised_layers_are_one_region_and_exact(tmp_path, kind, pads, whole):
    needs.one_of("avx512_vnni", "avx_vnni", why="others overflow")
    model, feeds = quantised_layers(kind, pads, whole)
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == [["quantize", "qconv", "qadd", "qavg_pool", "dequantize"]]
    np.testing.assert_array_equal(found, step_by_step(model, feeds))


def rectified(kind: str, low: float, function: str) -> tuple[onnx.ModelProto, dict]:
    """A convolution of bytes, a function between two scales, a product."""
    z = lambda n: np.array(n if kind == "int8" else n + 128, kind)  # noqa: E731
    weights = {
        "s": np.float32(0.05), "t": np.float32(0.031), "xz": z(-7), "yz": z(low),
        "w": RNG.integers(-99, 99, (6, 5, 3, 3)).astype(np.int8), "ws": np.float32(0.004),
        "wz": np.int8(0),
    }  # fmt: skip
    nodes = [
        ("DequantizeLinear", ["x", "s", "xz"], "a", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "b", {}),
        ("Conv", ["a", "b"], "c", {}),
        ("QuantizeLinear", ["c", "s", "xz"], "d", {}),
        ("DequantizeLinear", ["d", "s", "xz"], "e", {}),
        ("MaxPool", ["e"], "m", {"kernel_shape": [2, 2]}),
        (function, ["m"], "f", {}),
        ("QuantizeLinear", ["f", "t", "yz"], "y", {}),
    ]
    span = (-128, 128) if kind == "int8" else (0, 256)
    feeds = {"x": RNG.integers(*span, (1, 5, 7, 6)).astype(kind)}
    return network(nodes, feeds, weights, {"y": kind}), feeds


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("zero", [-128, -20], ids=["bound", "rectifier"])
def test_a_table_that_is_a_line_stays_in_the_region(tmp_path, kind, zero):
    model, feeds = rectified(kind, zero, "Relu")
    library, (found,) = run(model, feeds, tmp_path)
    (ops,) = region_ops(library)
    assert "quantize" in ops
    assert "table" not in ops
    (golden,) = judge(model, feeds)
    assert np.ptp(golden.astype(int)) > 60
    np.testing.assert_array_equal(found, golden)


def test_a_table_of_another_function_is_the_cpus(tmp_path):
    model, feeds = rectified("int8", -128, "Sigmoid")
    library, _ = run(model, feeds, tmp_path)
    assert {r.reason for r in library.summary.nodes if r.op_type == "Sigmoid"} == {
        "dnnl: oneDNN has no tables, and this one is no line between two scales"
    }
