"""Minimum and maximum of an extent: at all sizes, or in each cell, a part of the sizes' ranges.

The functions use an extent's ``terms``, its ``symbols()`` and its value ``at`` sizes; see
``extent.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm, prod
from typing import Any

import numpy as np

# Combinations of values that are all evaluated if nothing else gives the bounds of an extent.
MAX_POINTS = 1 << 16
MAX_EXACT_WEIGHT = 32  # of an extent that is evaluated at so many
# Combinations of sizes that are all evaluated if a condition on them or a number must be exact.
MAX_SIZES = 1 << 20
# Products of symbols that the changes with a symbol, and the changes of these, may have.
MAX_CHANGES = 1 << 12
MAX_PERIOD = 1024  # combinations of remainders of symbols that are tried
MAX_PIECES = 16  # ranges of a symbol that are bounded one by one
MAX_CELLS = 1 << 16
MAX_EXACT = 2**53  # larger integers are not exact in float64, the type of cells of large sizes
MAX_CASES = 4  # terms max(number, 0) of an extent that are split into two cases each

Sizes = Mapping[str, Any]  # numbers, or arrays of them, by the names of symbols


def bounds(value: Any) -> tuple[int, int]:
    """Return the minimum and maximum of an extent, or wider bounds if finding these would take too
    long."""
    if hasattr(value, "terms"):
        return _bounds(value)
    number = value if type(value) is Fraction else int(value)
    return number, number  # type: ignore[return-value]


def denominator(value: Any) -> int:
    """Return the least common denominator of the coefficients; 1 for integers."""
    unit = 1
    for _, k in getattr(value, "terms", ((None, value),)):
        if k.__class__ is not int:
            unit = lcm(unit, k.denominator)
    return unit


@lru_cache(maxsize=1 << 14)
def _bounds(extent: Any) -> tuple[int, int]:
    unit = denominator(extent)
    if unit > 1:
        low, high = bounds(extent * unit)
        return Fraction(low, unit), Fraction(high, unit)  # type: ignore[return-value]
    low, high = _bounds_without_limits(extent)
    for symbol in extent.symbols():
        if symbol.limit is not None:
            low, high = _bounds_by_limit(extent, symbol, low, high)
    return low, high


def _bounds_by_limit(extent: Any, symbol: Any, low: int, high: int) -> tuple[int, int]:
    """Tighten the bounds if a symbol with a ``limit`` stands alone in exactly one term."""
    factors = [k for atoms, k in extent.terms if symbol in atoms]
    if len(factors) != 1 or (dict(extent.terms).get((symbol,), 0)) != factors[0]:
        return low, high
    computed = (a for atoms, _ in extent.terms for a in atoms if a.computed)
    if any(symbol in atom.symbols() for atom in computed):
        return low, high
    replaced = bounds(extent + factors[0] * (symbol.limit - symbol.extent))
    if factors[0] < 0:
        return max(low, replaced[0]), high
    return low, min(high, replaced[1])


def _bounds_without_limits(extent: Any) -> tuple[int, int]:
    if len({k > 0 for _, k in extent.terms}) == 1:
        return _bounds_of_sum(extent)  # monotonic in each atom, and no atom is negative
    symbols = extent.symbols()
    # fewer for a long extent; Python integers do not overflow
    points = MAX_POINTS if extent.weight <= MAX_EXACT_WEIGHT else MAX_POINTS // extent.weight
    sizes = all_sizes(symbols, points, dtype=object)
    if sizes is not None:
        values = extent.at(sizes)
        return int(values.min()), int(values.max())
    parts = _independent_terms(extent)
    if len(parts) > 1:
        ends = [_bounds_of_terms(extent, part) for part in parts]
        return sum(low for low, _ in ends), sum(high for _, high in ends)
    exact = _bounds_at_corners(extent, symbols) or _bounds_by_remainders(extent)
    close = exact or _bounds_by_pieces(extent) or _bounds_by_cases(extent)
    return close or _bounds_by_factors(extent) or _bounds_of_sum(extent)


def _bounds_of_terms(extent: Any, terms: list[tuple[Any, int]]) -> tuple[int, int]:
    (atoms, number), *_ = terms
    return bounds(type(extent)(dict(terms))) if atoms else (number, number)


def _independent_terms(extent: Any) -> list[list[tuple[Any, int]]]:
    """Return the terms in groups without common symbols; a constant is a group of its own."""
    terms = (({s for a in atoms for s in a.symbols()}, (atoms, k)) for atoms, k in extent.terms)
    return [group for _, group in _groups(terms)]


def _groups(parts: Iterable[tuple[Collection[Any], Any]]) -> list[tuple[set, list]]:
    """Join parts with common symbols, each given with its symbols."""
    groups: list[tuple[set, list]] = []
    for symbols, part in parts:
        joined = [group for group in groups if not group[0].isdisjoint(symbols)]
        groups = [group for group in groups if group[0].isdisjoint(symbols)]
        parts_of = [each for _, others in joined for each in others]
        groups.append((set(symbols).union(*(names for names, _ in joined)), [*parts_of, part]))
    return groups


def _bounds_by_cases(extent: Any) -> tuple[int, int] | None:
    """Bound by both cases of a term max(number, 0) that occurs once; None if there is none."""
    if sum(a.computed for atoms, _ in extent.terms for a in atoms) > MAX_CASES:
        return None  # each doubles the number of cases
    for atoms, k in extent.terms:
        atom = atoms[0] if len(atoms) == 1 else None
        if atom is None or not atom.computed or hasattr(atom, "divisor"):
            continue
        rest = extent - type(extent)({atoms: k})
        if hasattr(rest, "terms") and any(atom in others for others, _ in rest.terms):
            continue
        (a, b), (c, d) = bounds(rest), bounds(rest + k * atom.number)
        # the sum is the larger of both cases, or the smaller one if the term is subtracted
        return (max(a, c), max(b, d)) if k > 0 else (min(a, c), min(b, d))
    return None


def _bounds_by_factors(extent: Any) -> tuple[int, int] | None:
    """Bound a product of two extents without common symbols by the bounds of each; None for any
    other extent."""
    atoms = {atom for atoms, _ in extent.terms for atom in atoms}
    groups = _groups((atom.symbols(), atom) for atom in atoms)
    for group, _ in groups if len(groups) > 1 else ():
        pair = _factors(extent, group)
        if pair is not None:
            ends = [a * b for a in bounds(pair[0]) for b in bounds(pair[1])]
            return min(ends), max(ends)
    return None


def _factors(extent: Any, group: set) -> tuple[Any, Any] | None:
    """Split an extent into a factor with only the symbols in ``group`` and a factor with none of
    them; None if the rows of coefficients are not multiples of the first one."""
    rows: dict[tuple, dict[tuple, int]] = {}
    for atoms, k in extent.terms:
        inside = tuple(atom for atom in atoms if atom.symbols() & group)
        outside = tuple(atom for atom in atoms if not atom.symbols() & group)
        rows.setdefault(inside, {})[outside] = k
    first = next(iter(rows.values()))
    lead, common = next(iter(first)), gcd(*first.values())
    other = {atoms: k // common for atoms, k in first.items()}
    one = {}
    for atoms, row in rows.items():
        times = row.get(lead, 0) // other[lead]
        if row != {others: times * k for others, k in other.items()}:
            return None
        one[atoms] = times
    return type(extent)(one), type(extent)(other)


def _bounds_of_sum(extent: Any) -> tuple[int, int]:
    return _sum_of_terms(extent, lambda atom: atom.bounds)


def _sum_of_terms(extent: Any, ends: Callable[[Any], tuple]) -> tuple:
    """Return the sum of the ends of each term; no atom is negative."""
    low = high = 0
    for atoms, k in extent.terms:
        least = most = 1
        for small, large in map(ends, atoms):
            least, most = least * small, most * large
        low = low + k * (least if k > 0 else most)
        high = high + k * (most if k > 0 else least)
    return low, high


def bounds_of_cells(extent: Any, low: Sizes, high: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of an extent in each cell of the sizes from ``low`` to ``high``."""
    least, most = bounds(extent)  # closer if terms depend on each other, as in a minimum
    lower, upper = _sum_of_terms(extent, lambda atom: _atom_in_cells(atom, low, high))
    lower = np.maximum(lower, least if abs(least) <= MAX_EXACT else lower)
    return lower, np.minimum(upper, most if abs(most) <= MAX_EXACT else upper)


def _atom_in_cells(atom: Any, low: Sizes, high: Sizes) -> tuple:
    if not atom.computed:
        return low[atom.name], high[atom.name]
    lower, upper = bounds_of_cells(atom.number, low, high)
    return atom.apply(np.maximum(lower, 0)), atom.apply(upper)


def cells(symbols: Collection[Any]) -> tuple[Sizes, Sizes]:
    """Return the lowest and the highest sizes of cells that partition all sizes."""
    ordered = sorted(symbols, key=lambda s: s.name)
    each = max(int(MAX_CELLS ** (1 / max(len(ordered), 1))), 1)
    if each == 1:  # one cell; numpy has no axis for each of many symbols
        return {s.name: np.array([s.low]) for s in ordered}, {
            s.name: np.array([s.high]) for s in ordered
        }
    lows, highs = [], []
    for symbol in ordered:
        count = symbol.high - symbol.low + 1
        starts = symbol.low + np.unique(np.arange(each + 1) * count // each)[:-1]
        lows.append(starts)
        highs.append(np.append(starts[1:] - 1, symbol.high))
    if any(symbol.is_unbounded for symbol in ordered):  # products of sizes overflow integers
        lows, highs = ([ends.astype(np.float64) for ends in each] for each in (lows, highs))
    names = [symbol.name for symbol in ordered]
    low, high = (np.meshgrid(*ends, indexing="ij") for ends in (lows, highs))
    return dict(zip(names, low)), dict(zip(names, high))


def all_sizes(
    symbols: Collection[Any], limit: int = MAX_POINTS, dtype: Any = np.int64
) -> dict[str, np.ndarray] | None:
    """Return every combination of the symbols' sizes: by name an array with one axis per symbol;
    None if there are more than ``limit``."""
    if prod(s.high - s.low + 1 for s in symbols) > limit:
        return None
    axes = (np.arange(s.low, s.high + 1, dtype=dtype) for s in symbols)
    return dict(zip((s.name for s in symbols), np.meshgrid(*axes, indexing="ij")))


def _bounds_by_remainders(extent: Any) -> tuple[int, int] | None:
    """Bound an extent with quotients of a symbol by the bounds for each remainder of the symbol:
    with ``period * n + remainder`` in its place, the quotients are sums. None if there are too many
    remainders."""
    divisors: dict[Any, int] = {}
    for quotient, divisor in _quotients(extent):
        for symbol in quotient.number.symbols():
            divisors[symbol] = lcm(divisors.get(symbol, 1), divisor)
    # those of the other symbols are tried for each remainder
    if not divisors or prod(divisors.values()) > MAX_PERIOD or extent.weight > MAX_EXACT_WEIGHT:
        return None
    symbol = min(divisors, key=lambda each: each.name)
    period, low, high = divisors[symbol], [], []
    for first in range(symbol.low, min(symbol.low + period, symbol.high + 1)):
        last = (symbol.high - first) // period
        steps = replace(symbol, name=f"{symbol.name}_by_{period}", low=0, high=last, zeros=())
        part = extent.substitute({symbol.name: period * steps.extent + first})
        if hasattr(part, "terms") and any(steps in q.number.symbols() for q, _ in _quotients(part)):
            return None
        ends = bounds(part)
        low.append(ends[0])
        high.append(ends[1])
    return min(low), max(high)


def _bounds_by_pieces(extent: Any) -> tuple[int, int] | None:
    """Bound an extent with terms max(k * symbol + n, 0) by the bounds on each side of the symbol's
    values at which one of these changes. None if there are none, or too many."""
    values: dict[Any, set[int]] = {}
    if extent.weight > MAX_EXACT_WEIGHT:
        return None  # each piece is split again at the terms of other symbols
    for atoms, _ in extent.terms:
        for atom in atoms:
            is_maximum = atom.computed and not hasattr(atom, "divisor")
            line = linear_terms(atom.number) if is_maximum else None
            if line is not None:
                symbol, factor, first = line
                values.setdefault(symbol, set()).update((-first // factor, -(first // factor)))
    if sum(map(len, values.values())) > MAX_PIECES:
        return None
    for symbol, starts in values.items():
        low, high = symbol.bounds
        inside = sorted(n for n in starts if low < n <= high)
        if not inside:
            continue
        ends = []
        for number, (first, end) in enumerate(zip((low, *inside), (*inside, high + 1))):
            piece = replace(
                symbol, name=f"{symbol.name}_piece{number}", low=first, high=end - 1, zeros=()
            )
            part = piece.extent if first < end - 1 else first
            ends.append(bounds(extent.substitute({symbol.name: part})))
        return min(each[0] for each in ends), max(each[1] for each in ends)
    return None


def linear_terms(extent: Any) -> tuple[Any, int, int] | None:
    """Return (symbol, factor, first) of an extent ``factor * symbol + first``; None for others."""
    terms = dict(extent.terms)
    first = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((atoms, factor),) = terms.items()
    return (atoms[0], factor, first) if len(atoms) == 1 and not atoms[0].computed else None


def _quotients(extent: Any, outer: int = 1) -> Iterator[tuple[Any, int]]:
    """Yield the quotients in an extent, and in the numbers of these, each with the product of its
    divisor and those of the quotients around it."""
    for atoms, _ in extent.terms:
        for atom in atoms:
            if atom.computed:
                divisor = outer * getattr(atom, "divisor", 1)
                if hasattr(atom, "divisor"):
                    yield atom, divisor
                yield from _quotients(atom.number, divisor)


def _bounds_at_corners(extent: Any, symbols: set) -> tuple[int, int] | None:
    """Bound by the sign of the change with each symbol; None if a sign is not constant."""
    if any(a.computed for atoms, _ in extent.terms for a in atoms):
        return None
    if len(symbols) ** (max(len(atoms) for atoms, _ in extent.terms) - 1) > MAX_CHANGES:
        return None
    low, high = {}, {}
    for symbol in symbols:
        step = extent.substitute({symbol.name: symbol.extent + 1}) - extent
        least, most = bounds(step)
        if least < 0 < most:
            return None
        ends = (symbol.low, symbol.high) if least >= 0 else (symbol.high, symbol.low)
        low[symbol.name], high[symbol.name] = ends
    return int(extent.at(low)), int(extent.at(high))
