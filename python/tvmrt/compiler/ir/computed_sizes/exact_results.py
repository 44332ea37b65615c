"""Results of operators on sizes in exact arithmetic, and proofs that a network's own equal them.

``ceil(float(n) / 2)`` is ``(n + 1) / 2`` rounded down unless the rounding of a float reaches the
next integer. A quotient ``N / D`` that was rounded once is on the correct side of all integers and
half integers if N has fewer bits than the float. These are floats themselves, and the nearest one
is at least ``1 / 2D`` away.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, prod
from typing import Any

import numpy as np

from ..rounding import ceil_div
from ..sizes.assumptions import is_at_most
from ..sizes.bounds import bounds, denominator
from ..sizes.extent import Exact, Extent, SymInt, is_unbounded, quotient, sym_max, sym_min

BITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}  # of the significand
MAX_DENOMINATOR = 1024  # maximum denominator of a simple fraction
MAX_BITS = 62
MAX_SIZE = (1 << MAX_BITS) - 1
MAX_EXPONENT = 8
MAX_TERMS = 64

EXACT, ROUNDED, UNPROVEN = range(3)  # ordered: the state of a result is its operands' worst


@dataclass(frozen=True)
class ExactResult:
    """``value`` is a number in exact arithmetic. ``state``: the network's own is that number
    (EXACT), the float nearest to it (ROUNDED), or an approximation (UNPROVEN)."""

    value: Exact
    state: int = EXACT

    @property
    def is_exact(self) -> bool:
        return self.state == EXACT

    @property
    def is_whole(self) -> bool:
        return denominator(self.value) == 1


def constant_result(value: float, dtype: str) -> ExactResult | None:
    """Return the simplest fraction that a float represents: 0.1 is 1 / 10."""
    if dtype not in BITS:
        return ExactResult(int(value)) if _fits(int(value), dtype) else None
    if not isfinite(value):
        return None
    exact = Fraction(value)
    simple = exact.limit_denominator(MAX_DENOMINATOR)
    if np.dtype(dtype).type(float(simple)) != value:
        simple = exact
    if simple.denominator.bit_length() > MAX_BITS or simple.numerator.bit_length() > MAX_BITS:
        return None
    return ExactResult(_normal(simple), EXACT if simple == exact else UNPROVEN)


def exact_result(
    op: str, operands: Sequence[ExactResult | None], source: str, dtype: str
) -> ExactResult | None:
    """Return what a pointwise operator of the IR computes from elements of type ``source``; None if
    that is not an expression of sizes, or if an integer may wrap around. Raises UndecidedExtent if
    it depends on the sizes."""
    if op == "cast" and dtype not in BITS:
        op = "to_bool" if dtype == "bool" else "trunc"
    rule = _INTEGER_RULES.get(op) if source not in BITS else None
    rule = rule or _RULES.get(op)
    exact = [each for each in operands if each is not None]
    if rule is None or len(exact) < len(operands):
        return None
    state = max(each.state for each in exact)
    if op in _COMPARISONS and state != EXACT:
        return None
    value = rule(*(each.value for each in exact))
    if value is None:
        return None
    if state == ROUNDED and op in _TO_INTEGERS:
        bits = BITS[source] - 1
        state = EXACT if all(_has_bits(each.value, bits) for each in exact) else UNPROVEN
    elif state == ROUNDED and op in _ROUNDED_AGAIN:
        state = UNPROVEN
    value = _normal(value)
    if dtype in BITS:
        return _float_result(value, state, dtype)
    is_integer = denominator(value) == 1 and _fits(value, dtype)  # type: ignore[arg-type]
    return ExactResult(value, state) if is_integer else None


_TO_INTEGERS = ("ceil", "floor", "round", "trunc")
_ROUNDED_AGAIN = ("add", "cast", "div", "mul", "sub")


def _normal(value: Exact) -> Exact:
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def _numerator(value: Any) -> SymInt:
    return value * denominator(value) if isinstance(value, Extent) else value.numerator


def _fits(number: SymInt, dtype: str) -> bool:
    """Return whether an integer is in the range of its type at all sizes."""
    low, high = bounds(number)
    if dtype == "bool":
        return 0 <= low <= high <= 1
    limits = np.iinfo(dtype)
    if is_unbounded(number) and limits.bits == 64:
        return limits.min < 0 or low >= 0  # tensors that large exceed the memory
    least, most = max(limits.min, -MAX_SIZE), min(limits.max, MAX_SIZE)
    return (least <= low or (is_unbounded(number) and is_at_most(-number, -least))) and is_at_most(
        number, most
    )


def _has_bits(value: Exact, bits: int) -> bool:
    """Return whether a numerator has at most so many bits at all sizes, or each run checks it."""
    numerator = _numerator(value)
    largest = (1 << bits) - 1
    low, _ = bounds(numerator)
    return is_at_most(numerator, largest) and (low >= -largest or is_at_most(-numerator, largest))


def _float_result(value: Exact, state: int, dtype: str) -> ExactResult | None:
    """Return the result as a float; None if its numerator or denominator is too large."""
    unit = denominator(value)
    if unit.bit_length() > MAX_BITS:
        return None
    if isinstance(value, Extent) and len(value.terms) > MAX_TERMS:
        return None
    if not is_unbounded(value):
        largest = max(abs(end) for end in bounds(_numerator(value)))
        if largest.bit_length() > MAX_BITS:
            return None
    is_float = unit & (unit - 1) == 0 and _has_bits(value, BITS[dtype])
    return ExactResult(value, ROUNDED if state == EXACT and not is_float else state)


# Rules: the exact result of an operator; None if it depends on the sizes which expression it is.


def _divide(a: Any, b: Any) -> Exact | None:
    if isinstance(b, Extent) and bounds(b)[0] <= 0:
        return None
    return quotient(a, b)


def _ceil(a: Any) -> SymInt:
    return ceil_div(_numerator(a), denominator(a))


def _round(a: Any) -> SymInt:
    """Round to the nearest integer, ties to even. Subtract 1 if ``a`` is 1/2 below an odd integer,
    that is, if 2 numerator - denominator is a multiple of 4 denominator."""
    half = denominator(a)
    twice, unit = 2 * _numerator(a) + half, 2 * half
    odd = (twice + unit) // (2 * unit) - (twice + unit - 1) // (2 * unit)
    return twice // unit - odd


def _truncate(a: Any) -> SymInt | None:
    """Truncate a number that has one sign at all sizes."""
    low, high = bounds(a)
    if low >= 0 or denominator(a) == 1:
        return a // 1
    return _ceil(a) if high <= 0 else None


def _compare(compare: Callable) -> Callable:
    """Return the rule of a comparison that has one result at all sizes."""

    def rule(a: Any, b: Any = 0) -> int | None:
        low, high = bounds(a - b)
        signs = {-1: low < 0, 0: low <= 0 <= high, 1: high > 0}
        results = {bool(compare(sign, 0)) for sign, occurs in signs.items() if occurs}
        return int(results.pop()) if len(results) == 1 else None

    return rule


def _truncated_quotient(a: Any, b: Any) -> SymInt | None:
    """Return a quotient of integers rounded towards zero; None if its sign depends on the sizes."""
    if bounds(b)[1] < 0:
        a, b = -a, -b
    if bounds(b)[0] <= 0:
        return None
    positive, negative = sym_max(a, 0) // b, sym_max(-a, 0) // b
    return positive - negative if 0 in (positive, negative) else None


def _truncated_mod(a: Any, b: Any) -> SymInt | None:
    quotient = _truncated_quotient(a, b)
    return None if quotient is None else a - quotient * b


def _floor_mod(a: Any, b: Any) -> SymInt | None:
    """The remainder has the sign of the divisor."""
    low, high = bounds(b)
    if low > 0:
        return a % b
    return -(-a % -b) if high < 0 else None


def _shift(a: Any, count: Any, left: bool) -> SymInt | None:
    if not isinstance(count, int) or not 0 <= count < MAX_BITS:
        return None
    return a * (1 << count) if left else a // (1 << count)


def _power(a: Any, times: Any) -> SymInt | None:
    is_small = isinstance(times, int) and 0 <= times <= MAX_EXPONENT
    return prod([a] * times) if is_small else None


def _sign(a: Any) -> SymInt | None:
    low, high = bounds(a)
    if low >= 0:
        return sym_min(a, 1)
    return sym_max(a, -1) if high <= 0 else None


_COMPARISONS: dict[str, Callable] = {
    "equal": _compare(operator.eq),
    "greater": _compare(operator.gt),
    "greater_equal": _compare(operator.ge),
    "less": _compare(operator.lt),
    "less_equal": _compare(operator.le),
    "to_bool": _compare(operator.ne),
}

_RULES: dict[str, Callable] = {
    **_COMPARISONS,
    "abs": lambda a: sym_max(a, -a),
    "add": operator.add,
    "cast": operator.pos,
    "ceil": _ceil,
    "div": _divide,
    "floor": lambda a: a // 1,
    "max": sym_max,
    "min": sym_min,
    "mul": operator.mul,
    "neg": operator.neg,
    "relu": lambda a: sym_max(a, 0),
    "round": _round,
    "sub": operator.sub,
    "trunc": _truncate,
}

_INTEGER_RULES: dict[str, Callable] = {
    "div": _truncated_quotient,
    "floor_mod": _floor_mod,
    "pow": _power,
    "pow_whole": _power,
    "shift_left": lambda a, count: _shift(a, count, left=True),
    "shift_right": lambda a, count: _shift(a, count, left=False),
    "sign": _sign,
    "trunc_mod": _truncated_mod,
}
