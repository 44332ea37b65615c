"""Operands that kernels cannot read where they lie: constants in the first place, constants that
only the passes of the compiler make, and one tensor as two operands."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from harness import Batch, case
from nn_case import run_compiled
from onnx import parser

RNG = np.random.default_rng(4)


def _f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


GRID = RNG.uniform(-1, 1, (1, 3, 4, 2)).astype(np.float32)
LENGTHS = np.array([2, 3], np.int32)
BATCH = Batch(
    17,
    [
        case("rows", "LayerNormalization", [_f(3, 4), _f(4), _f(4)], constants=[0], axis=1),
        case("images", "InstanceNormalization", [_f(2, 3, 4, 4), _f(3), _f(3)], constants=[0]),
        case("table", "Gather", [_f(5, 4), np.array([3, 1])], constants=[0]),
        case("elements", "GatherElements", [_f(2, 2), np.array([[0, 1]])], constants=[0]),
        case("tuples", "GatherND", [_f(3, 2), np.array([[2], [0]])], constants=[0]),
        case("places", "ScatterElements", [_f(4), np.array([2]), _f(1)], constants=[0]),
        case("lengths", "ReverseSequence", [_f(3, 2, 2), LENGTHS.astype(np.int64)], constants=[0]),
        case("pixels", "GridSample", [_f(1, 2, 5, 5), GRID], constants=[0]),
        case("left", "MatMul", [_f(3, 4), _f(4, 2)], constants=[0]),
        case(
            "steps", "LSTM", [_f(3, 2, 4), _f(1, 8, 4), _f(1, 8, 2), None, LENGTHS],
            constants=[0, 1, 2], hidden_size=2, outputs=3,
        ),
    ],
)  # fmt: skip


@pytest.mark.parametrize("part", BATCH)
def test_constant_first_operand(part):
    part.check()


def test_operands_of_8_bits(tmp_path):
    batch = [case("c", "QLinearAdd", _bytes(), constants=[0, 1, 2, 4, 5, 6, 7],
                  domain="com.microsoft")]  # fmt: skip
    for part in (each.values[0] for each in Batch(17, batch)):
        part.check()


def _bytes() -> list[np.ndarray]:
    one = np.array([[-5, 7, 100]], np.int8)
    scale, zero = np.array(0.5, np.float32), np.array(3, np.int8)
    return [one, scale, zero, one.T.copy(), scale, zero, scale, zero]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        pytest.param("y = CumSum(d, a)", [8, 20], id="cumulated"),
        pytest.param("y = ArgMax<axis=0, keepdims=0>(d)", 1, id="largest"),
        pytest.param("y, z = TopK(d, k)", [12], id="first"),
    ],
)
def test_operands_computed_by_the_compiler(tmp_path, text, right):
    """The extents of x, 2 and 3, four times."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (int64 y)'
        "<int64[1] f = {4}, int64 a = {0}, int64[1] k = {1}>"
        f"{{ s = Shape(x) d = Mul(s, f) {text} }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    found = run_compiled(model, {"x": _f(2, 3)}, tmp_path)
    np.testing.assert_array_equal(found["y"], right)


def test_one_tensor_as_two_operands(tmp_path):
    """One of them is wanted with its channels innermost, the other as it is."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,4,4,2] x) => (float[1,4,4,4] y)'
        "{ y = GridSample(x, x) }"
    )
    feeds = {"x": RNG.uniform(-1, 1, (1, 4, 4, 2)).astype(np.float32)}
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    found = run_compiled(model, feeds, tmp_path)
    np.testing.assert_allclose(found["y"], right, rtol=1e-5, atol=1e-6)
