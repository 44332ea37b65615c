"""Requantisation of the accumulators of integer products, as integer functions of numpy arrays.

A product's ``rounding`` (``quantized.py``) defines the integer q of an accumulator acc before its
zero point is added. A scale is m * 2 ** (-n - 31), and accumulators are below 2 ** 30:

- "even": acc * scale in float32, rounded, ties to even
- "twice": x = (acc * m + 2 ** 30) >> 31, then x / 2 ** n rounded, ties away from zero; these are
  the two roundings of TensorFlow Lite
- "once": acc * scale rounded, ties upwards
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from .dtype import to_integers
from .fixed_point import shift
from .graph import Node
from .sizes import upper_bound

MAX_ACCUMULATOR = (1 << 30) - 1
MAX_SHIFT = 31
SEARCH_RADIUS = 4  # maximum error of an estimated threshold


def rounding_of(product: Node) -> str:
    """Return the rounding of a product; its scale is float32 only for "even"."""
    return product.attrs.get("rounding", "even")


def join_multipliers(m: np.ndarray, e: np.ndarray) -> np.ndarray | None:
    """Return the float64 scales of quantized multipliers (m, e); None if a product cannot have
    them. A multiplier of 0 becomes one so small that all results are 0."""
    m, e = np.where(m == 0, 1 << 30, m), np.where(m == 0, -MAX_SHIFT, e)
    usual = (m >= 1 << 30) & (m < 1 << 31) & (e <= 0) & (e >= -MAX_SHIFT)
    return np.ldexp(m.astype(np.float64), e - 31) if usual.all() else None


def split_scale(scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the int64 arrays (m, n) of scales m * 2 ** (-n - 31)."""
    fraction, exponent = np.frexp(np.asarray(scale, np.float64))
    return np.ldexp(fraction, 31).astype(np.int64), -exponent.astype(np.int64)


def requantize(acc: np.ndarray, scale: np.ndarray, rounding: str = "even") -> np.ndarray:
    """Return q of int64 accumulators, which broadcast with the scales."""
    if rounding == "even":
        steps = np.rint(acc.astype(np.float32) * scale.astype(np.float32))
        return to_integers(steps, np.int64)
    m, n = split_scale(scale)
    if rounding == "once":
        return (acc * m + (np.int64(1) << (n + 30))) >> (n + 31)
    return shift((acc * m + (1 << 30)) >> 31, n).astype(np.int64)


def thresholds(scale: np.ndarray, rounding: str, low: int, high: int) -> np.ndarray:
    """Return the least accumulator whose q is at least low + 1, ..., high, a row for each scale of
    a vector; accumulators are clamped to 2 ** 30."""
    q = np.arange(low + 1, high + 1)
    column = np.asarray(scale).reshape(-1, 1)
    limit = MAX_ACCUMULATOR - SEARCH_RADIUS
    guess = np.clip(np.floor((q - 0.5) / column.astype(np.float64)), -limit, limit)
    least = guess.astype(np.int64) + SEARCH_RADIUS
    for _ in range(2 * SEARCH_RADIUS):
        least -= requantize(least - 1, column, rounding) >= q
    return least


def accumulator_range(
    w: np.ndarray, w_zero: np.ndarray, x_range: tuple[int, int], bias: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest accumulator of each channel. ``w``: [channels, ...];
    ``x_range``: minimum and maximum of activations minus their zero point."""
    rows = w.reshape(len(w), -1).astype(np.int64) - np.asarray(w_zero, np.int64).reshape(-1, 1)
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    offset = 0 if bias is None else bias.reshape(-1).astype(np.int64)
    low, high = x_range
    return (
        positive * low + negative * high + offset,
        positive * high + negative * low + offset,
    )


def product_range(product: Node) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest accumulator of each channel of an integer product; one
    pair for all channels if both operands are computed."""
    info, zero = np.iinfo(product.inputs[0].dtype.numpy), product.attrs["x_zero"]
    if product.operator.weights is None:
        return _computed_range(product, (info.min - zero, info.max - zero))
    bias, w_zero = (v if v is None else v.data for v in product.inputs[3:5])
    w = np.moveaxis(product.inputs[1].data, product.operator.weights.output_axis, 0)
    offset = np.zeros(1) if w_zero is None else w_zero
    return accumulator_range(w, offset, (info.min - zero, info.max - zero), bias)


def _computed_range(product: Node, x_range: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of the sums of a product of two computed operands."""
    info, zero = np.iinfo(product.inputs[1].dtype.numpy), product.attrs["w_zero"]
    ends = [x * (w - zero) for x in x_range for w in (info.min, info.max)]
    depth = upper_bound(product.inputs[0].shape[-1])
    return np.array([min(ends) * depth]), np.array([max(ends) * depth])


def rounded(x: float) -> int:
    """Return the nearest integer, halves away from zero."""
    integer = math.floor(abs(x))
    integer += abs(x) - integer >= 0.5
    return int(math.copysign(integer, x)) if integer else 0


def multiplier(real: float) -> tuple[int, int]:
    """Return (m, e) of a multiplier m * 2 ** (e - 31), abs(m) >= 2 ** 30; (0, 0) if it is tiny.

    Raises ValueError if it is not finite or too large.
    """
    if not math.isfinite(real) or abs(real) >= 2.0**30:
        raise ValueError(f"its scales give a multiplier of {real}; quantise the model again")
    fraction, exponent = math.frexp(real)
    m = rounded(fraction * 2.0**31)
    if abs(m) == 1 << 31:
        m, exponent = m // 2, exponent + 1
    return (0, 0) if exponent < -31 or m == 0 else (m, exponent)


def multipliers(reals: Iterable[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return m and e of several multipliers, as two arrays of int32."""
    pairs = [multiplier(float(real)) for real in reals]
    return np.array([m for m, _ in pairs], np.int32), np.array([e for _, e in pairs], np.int32)
