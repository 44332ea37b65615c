"""Pointwise operators of fixed-point arithmetic, as in networks of the TensorFlow Lite format.

A multiplier (m, e) stands for m * 2 ** (e - 31). Fractions are int32, in units of 2 ** -31. After
an integer matmul or convolution these operators requantise without floating point.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import exp
from typing import Any

import numpy as np

from .dtype import to_integers
from .graph import Node
from .op import GAP, POINTWISE, Expression, Op, define
from .pointwise import pointwise_contract
from .traits import Trait

FIXED = "scalar/fixed_point.h"


def shift(x: np.ndarray, n: Any) -> np.ndarray:
    """Return x / 2 ** n rounded to nearest, halves away from zero."""
    x, n = np.int64(x), np.int64(n)
    rest, mask = x & ((1 << n) - 1), (1 << n) - 1
    return ((x >> n) + (rest > (mask >> 1) + (x < 0))).astype(np.int32)


class Fractions:
    """Fractions of ``bits`` bits. exp is a product of constants exp(-2 ** n), n in ``powers``, and
    of a Taylor series near 0."""

    def __init__(self, bits: int, powers: Iterable[int]) -> None:
        self.bits, self.one, self.top = bits, 1 << bits, (1 << bits) - 1
        self.factors = {n: self.of(exp(-(2.0**n))) for n in powers}

    def of(self, x: float) -> int:
        """Return the fraction nearest to a number."""
        return round(x * self.one)

    def mul(self, a: np.ndarray, b: Any) -> np.ndarray:
        """Return a * b rounded to nearest, halves upwards, saturated."""
        return np.minimum((np.int64(a) * b + (self.one >> 1)) >> self.bits, self.top)

    def _exp_near_zero(self, a: np.ndarray) -> np.ndarray:
        """Return exp of fractions from -1/4 to 0: a Taylor series about -1/8."""
        x = a + (self.one >> 3)
        x2 = self.mul(x, x)
        x3, x4 = self.mul(x2, x), self.mul(x2, x2)
        rest = np.int64(shift(self.mul(shift(x4, 2) + x3, self.of(1 / 3)) + x2, 1))
        middle = self.of(exp(-1 / 8))
        return middle + self.mul(x + rest, middle)

    def exp(self, a: np.ndarray, integer_bits: Any) -> np.ndarray:
        """Return exp of numbers up to 0 that have ``integer_bits`` integer bits."""
        a, k = np.int64(a), np.int64(integer_bits)
        quarter = np.int64(1) << (self.bits - k - 2)
        near = (a & (quarter - 1)) - quarter
        result = self._exp_near_zero(near << k)
        for n, factor in self.factors.items():
            bit = ((near - a) >> np.clip(self.bits - k + n, 0, 62)) & 1
            result = np.where((n < k) & (bit == 1), self.mul(result, factor), result)
        result = np.where((k > 5) & (a < -(quarter << 7)), 0, result)
        return np.where(a == 0, self.top, result)

    def newton(self, a: np.ndarray) -> np.ndarray:
        """Return 1 / (1 + a) for fractions a >= 0, with two integer bits."""
        half = (np.int64(a) + self.one) >> 1
        x = self.of(12 / 17) + self.mul(half, -self.of(8 / 17))
        for _ in range(3):
            step = self.mul(x, (self.one >> 2) - self.mul(half, x))
            x = x + np.clip(step * 4, -self.one, self.top)
        return x

    def logistic(self, a: np.ndarray, integer_bits: Any) -> np.ndarray:
        """Return the logistic function of numbers that have ``integer_bits`` integer bits."""
        a = np.int64(a)
        above = np.minimum(self.newton(self.exp(-np.abs(a), integer_bits)) * 2, self.top)
        return np.where(a == 0, self.one >> 1, np.where(a > 0, above, self.top - above))

    def tanh(self, a: np.ndarray, integer_bits: Any) -> np.ndarray:
        """Return tanh of numbers that have ``integer_bits`` integer bits."""
        a = np.int64(a)
        # twice the number is the same integer with one more integer bit
        x = self.newton(self.exp(-np.abs(a), integer_bits + 1)) - (self.one >> 2)
        size = np.clip(x * 4, -self.one, self.top)
        return np.where(a == 0, 0, np.where(a > 0, size, -size))


LONG = Fractions(31, range(-2, 5))
SHORT = Fractions(15, range(-2, 4))
exp_fraction, logistic_fraction, tanh_fraction = LONG.exp, LONG.logistic, LONG.tanh


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a * b as fractions, rounded to nearest, halves upwards, saturated."""
    return LONG.mul(a, np.int64(b)).astype(np.int32)


def scale(x: np.ndarray, m: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return x times the multiplier (m, e), rounded twice; a left shift wraps around."""
    e = np.int64(e)
    shifted = (np.int64(x) << np.maximum(e, 0)).astype(np.int32)
    return shift(product(shifted, m), np.maximum(-e, 0))


def narrow_multiplier(m: np.ndarray) -> np.ndarray:
    """Return m rounded to 15 bits, as int64."""
    m = np.int64(m)
    return np.where(m < 0x7FFF0000, (m + (1 << 15)) >> 16, 0x7FFF)


def scale_wide(x: np.ndarray, m: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return x, within 2 ** 47, times (m, e) with m rounded to 15 bits; halves upwards."""
    e, product = np.int64(e), np.int64(x) * narrow_multiplier(m)
    return ((product + (np.int64(1) << (14 - e))) >> (15 - e)).astype(np.int32)


def round_away(x: np.ndarray) -> np.ndarray:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return (whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0)).astype(x.dtype)


def float_scale(x: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return x times the scale in double, rounded to nearest, halves away from zero, saturated."""
    exact = round_away(np.float64(x) * factor)
    return to_integers(exact, np.int32)


def leading_zeros(x: np.ndarray) -> np.ndarray:
    """Return the number of zero bits above the highest one; 32 for 0."""
    bits = np.asarray(x).astype(np.uint32).astype(np.float64)
    return (32 - np.frexp(bits)[1]).astype(np.int32)


def reciprocal(a: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + a) as a fraction, for fractions a >= 0."""
    return np.clip(LONG.newton(a) * 2, -(2**31), 2**31 - 1).astype(np.int32)


def scale_by(x: np.ndarray, m: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return x times the multiplier (m, e) with a computed exponent, clamped to -31..31."""
    return scale(x, m, np.clip(e, -31, 31))


def _shift_saturated(x: np.ndarray, power: int) -> np.ndarray:
    """Return x * 2 ** power, saturated."""
    return np.clip(np.int64(x) * (1 << power), -(2**31), 2**31 - 1).astype(np.int32)


def _root_exponent(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shift n to its highest bit at 27 or 28; return it and the exponent of its inverse root."""
    n = np.maximum(np.int64(n), 1)
    e = np.full(n.shape, 11, np.int64)
    for _ in range(2):
        large = n >= 1 << 29
        n, e = np.where(large, n >> 2, n), e + large
    pairs = ((leading_zeros(n) - 1) >> 1) - 1
    return n << (2 * pairs), e - pairs


def inverse_root(n: np.ndarray) -> np.ndarray:
    """Return m of the multiplier (m, e) for 1 / sqrt(n); numbers below 1 count as 1."""
    wide, e = _root_exponent(n)
    f = (wide >> 1).astype(np.int32)
    half = shift(f, np.int64(1))
    x = np.full(f.shape, 1 << 28, np.int32)
    for _ in range(5):
        cube = _shift_saturated(product(product(x, x), x), 6)
        rest = np.int64(product(np.int32(402653184), x)) - product(half, cube)
        x = _shift_saturated(rest.astype(np.int32), 3)
    x = np.int64(product(x, np.int32(1518500250)))
    x = np.where(e < 0, x << np.maximum(-e, 0), x)
    return np.where(np.int64(n) <= 1, 2**31 - 1, x).astype(np.int32)


def inverse_root_exponent(n: np.ndarray) -> np.ndarray:
    """Return e of the multiplier (m, e) for 1 / sqrt(n); numbers below 1 count as 1."""
    e = _root_exponent(n)[1]
    return np.where(np.int64(n) <= 1, 0, -np.maximum(e, 0)).astype(np.int32)


def inverse_square_root(n: int) -> tuple[int, int]:
    """Return the multiplier (m, e) for 1 / sqrt(n)."""
    array = np.asarray(n)
    return int(inverse_root(array)), int(inverse_root_exponent(array))


class FixedPointOp(Op):
    """Pointwise fixed-point operator: operands of its contract, C function, numpy function."""

    kind = POINTWISE
    traits = frozenset({Trait.EXACT})
    header = FIXED

    def __init__(
        self,
        name: str,
        operands: Sequence[str],
        fn: Callable[..., np.ndarray],
        result: str = "int32",
        text: str = "",
        traits: Collection[Trait] = (),
    ) -> None:
        self.name = name
        self.fn = fn
        self.contract = pointwise_contract(operands, result)
        self.text = text or f"tvmrt_{name}({{}})"
        self.traits = type(self).traits | set(traits)

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        return Expression(self.text.format(", ".join(args)), self.header)

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [np.asarray(self.fn(*arrays))]


_ROWS = (
    FixedPointOp("fixed_scale", ["x: int32", "m: int32", "e: constant int32"], scale),
    FixedPointOp("fixed_scale_wide", ["x: int64", "m: int32", "e: constant int32"], scale_wide),
    FixedPointOp("fixed_scale_by", ["x: int32", "m: int32", "e: int32"], scale_by),
    FixedPointOp("fixed_inverse_root", ["n: int32"], inverse_root),
    FixedPointOp("fixed_inverse_root_exponent", ["n: int32"], inverse_root_exponent),
    FixedPointOp("float_scale", ["x: int32|int64", "factor: float64"], float_scale),
    FixedPointOp(
        "fixed_product",
        ["a: int32", "b: int32"],
        product,
        text="tvmrt_fixed_mul({})",
        traits={Trait.COMMUTATIVE},
    ),
    FixedPointOp("fixed_shift", ["x: int32", "n: int32"], shift),
    FixedPointOp("fixed_reciprocal", ["a: int32"], reciprocal),
    FixedPointOp("leading_zeros", ["x: int32"], leading_zeros),
    FixedPointOp("round_away", ["x: float32"], round_away, result="float32", text="roundf({})"),
)

for _row in _ROWS:
    define(_row)


_PAIR = (
    "a_zero: int, a_m: int, a_e: int -31..30, b_zero: int, b_m: int, b_e: int -31..30, "
    "bits: int 0..20, m: int, e: int -31..30, y_zero: int, low: int, high: int"
)


class FixedPair(Op):
    """Fixed-point operation on two quantised operands, with a result of their type.

    Sum and difference: f = scale(a' * 2 ** bits, a_m, a_e) +/- scale(b' * 2 ** bits, b_m, b_e).
    Product: f = a' * b'. Here a' = a - a_zero. The result is scale(f, m, e) + ``y_zero``, clamped.
    """

    kind = POINTWISE
    traits = frozenset({Trait.EXACT})

    contract = pointwise_contract(["a: Q=int8|uint8|int16", "b: Q"], "Q", _PAIR, {"high": 100})

    def __init__(self, name: str, symbol: str) -> None:
        self.name = name
        self.symbol = symbol

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        at = node.attrs
        sides = []
        for side, x in zip("ab", args):
            zero, m, e = (at[f"{side}_{word}"] for word in ("zero", "m", "e"))
            text = f"({x} - {zero})" if zero >= 0 else f"({x} + {-zero})"
            if self.symbol != "*":
                text = f"tvmrt_fixed_scale({text} * {1 << at['bits']},{GAP}{m}, {e})"
            sides.append(text)
        wide = "(int32_t)" if self.symbol == "*" else ""  # int may have 16 bits
        both = f"{wide}{sides[0]}{GAP}{self.symbol} {sides[1]}"
        rest = ", ".join(str(at[word]) for word in ("m", "e", "y_zero", "low", "high"))
        return Expression(
            f"({node.output.dtype.c})tvmrt_fixed_requantize({both},{GAP}{rest})", FIXED
        )

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        sides = []
        for side, x in zip("ab", arrays):
            zero, m, e = (attrs[f"{side}_{word}"] for word in ("zero", "m", "e"))
            value = x.astype(np.int64) - zero
            if self.symbol != "*":
                raised = (value << attrs["bits"]).astype(np.int32)
                value = scale(raised, np.int32(m), np.int32(e)).astype(np.int64)
            sides.append(value)
        a, b = sides
        both = {"+": a + b, "-": a - b, "*": a * b}[self.symbol].astype(np.int32)
        y = scale(both, np.int32(attrs["m"]), np.int32(attrs["e"])).astype(np.int64)
        y = np.clip(y + attrs["y_zero"], attrs["low"], attrs["high"])
        return [y.astype(arrays[0].dtype)]


for _name, _symbol in (("fixed_sum", "+"), ("fixed_difference", "-"), ("fixed_pair_product", "*")):
    define(FixedPair(_name, _symbol))


# Entries of the logistic table that are one more than the nearest integer.
_ROUNDED_UP_ENTRIES = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41,
    43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip


def logistic_entries() -> np.ndarray:
    """Return 256 numbers: the logistic function of i / 24 in units of 2 ** -16."""
    i = np.arange(256)
    entries = to_integers(np.floor(65536 / (1 + np.exp(-i / 24)) + 0.5), np.int64)
    entries[list(_ROUNDED_UP_ENTRIES)] += 1
    return entries


def _interpolate(v: np.ndarray, bits: int, beyond_table: int) -> np.ndarray:
    """Return the table at v / 2 ** bits, times 2 ** bits; ``beyond_table`` past its end."""
    entries = logistic_entries()
    index = np.minimum(v >> bits, 255)
    slope = np.append(np.diff(entries), 0)[index]
    near = (entries[index] << bits) + slope * (v & ((1 << bits) - 1))
    return np.where(index == 255, beyond_table, near)


def logistic_by_table(v: np.ndarray) -> np.ndarray:
    """Return the logistic function of v / 24 / 2 ** 9 in units of 2 ** -15."""
    r = _interpolate(np.abs(np.int64(v)), 9, 32767 << 10)
    return (np.where(v >= 0, r + 512, (1 << 25) - r + 511) >> 10).astype(np.int32)


def tanh_by_table(v: np.ndarray) -> np.ndarray:
    """Return tanh of v / 48 / 2 ** 8 in units of 2 ** -15."""
    r = _interpolate(np.abs(np.int64(v)), 8, 65535 << 8)
    r = np.where(v >= 0, r - (1 << 23) + 128, (1 << 23) - r + 127)
    return (r >> 8).astype(np.int32)


def logistic16(x: np.ndarray) -> np.ndarray:
    """Return the logistic function of x * 2 ** -12 in units of 2 ** -15."""
    return SHORT.logistic(x, 3).astype(np.int32)


def tanh16(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return tanh of x * 2 ** (k - 15) in units of 2 ** -15; k is from 0 to 4."""
    return SHORT.tanh(x, k).astype(np.int32)


for _row in (
    FixedPointOp("fixed_logistic16", ["x: int32"], logistic16),
    FixedPointOp("fixed_tanh16", ["x: int32", "k: constant int32"], tanh16),
):
    _row.header = "scalar/fixed_point_gates.h"
    define(_row)

for _row in (
    FixedPointOp("fixed_logistic_by_table", ["v: int32"], logistic_by_table),
    FixedPointOp("fixed_tanh_by_table", ["v: int32"], tanh_by_table),
):
    _row.header = "scalar/sigmoid_table.h"
    define(_row)
