"""The language of operator contracts: what each notation accepts, and the error texts."""

from __future__ import annotations

import numpy as np
import pytest

from tvmrt.compiler.ir import DTYPES, TensorType
from tvmrt.compiler.ir.contract import LIMIT, Contract, ContractError, holds, let


def typed(text: str) -> TensorType:
    """``float32 2 3``."""
    name, *extents = text.split()
    return TensorType(tuple(map(int, extents)), DTYPES[name])


def types(text: str) -> list[TensorType | None]:
    """Parse types separated by commas; a dash is an omitted operand."""
    words = [word.strip() for word in text.split(",")]
    return [None if word == "-" else typed(word) for word in words]


def _window(S: tuple, K: tuple, strides: tuple) -> list[int]:
    return [(n - k) // s + 1 for n, k, s in zip(S, K, strides)]


CELL = Contract(
    "x: float32[T B 4*H], r: float32[4*H H], p?: float32[3*H], lengths?: int32[B] -> "
    "y: float32[T B H]"
)
WINDOW = Contract(
    "x: E=float[N C *S{1..2}], w: E[OC C/groups *K{S}], slope?: E[1|C 1] -> y: E[N OC *Y]",
    "strides: ints[*S] 1.., groups: int 1..",
    rules=[
        let("*Y", "(S - K) / strides + 1", _window),
        holds("the window fits", lambda Y: min(Y) > 0),
    ],
)
JOIN = Contract("parts+: E=any[_ *R] -> y: E[2 *R]")
TAKE = Contract(
    "x: any[*X], places: constant index[P]",
    "axis: axis of x, zero: int of x",
    rules=[
        holds(
            "places are inside the axis",
            lambda x, axis, places_data: (
                (0 <= places_data).all() and places_data.max() < x.shape[axis]
            ),
        )
    ],
)


ONE = {"strides": (1, 1), "groups": 2}
FITS = {
    "formula-before-its-name": (CELL, "float32 3 4 8, float32 8 2", {}, "float32 3 4 2"),
    "optional": (
        CELL,
        "float32 3 4 8, float32 8 2, -, int32 4",
        {},
        "float32 3 4 2",
    ),
    "derived": (WINDOW, "float64 1 4 8 8, float64 6 2 3 3", ONE, "float64 1 6 6 6"),
    "one-of": (WINDOW, "float32 1 4 8 8, float32 6 2 3 3, float32 4 1", ONE, "float32 1 6 6 6"),
    "repeated": (JOIN, "int8 1 5, int8 7 5, int8 3 5", {}, "int8 2 5"),
}


@pytest.mark.parametrize("contract, operands, attrs, result", FITS.values(), ids=FITS)
def test_valid_applications_have_a_type(contract, operands, attrs, result):
    assert contract.result_types(contract.bind(types(operands), attrs)) == [typed(result)]


MISFITS = {
    "formula": (
        CELL,
        "float32 3 4 8, float32 8 2, float32 2",
        {},
        "operand p is float32[2], expected float32[3*H] = [6] (H = 2 by operand r)",
    ),
    "type": (
        CELL,
        "float32 3 4 8, float32 8 2, -, int64 4",
        {},
        "operand lengths is int64[4], expected int32[B] = [4] (B = 4 by operand x)",
    ),
    "rank": (CELL, "float32 3 4, float32 8 2", {}, "operand x is float32[3, 4], expected float32"),
    "missing": (CELL, "float32 3 4 8, -", {}, "operand r is missing"),
    "too-few": (CELL, "float32 3 4 8", {}, "1 operands, expected 2 to 4: x, r, p?, lengths?"),
    "too-many": (CELL, "float32 3 4 8, float32 8 2, -, -, -", {}, "5 operands, expected 2 to 4"),
    "same-type": (
        WINDOW,
        "float64 1 4 8 8, float32 6 2 3 3",
        ONE,
        "operand w is float32[6, 2, 3, 3], expected float64[OC, C/groups, *K{S}]",
    ),
    "family": (WINDOW, "int8 1 4 8 8, int8 6 2 3 3", ONE, "expected float[N, C, *S{1..2}]"),
    "axes": (WINDOW, "float32 1 4 8 8 8, float32 6 2 3 3 3", ONE, "operand x is float32"),
    "as-many-axes": (WINDOW, "float32 1 4 8 8, float32 6 2 3", ONE, "operand w is float32"),
    "not-whole": (
        WINDOW,
        "float32 1 5 8 8, float32 6 2 3 3",
        ONE,
        "C/groups is not a whole number (C = 5, groups = 2)",
    ),
    "one-of": (
        WINDOW,
        "float32 1 4 8 8, float32 6 2 3 3, float32 3 1",
        ONE,
        "expected float32[1|C, 1] = [1 or 4, 1]",
    ),
    "rule": (
        WINDOW,
        "float32 1 4 8 8, float32 6 2 9 3",
        ONE,
        "expected that the window fits; found Y = [0, 6]",
    ),
    "repeated": (
        JOIN,
        "int8 1 5, int8 7 4",
        {},
        "operand parts is int8[7, 4], expected int8[_, *R] = [_, 5]",
    ),
    "repeated-type": (JOIN, "int8 1 5, int16 7 5", {}, "operand parts is int16[7, 5]"),
}


@pytest.mark.parametrize("contract, operands, attrs, sentence", MISFITS.values(), ids=MISFITS)
def test_mismatches_are_reported(contract, operands, attrs, sentence):
    with pytest.raises(ContractError) as caught:
        contract.bind(types(operands), attrs)
    assert sentence in str(caught.value)


WRONG_ATTRIBUTES = {
    "too-short": ({"strides": (1,)}, "attribute strides is [1], expected 2 integers from 1 to"),
    "too-long": ({"strides": (1, 1, 1)}, "one for each axis of S = [8, 8] by operand x"),
    "below": ({"strides": (0, 1)}, "attribute strides is [0, 1]"),
    "beyond": ({"strides": (1, LIMIT + 1)}, "attribute strides is [1, 2147483648]"),
    "float": ({"strides": (1.0, 1)}, "attribute strides is [1.0, 1]"),
    "number": ({"strides": 1}, "attribute strides is 1"),
    "text": ({"groups": "2"}, "attribute groups is '2', expected an integer from 1 to 2147483647"),
    "bool": ({"groups": True}, "attribute groups is True"),
    "unknown": ({"group": 2}, "unknown attribute group; expected strides, groups"),
}


@pytest.mark.parametrize("change, sentence", WRONG_ATTRIBUTES.values(), ids=WRONG_ATTRIBUTES)
def test_wrong_attribute_is_reported(change, sentence):
    with pytest.raises(ContractError) as caught:
        WINDOW.bind(types("float32 1 4 8 8, float32 6 2 3 3"), {**ONE, **change})
    assert sentence in str(caught.value)


def test_a_missing_attribute_is_named():
    with pytest.raises(
        ContractError, match="attribute groups is missing; expected an integer from 1"
    ):
        WINDOW.bind(types("float32 1 4 8 8, float32 6 2 3 3"), {"strides": (1, 1)})


def test_partial_application_may_omit_and_add_attributes():
    operands = types("float32 1 4 8 8, float32 6 4 3 3")
    WINDOW.bind(operands, {"groups": 1, "precision": "bfloat16"}, open=True)


@pytest.mark.parametrize(
    "attrs, sentence",
    [
        (
            {"axis": 2, "zero": 0},
            "attribute axis is 2, expected an axis, counted from the front, of",
        ),
        ({"axis": -1, "zero": 0}, "attribute axis is -1"),
        (
            {"axis": 0, "zero": 128},
            "attribute zero is 128, expected an integer of the element type",
        ),
    ],
)
def test_attributes_that_depend_on_an_operand(attrs, sentence):
    with pytest.raises(ContractError) as caught:
        TAKE.bind(types("int8 2 3, int32 4"), attrs)
    assert sentence in str(caught.value)


def test_constant_elements_are_checked():
    operands, attrs = types("int8 2 3, int32 2"), {"axis": 1, "zero": -128}
    TAKE.bind(operands, attrs)
    TAKE.bind(operands, attrs, data=[None, np.array([0, 2])])
    with pytest.raises(ContractError, match=r"places are inside the axis; found .*\[0, 3\]"):
        TAKE.bind(operands, attrs, data=[None, np.array([0, 3])])
    with pytest.raises(ContractError, match="operand places is computed at run time"):
        TAKE.bind(operands, attrs, data=[None, None])


@pytest.mark.parametrize(
    "operand, problem",
    [
        ("x: float32", "not of the form"),
        ("x: float32[*A *B]", "more than one variadic part"),
        ("x: float23[A]", "'float23' is neither an element type"),
        ("x: float32[2*N]", "N is not defined by any operand"),
        ("x: float32[A**2]", "an extent may not have a Pow"),
        ("x: float32[A f(A)]", "an extent may not have a Call"),
    ],
)
def test_invalid_rule_line_is_rejected(operand, problem):
    with pytest.raises(ValueError) as caught:
        Contract(operand)
    assert problem in str(caught.value)


def test_oversized_result_is_rejected():
    wide = Contract("x: any[*S] -> y: int8[*shape]", "shape: ints 0..")
    for shape in ((LIMIT, 2), (1 << 20, 1 << 20, 1 << 20)):
        with pytest.raises(ContractError, match="a tensor has at most 2147483647 elements"):
            wide.result_types(wide.bind(types("int8 2"), {"shape": shape}))
