"""Softmax of 8-bit tensors by a table of exponentials, in integers: ``board/softmax_i8.h``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import fixed_point
from .contract import Contract
from .dtype import DTYPES, to_integers
from .op import Op, register
from .quantized import INT8_TYPES, storage_range

ONE = (1 << 31) - 1  # the table's entry for the largest element
SUM_BITS = 12  # integer bits of the sum of a row
MAX_ROW = (1 << SUM_BITS) - 1  # elements
MAX_SHIFT = 31 + SUM_BITS  # of a product that becomes an integer of no bits


@register("qsoftmax")
class QSoftmax(Op):
    """``softmax`` along the last axis as 8 bits, in the arithmetic of TensorFlow Lite.

    ``powers``: the exponential for each distance from a row's largest element, with 31 fraction
    bits, ``ONE`` for 0. Probabilities, times ``factor`` with 31 fraction bits if there is one, are
    rounded to ``bits`` bits; then ``y_zero`` is added. Rows have at most ``MAX_ROW`` elements.
    """

    contract = Contract(
        "x: byte[*S], powers: constant int32[256] -> y: to[*S]",
        "factor: int 0..2147483647, bits: int 0..16, y_zero: int of to, to: dtype int8|uint8",
        example={"to": "int8"},
    )

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        x = arrays[0].astype(np.int64)
        parts = arrays[1][x.max(-1, keepdims=True, initial=-128) - x]
        total = fixed_point.shift(parts, SUM_BITS).sum(-1, keepdims=True, dtype=np.int32)
        zeros = fixed_point.leading_zeros(total)
        inverse = fixed_point.reciprocal((total.astype(np.int64) << zeros) & ONE)
        if attrs["factor"]:
            inverse = fixed_point.product(inverse, attrs["factor"])
        steps = fixed_point.shift(
            fixed_point.product(inverse, parts), MAX_SHIFT - attrs["bits"] - zeros
        )
        _, high = storage_range(DTYPES[attrs["to"]])
        return [np.minimum(steps.astype(np.int64) + attrs["y_zero"], high).astype(attrs["to"])]


def exponentials(scale: float) -> np.ndarray:
    """Return the table of a scale of x."""
    return to_integers(np.rint(ONE * np.exp(-scale * np.arange(256))), np.int32)


def factor_of(y_scale: float) -> tuple[int, int]:
    """Return (factor, bits) of a scale of y."""
    fraction, bits = math.frexp(1 / y_scale)
    return min(round(fraction * 2.0**31), ONE), bits


def can_compute(to: str, y_scale: float, row: int) -> bool:
    """Return whether ``qsoftmax`` has results of this type and scale, for rows of this length."""
    return to in INT8_TYPES and 2.0**-14 <= y_scale <= 1 and 0 < row <= MAX_ROW
