"""Intervals of pointwise operators: each result at numbers of the operands' intervals is inside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvmrt.compiler.ir.computed_sizes.intervals import result_interval
from tvmrt.compiler.ir.op import OPS

NUMBERS = np.array([-7, -3, -1, 0, 1, 2, 6], np.float64)
MONOTONIC = sorted(name for name, op in OPS.items() if op.monotonic and name != "cast")


def all_intervals(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = list(itertools.combinations_with_replacement(numbers, 2))
    low, high = np.array(pairs).T
    return low, high


def operand_numbers(name: str, index: int) -> np.ndarray:
    if name.startswith("logical") or (name == "where" and index == 0):
        return np.array([False, True])
    return np.abs(NUMBERS) if name == "sqrt" else NUMBERS


@pytest.mark.parametrize("name", [*MONOTONIC, "equal"])
def test_results_are_inside_and_reach_the_ends(name):
    op = OPS[name]
    count = 2 if name == "equal" else len(op.monotonic)
    numbers = [np.unique(operand_numbers(name, i)) for i in range(count)]
    axes = [range(len(all_intervals(each)[0])) for each in numbers]

    def compute(*ends: np.ndarray) -> np.ndarray:
        return np.asarray(op.evaluate(ends, {})[0])

    for choice in itertools.product(*axes):
        operands = [
            tuple(np.asarray(end[i]) for end in all_intervals(each))
            for each, i in zip(numbers, choice)
        ]
        with np.errstate(all="ignore"):
            low, high = result_interval(op, operands, compute)
            inside = [each[(each >= a) & (each <= b)] for each, (a, b) in zip(numbers, operands)]
            results = compute(*np.meshgrid(*inside))
        divisor = operands[-1] if name in ("div", "reciprocal") else None
        if divisor is not None and divisor[0] <= 0 <= divisor[1]:
            assert (low, high) == (-np.inf, np.inf)
            continue
        if name == "equal":  # a number between two of these may be equal
            assert low <= results.min() and high >= results.max()
            continue
        assert (low, high) == (results.min(), results.max()), operands


def test_operators_that_are_not_monotonic_have_no_interval():
    x = np.asarray(0.0), np.asarray(1.0)
    assert result_interval(OPS["sin"], [x], np.sin) is None
