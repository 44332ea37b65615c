"""Exact quotients of extents, represented by floats computed from sizes, with proofs.

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
from math import gcd, isfinite, prod

import numpy as np

from tvmrt.compiler.ir.assumptions import is_at_most
from tvmrt.compiler.ir.extent import (
    Extent,
    SymInt,
    bounds,
    exact_quotient,
    is_unbounded,
    sym_max,
    sym_min,
)
from tvmrt.compiler.ir.rounding import ceil_div

BITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}  # of the significand
MAX_DENOMINATOR = 1024  # maximum denominator of a simple fraction
MAX_BITS = 62
MAX_SIZE = (1 << MAX_BITS) - 1
MAX_EXPONENT = 8
MAX_TERMS = 64

EXACT, ROUNDED, UNPROVEN = range(3)  # ordered: the state of a result is its operands' worst


@dataclass(frozen=True)
class Ratio:
    """``numerator / denominator`` in exact arithmetic. ``state``: the network's float is that
    number (EXACT), the nearest float with ``bits`` bits (ROUNDED), or an approximation
    (UNPROVEN)."""

    numerator: SymInt
    denominator: int = 1
    state: int = EXACT
    bits: int = MAX_BITS

    @property
    def is_exact(self) -> bool:
        return self.state == EXACT


def leaf_ratio(extent: SymInt) -> Ratio:
    return Ratio(extent)


def constant_ratio(value: float, dtype: str) -> Ratio | None:
    """Return the simplest fraction that a float represents: 0.1 is 1 / 10."""
    if dtype not in BITS:
        return Ratio(int(value)) if _fits(int(value), dtype) else None
    if not isfinite(value):
        return None
    exact = Fraction(value)
    simple = exact.limit_denominator(MAX_DENOMINATOR)
    if np.dtype(dtype).type(float(simple)) != value:
        simple = exact
    if simple.denominator.bit_length() > MAX_BITS or simple.numerator.bit_length() > MAX_BITS:
        return None
    return Ratio(simple.numerator, simple.denominator, EXACT if simple == exact else UNPROVEN)


def ratio_of(op: str, operands: Sequence[Ratio | None], source: str, dtype: str) -> Ratio | None:
    """Return the quotient that a pointwise operator of the IR computes from elements of type
    ``source``; None if the result is not one, or if an integer may wrap around. Raises
    UndecidedExtent if it depends on the sizes."""
    if op == "cast" and dtype not in BITS:
        op = "to_bool" if dtype == "bool" else "trunc"
    rule = _INTEGER_RULES.get(op) if source not in BITS else None
    rule = rule or _RULES.get(op)
    known = [each for each in operands if each is not None]
    if rule is None or len(known) < len(operands):
        return None
    found = rule(*known)
    if found is None:
        return None
    numerator, denominator, is_integer = found
    state = max(each.state for each in known)
    if is_integer and state == ROUNDED:
        is_near = all(_has_bits(each.numerator, each.bits - 1) for each in known)
        state = EXACT if is_near else UNPROVEN
    elif state == ROUNDED and op in _ROUNDED_AGAIN:
        state = UNPROVEN
    if dtype in BITS:
        return _reduced(numerator, denominator, state, dtype)
    return Ratio(numerator, 1, state) if denominator == 1 and _fits(numerator, dtype) else None


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


_ROUNDED_AGAIN = ("add", "cast", "div", "mul", "sub")


def _has_bits(numerator: SymInt, bits: int) -> bool:
    """Return whether a number has at most so many bits at all sizes, or each run checks it."""
    largest = (1 << bits) - 1
    low, _ = bounds(numerator)
    return is_at_most(numerator, largest) and (low >= -largest or is_at_most(-numerator, largest))


def _bits(numerator: SymInt) -> int:
    return max(abs(end) for end in bounds(numerator)).bit_length()


def _reduced(numerator: SymInt, denominator: int, state: int, dtype: str) -> Ratio | None:
    """Cancel common factors; None if the quotient is too large."""
    terms = dict(numerator.terms) if isinstance(numerator, Extent) else {(): numerator}
    common = gcd(denominator, *terms.values())
    if common > 1:
        numerator = (
            exact_quotient(numerator, common)
            if isinstance(numerator, Extent)
            else numerator // common
        )
        denominator //= common
    if denominator.bit_length() > MAX_BITS or len(terms) > MAX_TERMS:
        return None
    if not is_unbounded(numerator) and _bits(numerator) > MAX_BITS:
        return None
    is_float = denominator & (denominator - 1) == 0 and _has_bits(numerator, BITS[dtype])
    state = ROUNDED if state == EXACT and not is_float else state
    return Ratio(numerator, denominator, state, BITS[dtype])


# Rules: numerator, divisor, and whether the result is rounded to an integer.


def _add(a: Ratio, b: Ratio) -> tuple:
    return (
        a.numerator * b.denominator + b.numerator * a.denominator,
        a.denominator * b.denominator,
        False,
    )


def _sub(a: Ratio, b: Ratio) -> tuple:
    return (
        a.numerator * b.denominator - b.numerator * a.denominator,
        a.denominator * b.denominator,
        False,
    )


def _mul(a: Ratio, b: Ratio) -> tuple:
    return a.numerator * b.numerator, a.denominator * b.denominator, False


def _div(a: Ratio, b: Ratio) -> tuple | None:
    numerator, by = a.numerator * b.denominator, b.numerator
    if isinstance(by, int):
        sign = -1 if by < 0 else 1
        return (numerator * sign, a.denominator * abs(by), False) if by else None
    if bounds(by)[0] <= 0:
        return None
    if isinstance(numerator, int) and numerator:
        return None
    quotient = exact_quotient(numerator, by) if isinstance(numerator, Extent) else 0
    return None if quotient is None else (quotient, a.denominator, False)


def _floor(a: Ratio) -> tuple:
    return a.numerator // a.denominator, 1, True


def _ceil(a: Ratio) -> tuple:
    return ceil_div(a.numerator, a.denominator), 1, True


def _round(a: Ratio) -> tuple:
    """Round to the nearest integer, ties to even. Subtract 1 if ``numerator / denominator`` is 1/2
    below an odd integer, that is, if 2 numerator - denominator is a multiple of 4 denominator.
    """
    twice, unit = 2 * a.numerator + a.denominator, 2 * a.denominator
    odd = (twice + unit) // (2 * unit) - (twice + unit - 1) // (2 * unit)
    return twice // unit - odd, 1, True


def _cast(a: Ratio) -> tuple | None:
    return (a.numerator, a.denominator, False)


def _select(rule: Callable) -> Callable:
    def pick(a: Ratio, b: Ratio) -> tuple:
        numerator = rule(a.numerator * b.denominator, b.numerator * a.denominator)
        return numerator, a.denominator * b.denominator, False

    return pick


def _trunc(a: Ratio) -> tuple | None:
    """Truncate a number that has one sign at all sizes."""
    low, high = bounds(a.numerator)
    if a.denominator == 1 or low >= 0:
        return _floor(a)
    return _ceil(a) if high <= 0 else None


def _comparison(compare: Callable) -> Callable:
    """Return a rule for a comparison that has one result at all sizes."""

    def rule(a: Ratio, b: Ratio) -> tuple | None:
        if not (a.is_exact and b.is_exact):
            return None
        low, high = bounds(a.numerator * b.denominator - b.numerator * a.denominator)
        signs = {-1: low < 0, 0: low <= 0 <= high, 1: high > 0}
        results = {bool(compare(sign, 0)) for sign, occurs in signs.items() if occurs}
        return (int(results.pop()), 1, False) if len(results) == 1 else None

    return rule


# Rules for integers.


def _quotient(a: SymInt, b: SymInt) -> SymInt | None:
    """Return a quotient rounded towards zero; None if a sign depends on the sizes."""
    if bounds(b)[1] < 0:
        a, b = -a, -b
    if bounds(b)[0] <= 0:
        return None
    low, high = bounds(a)
    if low >= 0:
        return a // b
    return -((-a) // b) if high <= 0 else None


def _truncated_div(a: Ratio, b: Ratio) -> tuple | None:
    found = _quotient(a.numerator, b.numerator)
    return None if found is None else (found, 1, False)


def _truncated_mod(a: Ratio, b: Ratio) -> tuple | None:
    found = _quotient(a.numerator, b.numerator)
    return None if found is None else (a.numerator - found * b.numerator, 1, False)


def _floor_mod(a: Ratio, b: Ratio) -> tuple | None:
    """The remainder has the sign of the divisor."""
    low, high = bounds(b.numerator)
    if low > 0:
        return a.numerator % b.numerator, 1, False
    return (-(-a.numerator % -b.numerator), 1, False) if high < 0 else None


def _shift(sign: int) -> Callable:
    """Return a rule for a shift to the left (1) or to the right (-1) by a constant."""

    def rule(a: Ratio, b: Ratio) -> tuple | None:
        count = b.numerator
        if not isinstance(count, int) or not 0 <= count < MAX_BITS:
            return None
        power = 1 << count
        return a.numerator * power if sign > 0 else a.numerator // power, 1, False

    return rule


def _power(a: Ratio, b: Ratio) -> tuple | None:
    times = b.numerator
    if not isinstance(times, int) or not 0 <= times <= MAX_EXPONENT:
        return None
    return prod([a.numerator] * times), 1, False


def _sign(a: Ratio) -> tuple | None:
    low, high = bounds(a.numerator)
    if low >= 0:
        return sym_min(a.numerator, 1), 1, False
    return (sym_max(a.numerator, -1), 1, False) if high <= 0 else None


_RULES: dict[str, Callable] = {
    "abs": lambda a: (sym_max(a.numerator, -a.numerator), a.denominator, False),
    "add": _add,
    "cast": _cast,
    "ceil": _ceil,
    "div": _div,
    "equal": _comparison(operator.eq),
    "floor": _floor,
    "greater": _comparison(operator.gt),
    "greater_equal": _comparison(operator.ge),
    "less": _comparison(operator.lt),
    "less_equal": _comparison(operator.le),
    "max": _select(sym_max),
    "min": _select(sym_min),
    "mul": _mul,
    "neg": lambda a: (-a.numerator, a.denominator, False),
    "relu": lambda a: (sym_max(a.numerator, 0), a.denominator, False),
    "round": _round,
    "sub": _sub,
    "to_bool": lambda a: _comparison(operator.ne)(a, Ratio(0)),
    "trunc": _trunc,
}

_INTEGER_RULES: dict[str, Callable] = {
    "div": _truncated_div,
    "floor_mod": _floor_mod,
    "pow": _power,
    "pow_whole": _power,
    "shift_left": _shift(1),
    "shift_right": _shift(-1),
    "sign": _sign,
    "trunc_mod": _truncated_mod,
}
