"""Float64 operators: computed in float64 precision or rejected, never in less precision."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from harness import Batch, Part
from harness import case as any_case
from nn_case import build_model

import tvmrt

I64 = np.int64


def f64(*shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape)


def case(id, op, arrays, constants=(), **attrs):
    """Check a case to float64 precision, which no float32 kernel reaches."""
    return any_case(id, op, arrays, constants, rtol=1e-11, atol=1e-12, **attrs)


X = f64(3, 7)
ERF = np.vectorize(math.erf)

BATCH = Batch(
    20,
    [
        case("last", "Softmax", [f64(3, 7)]),
        case("middle", "Softmax", [f64(3, 7, 4)], axis=1),
        case("large", "Softmax", [f64(3, 7, low=-2000, high=2000)]),
        case("last", "LogSoftmax", [f64(3, 7)]),
        case("first", "LogSoftmax", [f64(3, 7, 4)], axis=0),
        case("last", "Hardmax", [f64(3, 7)]),
        case("matrix", "Gemm", [f64(5, 7), f64(7, 9), f64(9)], [1, 2]),
        case("stack", "MatMul", [f64(2, 5, 7), f64(7, 9)]),
        case("product", "Einsum", [f64(3, 4), f64(4, 5)], equation="ij,jk->ik"),
        case("image", "GlobalAveragePool", [f64(1, 3, 8, 9)]),
        case("image", "MaxPool", [f64(1, 3, 8, 9)], kernel_shape=[2, 2]),
        case("rows", "LayerNormalization", [f64(3, 7), f64(7), f64(7)], [1, 2], epsilon=1e-3),
        case("image", "InstanceNormalization", [f64(1, 3, 4, 5), f64(3), f64(3)], [1, 2]),
        case("rows", "LpNormalization", [f64(3, 7)]),
        case("all", "ReduceMean", [f64(3, 7)]),
        case("all", "ReduceL2", [f64(3, 7)]),
        case("all", "ReduceLogSumExp", [f64(3, 7)]),
        case("rows", "CumSum", [f64(3, 7), np.array(1)], [1]),
        case("two", "TopK", [f64(3, 7), np.array([2], I64)], [1], outputs=2),
        case("rows", "ArgMax", [f64(3, 7)]),
        *(case("plain", op, [f64(3, 7)]) for op in ("Tanh", "Exp", "Sqrt", "Sigmoid", "Softplus")),
        # the reference evaluator rounds these to float32
        case("plain", "Erf", [X], wanted=[ERF(X)]),
        case("plain", "Gelu", [X], wanted=[X / 2 * (1 + ERF(X / np.sqrt(2)))]),
        # attributes and their defaults have 32 bits
        *(case("default", op, [X]) for op in ("HardSwish", "HardSigmoid", "LeakyRelu")),
        case("plain", "Div", [f64(3, 7), f64(7, low=1)]),
        case("fractions", "Mod", [f64(3, 7), f64(7, low=1)], fmod=1),
        case("rows", "PRelu", [f64(3, 7), f64(7)], [1]),
        case("frame", "Pad", [f64(3, 7), np.array([1, 0, 2, 1], I64)], [1]),
        case("matrices", "Det", [f64(2, 3, 3)]),
    ],
    evaluator="reference",
)


@pytest.mark.parametrize("part", list(BATCH))
def test_result_has_double_precision(part: Part):
    part.check()


REFUSED = [
    case("image", "Conv", [f64(1, 3, 8, 9), f64(4, 3, 3, 3)], [1]),
    case("image", "ConvTranspose", [f64(1, 3, 8, 9), f64(3, 4, 3, 3)], [1]),
    case("image", "AveragePool", [f64(1, 3, 8, 9)], kernel_shape=[2, 2]),
    case("image", "LpPool", [f64(1, 3, 8, 9)], kernel_shape=[2, 2]),
    case("image", "LRN", [f64(1, 5, 4, 4)], size=3),
    case("image", "GridSample", [f64(1, 2, 4, 5), f64(1, 3, 3, 2)]),
    case("steps", "LSTM", [f64(4, 2, 3), f64(1, 20, 3), f64(1, 20, 5)], [1, 2], hidden_size=5),
    case("steps", "GRU", [f64(4, 2, 3), f64(1, 15, 3), f64(1, 15, 5)], [1, 2], hidden_size=5),
    case("steps", "RNN", [f64(4, 2, 3), f64(1, 5, 3), f64(1, 5, 5)], [1, 2], hidden_size=5),
]


@pytest.mark.parametrize("each", REFUSED, ids=lambda each: each.op)
def test_operator_without_a_kernel_is_refused(each):
    network, _ = build_model([each], 20)
    with pytest.raises(
        tvmrt.error.UnsupportedError, match="float64 elements; only float32 has a kernel"
    ):
        tvmrt.compile(network)


@pytest.mark.parametrize("precision", [onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE])
def test_attention_with_its_own_precision(precision):
    shapes = ((2, 4, 4, 8), (2, 2, 6, 8), (2, 2, 6, 6))
    arrays = [f64(*shape).astype(np.float32) for shape in shapes]
    mask = np.random.default_rng(3).random((2, 4, 4, 6)) < 0.7
    batch = Batch(
        25,
        [
            any_case("masked", "Attention", [*arrays, mask], atol=1e-6, **attrs)
            for attrs in ({}, {"is_causal": 1, "left_window_size": 2, "softcap": 2.0})
            for attrs in [{**attrs, "softmax_precision": int(precision)}]
        ],
        evaluator="reference",
    )
    for part in batch:
        part.values[0].check()
