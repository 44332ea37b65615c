"""Non-default attributes and boundary values, which a device may handle incorrectly while being
correct for ordinary numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import helper

from .case import Case
from .case_factory import CaseFactory


def variant_cases() -> Iterator[Case]:
    """Yield all cases; the numbers are reproducible."""
    make = CaseFactory(seed=22)
    for group in (_elements, _windows, _rows, _moves, _integers):
        yield from group(make)


def _elements(make: CaseFactory) -> Iterator[Case]:
    x = [make.normal(2, 19)]
    yield make.single("LeakyRelu", "another slope", x, alpha=0.3)
    yield make.single("Elu", "another factor", x, alpha=0.5)
    yield make.single("Selu", "other factors", x, alpha=1.5, gamma=1.25)
    yield make.single("HardSigmoid", "another line", x, alpha=0.125, beta=0.375)
    bound = [np.float32(-0.25)]
    yield make.single("Clip", "from below", x, bound)
    above = helper.make_node("Clip", ["x0", "", "w0"], ["y"], name="n")
    yield Case("Clip: from above", [above], {"x0": x[0]}, {"w0": bound[0]})
    for op in ("Sigmoid", "Tanh", "Softplus", "Softsign", "Erf"):
        yield make.single(op, "large numbers", [60 * make.normal(3, 11)])
    halves = (np.arange(-9, 10) / 2).astype(np.float32)
    for op in ("Round", "Floor", "Ceil"):
        yield make.single(op, "halves", [halves])
    equal = make.normal(4, 6)
    near = np.where(np.arange(6) % 3 == 0, equal, equal + make.normal(4, 6)).astype(np.float32)
    for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        yield make.single(op, "equal elements", [equal, near])
    odd = np.array([np.nan, np.inf, -np.inf, 1, 0, -2], np.float32)
    yield make.single("Mul", "NaN times 0", [odd, np.zeros(6, np.float32)])


def _windows(make: CaseFactory) -> Iterator[Case]:
    image, kernel = [make.normal(1, 3, 13, 12)], [make.normal(4, 3, 3, 3), make.normal(4)]
    yield make.single("Conv", "dilations that differ", image, kernel, dilations=[1, 3])
    weights = [make.normal(5, 3, 7, 7), make.normal(5)]
    yield make.single("Conv", "7x7", image, weights, pads=[3, 3, 3, 3])
    weights = [make.normal(4, 3, 2, 4), make.normal(4)]
    yield make.single("Conv", "2x4", image, weights, pads=[0, 2, 1, 1], strides=[2, 1])
    up = [make.normal(1, 4, 5, 6)]
    weights = [make.normal(4, 2, 3, 3), make.normal(4)]
    yield make.single("ConvTranspose", "groups", up, weights, group=2, strides=[2, 1])
    weights = [make.normal(4, 3, 3, 2), make.normal(3)]
    yield make.single("ConvTranspose", "pads that differ", up, weights, pads=[0, 1, 1, 0])
    below = [-make.positive(1, 3, 9, 8)]
    for op in ("MaxPool", "AveragePool"):
        padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        yield make.single(op, "below 0, padded", below, **padded)
        differ = {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [0, 1, 2, 0]}
        yield make.single(op, "3x2", below, **differ)
    yield make.single("GlobalMaxPool", "below 0", below)


def _rows(make: CaseFactory) -> Iterator[Case]:
    weights = [make.normal(8, 5), make.normal(5)]
    yield make.single("Gemm", "a scaled bias", [make.normal(3, 8)], weights, beta=0.5)
    yield make.single("Gemm", "a transposed input", [make.normal(8, 3)], weights, transA=1)
    broadcast = [make.normal(2, 1, 3, 4), make.normal(5, 4, 6)]
    yield make.single("MatMul", "batches that broadcast", broadcast)
    for op in ("Softmax", "LogSoftmax"):
        yield make.single(op, "large numbers", [80 * make.normal(3, 7)], axis=-1)
        yield make.single(op, "first axis", [make.normal(5, 4)], axis=0)
    scale, shift = make.positive(8), make.normal(8)
    rows, image = [make.normal(3, 8)], [make.normal(2, 8, 3, 3)]
    yield make.single("LayerNormalization", "epsilon", rows, [scale, shift], epsilon=0.5)
    yield make.single("InstanceNormalization", "epsilon", image, [scale, shift], epsilon=0.5)
    constants = [scale, shift, make.normal(8), make.positive(8)]
    yield make.single("BatchNormalization", "epsilon", image, constants, epsilon=0.5)
    for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"):
        yield make.single(op, "below 0", [-make.positive(4, 3, 5)], axes=[0], keepdims=0)
    ties = [np.array([[1, 3, 3, 2], [0, 0, 0, 0], [-2, -1, -1, -3]], np.float32)]
    yield make.single("ArgMax", "equal elements", ties, axis=1, keepdims=0)
    yield make.single("ArgMax", "first axis", [make.normal(5, 4)], axis=0)


def _moves(make: CaseFactory) -> Iterator[Case]:
    x, image = [make.normal(2, 3, 4)], [make.normal(2, 3, 4, 5)]
    yield make.single("Transpose", "round", x, perm=[1, 2, 0])
    yield make.single("Transpose", "channels last", image, perm=[0, 2, 3, 1])
    more = [make.normal(1, 3, 4), make.normal(3, 3, 4)]
    yield make.single("Concat", "three, first axis", [*x, *more], axis=0)
    yield make.single("Concat", "last axis", [*x, make.normal(2, 3, 2)], axis=-1)
    ends = [np.array(v, np.int64) for v in ([0, 3], [3, -5], [1, 2], [2, -1])]
    yield make.single("Slice", "steps", x, ends)
    pads = [np.array([0, 1, 0, 0, 0, 2], np.int64), np.float32(1.5)]
    yield make.single("Pad", "a number", x, pads)
    yield make.single("Gather", "columns", x, [np.array([[2, 0], [1, 1]], np.int64)], axis=1)


def _integers(make: CaseFactory) -> Iterator[Case]:
    """Scales are powers of two, so that only one result is correct."""
    ties = (np.arange(-40, 40) / 16).astype(np.float32).reshape(8, 10)
    parts = [np.float32(1 / 8), np.int8(3)]
    beyond = np.array([[-100, 100, -16.5, 15.4375, 1e9, -1e9]], np.float32)
    for how, x in (("halves", ties), ("saturated", beyond)):
        case = make.single("QuantizeLinear", how, [x], parts)
        case.exact = True
        yield case
    scales = np.array([0.5, 0.25, 2], np.float32), np.array([3, -2, 0], np.int8)
    x = np.arange(-60, 60, 5, dtype=np.int8).reshape(2, 3, 4)
    yield make.single("DequantizeLinear", "a scale a channel", [x], scales, axis=1)
