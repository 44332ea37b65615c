"""Random networks of ./run fuzz: which results count as errors, and reproducible reports."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fuzz"))

import comparison
from mutate import mutant
from small_network import small_network


def _f(*values: float) -> list[np.ndarray]:
    return [np.array(values, np.float32)]


def _i(*values: int) -> list[np.ndarray]:
    return [np.array(values, np.int8)]


@pytest.mark.parametrize(
    ("got", "want", "shaken"),
    [
        pytest.param(_f(1, 2), _f(1, 2), [], id="equal"),
        pytest.param(_f(1.0001, 1000), _f(1, 1000), [], id="relative-to-the-largest"),
        pytest.param(_f(1, np.inf), _f(1, np.inf), [], id="infinite"),
        pytest.param(_f(0), _f(np.nan), [], id="reference-nan"),
        pytest.param(_f(-np.inf), _f(np.finfo("f4").min), [], id="masked"),
        pytest.param([np.array([3])], [np.array([1])], [[np.array([4])]], id="tie"),
        pytest.param(_i(7), _i(8), [_i(7)], id="rounding"),
    ],
)  # fmt: skip
def test_right(got, want, shaken):
    assert comparison.differences(got, want, shaken, "float32") == []


@pytest.mark.parametrize(
    ("got", "want", "shaken", "word"),
    [
        pytest.param(_f(1.01), _f(1), [_f(1)], "1.01 instead of 1.0", id="off"),
        pytest.param(_f(np.nan), _f(1), [_f(1)], "nan instead of 1.0", id="nan"),
        pytest.param(_f(3e38), _f(np.inf), [_f(np.inf)], "instead of inf", id="finite"),
        pytest.param(_f(np.inf), _f(-np.inf), [_f(-np.inf)], "inf instead of -inf", id="sign"),
        pytest.param([np.array([9])], [np.array([1])], [[np.array([4])]], "9 instead", id="no-tie"),
        pytest.param(_f(1, 2), _f(1), [], "[2] instead of float32[1]", id="shape"),
        pytest.param([np.zeros(1)], _f(0), [], "float64[1] instead of float32[1]", id="type"),
        pytest.param([], _f(0), [], "0 outputs instead of 1", id="count"),
    ],
)
def test_wrong(got, want, shaken, word):
    assert word in str(comparison.differences(got, want, shaken, "float32")[0])


@pytest.mark.parametrize(
    ("got", "want", "wrong"),
    [
        pytest.param(_i(127, 0, 5), _i(-4, 3, 5), 0, id="bounds-and-nan"),
        pytest.param(_i(126, 5), _i(-4, 5), 1, id="no-bound"),
    ],
)
def test_casts_beyond_the_type_are_open(got, want, wrong):
    assert len(comparison.differences(got, want, [], "float32", bounded=True)) == wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [("y = Cast <to = 3> (x)", True), ("h = Cast <to = 3> (x) y = Add (h, h)", False)],
    ids=["alone", "among-others"],
)
def test_only_an_unfused_cast_is_bounded(text, expected):
    head = '<ir_version: 8, opset_import: ["": 18]> g (float[1] x) => (int8[1] y)'
    assert comparison.is_bounded(onnx.parser.parse_model(f"{head}{{ {text} }}")) == expected


@pytest.mark.parametrize(
    ("got", "want", "wrong"),
    [
        pytest.param(np.ones((2, 1, 4)), np.ones((2, 0, 4)), 0, id="empty-axis"),
        pytest.param(np.ones((2, 1, 4)), np.ones((2, 3, 4)), 1, id="another-shape"),
        pytest.param(np.ones((2, 1), np.float32), np.ones((2, 0)), 1, id="another-type"),
    ],
)
def test_axes_of_nothing_are_folded_to_one_element(got, want, wrong):
    assert len(comparison.differences([got], [want], [], "float32", folding=True)) == wrong


def test_mutant_is_determined_by_its_seed():
    whole = small_network().SerializeToString()
    made = [mutant(whole, random.Random(seed)).SerializeToString() for seed in (*range(20), 7)]
    assert made[7] == made[20]
    assert len(set(made)) > 15


def test_tolerance_is_that_of_the_coarsest_type():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[1] x) => (float[1] y)'
        "{ h = Cast <to = 10> (x) y = Cast <to = 1> (h) }"
    )
    assert comparison.coarsest_type(model) == "float16"


@pytest.mark.parametrize(("terms", "wrong"), [(6, 1), (3 << 20, 0)], ids=["few", "many"])
def test_long_sums_are_as_accurate_as_onnxruntime(terms, wrong):
    text = f'<ir_version: 8, opset_import: ["": 18]> g (float[3, {terms // 3}] x) => (float y)'
    model = onnx.parser.parse_model(f"{text} {{ y = ReduceSum <keepdims = 0> (x) }}")
    assert comparison.max_terms(model) == terms // 3 * 3
    found = comparison.differences(
        _f(1.0004), _f(1), [_f(1)], "float32", terms=comparison.max_terms(model)
    )
    assert len(found) == wrong
