"""Sums of 8-bit tensors on boards by integer multiplications: constants and generated code."""

from __future__ import annotations

from functools import partial

import boards
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler.codegen.loops.fixed_point_add import find_fixed_point_add


def side(scale, zero, low=-128, high=127):
    return {"scale": float(np.float32(scale)), "zero": zero, "low": low, "high": high}


def float_sums(own, other, result, q, b):
    """Return QuantizeLinear of the sum of two DequantizeLinear."""
    floats = [
        np.float32(s["scale"]) * (v - s["zero"]).astype(np.float32)
        for s, v in ((own, q), (other, b))
    ]
    steps = np.rint((floats[0] + floats[1]) / np.float32(result["scale"])) + result["zero"]
    return np.clip(steps, result["low"], result["high"]).astype(np.int64)


def find(own, other, result):
    return find_fixed_point_add(own, other, result, partial(float_sums, own, other, result))


@pytest.mark.parametrize(
    ("own", "other", "result"),
    [
        (side(0.1042, 4), side(0.0394, -128), side(0.0509, -128)),
        (side(0.0447614, -17), side(0.1131188, 4), side(0.0532362, -128, -128, 100)),
        (side(0.0839, 38, 0, 255), side(0.2172, 130, 0, 255), side(0.1271, 7, 0, 255)),
        (side(0.05, 3, -100, 90), side(0.02, 200, 0, 255), side(0.051, 1)),
        pytest.param(  # the sums are small, their constant term is not
            side(0.4, 127, 107, 127),
            side(0.024, -100),
            side(0.997, 0, -8, 8),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_fixed_point_add_matches_float_for_all_pairs(own, other, result):
    found = find(own, other, result)
    q, b = np.meshgrid(*(np.arange(s["low"], s["high"] + 1) for s in (own, other)), indexing="ij")
    wanted = float_sums(own, other, result, q, b)
    parts = [np.int64(q) * found.own, np.int64(b) * found.other]
    total = parts[0] + parts[1] + found.add
    assert max(np.abs(parts[0] + found.add).max(), np.abs(total).max()) < 1 << 31
    assert abs(found.add) < 1 << 31
    got = np.clip(total >> found.shift, result["low"], result["high"])
    np.testing.assert_array_equal(got, wanted)


def test_unrepresentable_scales_fall_back_to_float():
    # ties, which floats round to even
    assert find(side(0.5, 0), side(1.0, 0), side(1.0, 0)) is None
    assert find(side(1e6, 0), side(1.0, 0), side(1e-3, 0)) is None
    for scales in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (np.inf, 1, 1), (1, 1, np.nan)):
        assert find(*(side(scale, 0) for scale in scales)) is None


def network(kind, is_residual):
    """Return y = conv(x) + x in (u)int8 with nine channels: blocks of four have a tail. Unless
    ``is_residual``, the convolution's result is an output, too, so that the add is a step."""
    rng = np.random.default_rng(7)
    dtype = np.int8 if kind == "int8" else np.uint8
    zero = 3 if kind == "int8" else 120

    def constant(name, value):
        return numpy_helper.from_array(np.asarray(value), name)

    weights = rng.integers(-127, 128, (9, 9, 3, 3)).astype(np.int8)
    constants = [
        constant("xs", np.float32(0.051)), constant("xz", dtype(zero)),
        constant("w", weights), constant("ws", rng.uniform(3e-3, 9e-3, 9).astype(np.float32)),
        constant("wz", np.zeros(9, np.int8)),
        constant("ys", np.float32(0.173)), constant("yz", dtype(zero + 5)),
        constant("zs", np.float32(0.119)), constant("zz", dtype(zero - 2)),
        constant("b", rng.integers(-900, 900, 9).astype(np.int32)),
    ]  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["c"],
             kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("DequantizeLinear", ["c", "ys", "yz"], ["cf"]),
        node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        node("Add", ["cf", "xf"], ["s"]),
        node("QuantizeLinear", ["s", "zs", "zz"], ["y"]),
    ]  # fmt: skip
    type_ = TensorProto.INT8 if kind == "int8" else TensorProto.UINT8
    values = [helper.make_tensor_value_info(n, type_, [1, 9, 6, 5]) for n in ("x", "y", "c")]
    outputs = values[1:2] if is_residual else values[1:]
    graph = helper.make_graph(nodes, "sum", values[:1], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return model, rng.integers(low, high + 1, (1, 9, 6, 5)).astype(dtype)


def compare(board, model, x, folder):
    """Compare outputs on a board with onnxruntime's; return the generated C."""
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    library = tvmrt.compile(model, target=board.target, interface_api="c", unpacked_api=True)
    outcome = boards.run_network(board, library, {"x": x}, folder)
    for name, expected in zip((value.name for value in model.graph.output), wanted):
        np.testing.assert_array_equal(outcome.outputs[name], expected)
    return "\n".join(library.sources.files.values())


@pytest.mark.everyday(3)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus", "riscv32", "rv32imac_zve32x"])
def test_boards_match_onnxruntime(kind, target, tmp_path):
    text = compare(boards.BOARDS[target], *network(kind, True), tmp_path)
    name = "tvmrt_micro_residual_full_range_rows" if kind == "int8" else "tvmrt_micro_residual_rows"
    floats = kind == "uint8" and target == "cortex-m4"  # if they are smaller
    assert (f"epilogue = {name}," in text) != floats


@pytest.mark.everyday(1)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m4", "cortex-m0plus", "riscv32"])
def test_add_alone_takes_integers(kind, target, tmp_path):
    text = compare(boards.BOARDS[target], *network(kind, False), tmp_path)
    assert "tvmrt_fixed_add(" in text and "tvmrt_add_i8" not in text
