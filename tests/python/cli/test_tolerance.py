"""Tolerances for comparing results."""

from __future__ import annotations

import numpy as np
import pytest

from tvmrt.cli.tolerance import difference, judge

RIGHT = np.array([1.0, -2.0, 100.0, np.inf, np.nan], np.float32)


def _changed(position: int, value: float) -> np.ndarray:
    array = RIGHT.copy()
    array[position] = value
    return array


@pytest.mark.parametrize(
    ("actual", "right"),
    [
        pytest.param(RIGHT, True, id="same-with-infinity-and-nan"),
        pytest.param(_changed(2, 100.1), True, id="one-part-in-a-thousand"),
        pytest.param(_changed(0, 1.0109), True, id="within-the-floor-of-the-largest"),
        pytest.param(_changed(0, 1.012), False, id="beyond-the-floor"),
        pytest.param(_changed(3, 1e30), False, id="infinity-lost"),
        pytest.param(_changed(4, 0.0), False, id="nan-lost"),
        pytest.param(_changed(1, np.nan), False, id="nan-appears"),
        pytest.param(_changed(3, -np.inf), False, id="infinity-of-the-other-sign"),
    ],
)
def test_floats(actual, right):
    assert judge(actual, RIGHT).right is right


def test_noise_widens_the_floor():
    actual, right = np.array([1.02], np.float32), np.array([1.0], np.float32)
    assert not judge(actual, right).right
    assert judge(actual, right, noise=2e-3).right


@pytest.mark.parametrize(("steps", "right"), [(0, True), (1, True), (2, False)])
def test_dequantised_results_may_differ_by_one_step(steps, right):
    step = np.float32(0.0025367276)
    numbers = np.arange(-134, 122).astype(np.float32)
    assert judge((numbers + steps) * step, numbers * step, step=float(step)).right is right


@pytest.mark.parametrize(("steps", "right"), [(0, True), (1, True), (2, False), (255, False)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_int8_results_may_differ_by_one_step(dtype, steps, right):
    low = np.iinfo(dtype).min
    verdict = judge(np.array([low + steps], dtype), np.array([low], dtype))
    assert (verdict.error, verdict.right) == (steps, right)


@pytest.mark.parametrize(("wrong", "right"), [(0, True), (1, True), (2, False)])
def test_one_in_a_thousand_other_integers_may_differ(wrong, right):
    expected = np.arange(1000)
    actual = expected.copy()
    actual[:wrong] += 7
    assert judge(actual, expected).right is right


def test_booleans_count_as_integers():
    assert not judge(np.array([True, False]), np.array([True, True])).right


@pytest.mark.parametrize(
    ("actual", "problem"),
    [
        pytest.param(np.zeros((2, 1), np.float32), "shape (2, 1), not (1, 2)", id="shape"),
        pytest.param(np.zeros((1, 2), np.float64), "type float64, not float32", id="type"),
    ],
)
def test_other_shape_or_type_is_wrong(actual, problem):
    verdict = judge(actual, np.zeros((1, 2), np.float32))
    assert (verdict.right, verdict.problem) == (False, problem)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, np.bool_])
def test_scalars_are_compared_like_arrays(dtype):
    assert judge(np.array(1, dtype), np.array(1, dtype)).right
    off = np.array(3, dtype) if dtype is np.int8 else np.array(0, dtype)
    assert not judge(off, np.array(1, dtype)).right


def test_empty_results_are_right():
    assert judge(np.zeros((0, 3)), np.zeros((0, 3))).right
    assert difference(np.zeros(0), np.zeros(0)) == 0.0
