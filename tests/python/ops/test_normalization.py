"""Normalisation operators, compared with ONNX Runtime or the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from nn_case import case, check

RNG = np.random.default_rng(5)


def array(*shape):
    return RNG.uniform(-1, 2, shape).astype(np.float32)


def batch_case(id, *shape, **attrs):
    c = shape[1]
    inputs = [array(*shape), array(c), array(c), array(c), np.abs(array(c)) + 0.1]
    return case(id, "BatchNormalization", inputs, [1, 2, 3, 4], **attrs)


@pytest.mark.parametrize("opset", [9, 14, 15])
def test_batch_normalization(tmp_path, opset):
    cases = [
        batch_case("image", 2, 5, 4, 3),
        batch_case("sequence", 2, 5, 7, epsilon=1e-2),
        batch_case("volume", 1, 3, 2, 3, 4),
        batch_case("rows", 4, 6),
    ]
    computed = batch_case("computed parameters", 2, 5, 4, 3)
    computed.constants = ()
    check([*cases, computed], opset, tmp_path)


def test_batch_normalization_per_element(tmp_path):
    # opset 7, spatial = 0: separate statistics for every position
    x, scale, shift, mean = array(2, 3, 2, 2), *(array(3, 2, 2) for _ in range(3))
    variance = np.abs(array(3, 2, 2)) + 0.1
    wanted = (x - mean) / np.sqrt(variance + 1e-5) * scale + shift
    inputs = [x, scale, shift, mean, variance]
    each = case("spatial 0", "BatchNormalization", inputs, [1, 2, 3, 4], spatial=0, wanted=[wanted])
    check([each], 7, tmp_path)


def test_batch_normalization_training(tmp_path):
    each = batch_case("training", 3, 5, 4, 2, training_mode=1, momentum=0.8, outputs=3)
    check([each], 15, tmp_path, "reference")


def test_layer_normalization(tmp_path):
    def one(id, shape, axis=-1, **attrs):
        extents = shape[axis:]
        return case(
            id,
            "LayerNormalization",
            [array(*shape), array(*extents), array(*extents)],
            [1, 2],
            axis=axis,
            **attrs,
        )

    cases = [
        one("rows", (4, 37)),
        one("sequence", (2, 5, 64), outputs=3),
        one("two axes", (2, 3, 4, 5), -2, epsilon=1e-3),
        one("axis 1", (2, 3, 4), 1),
        case("no bias", "LayerNormalization", [array(3, 16), array(16)], [1]),
    ]
    check(cases, 17, tmp_path)


def test_rms_normalization(tmp_path):
    cases = [
        case("rows", "RMSNormalization", [array(4, 33), array(33)], [1]),
        case(
            "two axes", "RMSNormalization", [array(2, 3, 4, 5), array(4, 5)], axis=-2, epsilon=1e-2
        ),
    ]
    check(cases, 23, tmp_path, "reference")


def test_instance_normalization(tmp_path):
    cases = [
        case(f"{shape}", "InstanceNormalization", [array(*shape), array(shape[1]), array(shape[1])])
        for shape in ((2, 5, 7), (2, 5, 4, 3), (1, 17, 3, 4, 5))
    ]
    check(cases, 13, tmp_path)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(tmp_path, opset):
    def one(id, groups, *shape):
        size = groups if opset == 18 else shape[1]
        return case(
            id, "GroupNormalization", [array(*shape), array(size), array(size)], num_groups=groups
        )

    cases = [
        one("image", 3, 2, 6, 4, 5),
        one("one group", 1, 2, 6, 7),
        one("as many groups as channels", 4, 1, 4, 3, 3),
    ]
    check(cases, opset, tmp_path, "reference")


def test_small_ones(tmp_path):
    x = array(2, 7, 5, 4)
    zero = np.zeros((2, 3), np.float32)
    cases = [
        case("mvn", "MeanVarianceNormalization", [x]),
        case("mvn axes", "MeanVarianceNormalization", [x], axes=[1, -1]),
        case("lp 2", "LpNormalization", [x], axis=1),
        case("lp 1", "LpNormalization", [x], axis=-1, p=1),
        case("lp of zero", "LpNormalization", [zero], wanted=[zero]),
        case("lp of one element", "LpNormalization", [array(500)[:, None]], p=1, rtol=0, atol=0),
        case("lrn", "LRN", [x], size=5),
        case("lrn other power", "LRN", [x], size=3, alpha=0.3, beta=0.6, bias=2.0),
        case("lrn wide", "LRN", [array(1, 3, 2, 2)], size=7, alpha=0.5),
        case("lrn thin", "LRN", [array(1, 9, 6, 1)], size=3, alpha=0.5),
    ]
    check(cases, 13, tmp_path)


def test_softmax(tmp_path):
    # softmax after a convolution runs over innermost channels
    cases = [
        case(f"{op} {shape} {axis}", op, [array(*shape)], axis=axis)
        for op in ("Softmax", "LogSoftmax")
        for shape, axis in (
            ((3, 10), -1),
            ((2, 5, 40), 2),
            ((2, 5, 40), 1),
            ((2, 21, 5, 4), 1),
            ((2, 21, 5, 4), 2),
            ((7, 4), 0),
            ((1, 1, 3), 2),
        )
    ]
    check(cases, 13, tmp_path)
