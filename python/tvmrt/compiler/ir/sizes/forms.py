"""Symbols, ends, forms and sums of extents, and the extents that memory is allocated for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from tvmrt.error import UnsupportedSizes

from .bounds import bounds, linear_terms
from .extent import INT_MAX, Extent, Symbol, SymInt, exact_quotient, is_unbounded, sym_min
from .undecided import UndecidedExtent

EXPECTED_SIZE = 128  # of a dimension without a bound, for estimates


@contextmanager
def error_context(places: Sequence[str]) -> Iterator[None]:
    """Add these node names to an UndecidedExtent error."""
    try:
        yield
    except UndecidedExtent as problem:
        raise UnsupportedSizes(f"{', '.join(places)}: {problem}") from problem


def upper_bound(value: SymInt) -> int:
    """Return the maximum of an extent."""
    return bounds(value)[1]


def lower_bound(value: SymInt) -> int:
    """Return the minimum of an extent."""
    return bounds(value)[0]


def as_extent(value: Any) -> SymInt:
    """Convert a number of any integer type to int; leave an extent unchanged."""
    return value if isinstance(value, Extent) else int(value)


def substitute(value: SymInt, sizes: Mapping[str, SymInt]) -> SymInt:
    """Return a number or extent with other extents in place of some symbols, by name."""
    return as_extent(value.substitute(sizes)) if isinstance(value, Extent) else value


def symbols_of(*values: Any) -> set[Symbol]:
    """Return the symbols in all extents among values, sequences of them and mappings to them."""
    symbols: set[Symbol] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, Extent):
            symbols |= value.symbols()
        elif isinstance(value, (tuple, list)):
            pending += value
        elif not isinstance(value, (int, str)) and isinstance(value, Mapping):  # slow
            pending += value.values()
    return symbols


def data_dependent_symbols(*values: Any) -> list[Symbol]:
    """Return the data-dependent symbols in all extents among values, sorted by name."""
    return sorted((s for s in symbols_of(*values) if s.source is not None), key=lambda s: s.name)


def extent_text(value: SymInt) -> str:
    """Return an extent as text."""
    return repr(value) if isinstance(value, Extent) else str(value)


def linear_form(extent: SymInt) -> tuple[Symbol, int, int] | None:
    """Return (symbol, step, first) of an extent ``step * symbol + first`` with a positive step;
    None for any other."""
    terms = linear_terms(extent) if isinstance(extent, Extent) else None
    return terms if terms is not None and terms[1] > 0 else None


def value_at(value: Any, sizes: Mapping[str, Any]) -> Any:
    """Return the value of a number or extent at sizes, by name; for arrays of these an array."""
    return value.at(sizes) if isinstance(value, Extent) else value


def solve(zero: SymInt, symbol: Symbol) -> SymInt | None:
    """Return the extent that a symbol must equal for ``zero`` to be 0; None if none is known."""
    factor = dict(zero.terms).get((symbol,)) if isinstance(zero, Extent) else None
    if factor is None:
        return None
    quotient = exact_quotient(factor * symbol.extent - zero, factor)
    return None if quotient is None or symbol in symbols_of(quotient) else quotient


def sym_sum(values: Iterable[SymInt]) -> SymInt:
    """Return the sum of extents, in less time than one addition after another."""
    total: dict = {}
    for value in values:
        for atoms, k in value.terms if isinstance(value, Extent) else [((), value)]:
            total[atoms] = total.get(atoms, 0) + k
    return Extent(total) + 0  # an integer, if no symbol remains


def expected_size(value: SymInt) -> int:
    """Return the upper bound of an extent for estimates and choices: a dimension without a bound
    counts as ``EXPECTED_SIZE``."""
    if not isinstance(value, Extent) or not is_unbounded(value):
        return upper_bound(value)
    return int(value.at({s.name: _expected(s) for s in value.symbols()}))


def _expected(symbol: Symbol) -> int:
    if not symbol.is_unbounded:
        return symbol.high
    return max(symbol.low, EXPECTED_SIZE if symbol.limit is None else expected_size(symbol.limit))


def allocation_extent(value: SymInt) -> SymInt:
    """Return an extent that is at least the given one for all values of its data-dependent symbols,
    for memory allocation. Those without a maximum remain, and those of a product of two that depend
    on open dimensions, whose maximum would be the square of an input: memory is allocated when a
    run has found them."""
    counts, highest = _counts(value), bounds(value)[1]
    if _is_product_of(counts, value):
        return value
    for count in sorted(counts, key=lambda s: s.name):
        maximum = _maximum(count)
        if maximum == count.extent or not isinstance(value, Extent):
            continue
        change = value.substitute({count.name: count.extent + 1}) - value
        low, high = bounds(change)
        if low >= 0:
            value = value.substitute({count.name: maximum})
        elif high <= 0:
            value = value.substitute({count.name: count.low})
        else:  # each term by itself
            value = _largest(value, count, maximum, True)
    if counts and highest < INT_MAX and is_unbounded(value):
        value = sym_min(value, highest)  # the terms of a remainder do not show its maximum
    return value


def allocation_shape(shape: Sequence[SymInt]) -> tuple[SymInt, ...]:
    """Return the extents of a tensor for memory allocation, as ``allocation_extent()`` of its
    elements."""
    size = prod(shape)
    return tuple(shape if _is_product_of(_counts(size), size) else map(allocation_extent, shape))


def _is_product_of(counts: set[Symbol], value: SymInt) -> bool:
    """Return whether an extent has a product of two data-dependent sizes without a bound."""
    open_counts = {count for count in counts if is_unbounded(_maximum(count))}
    return bool(open_counts) and any(
        sum(not open_counts.isdisjoint(atom.symbols()) for atom in atoms) > 1
        for atoms, _ in value.terms  # type: ignore[union-attr]
    )


def _counts(value: SymInt) -> set[Symbol]:
    return {s for s in symbols_of(value) if s.source is not None or s.local}


def _largest(value: SymInt, count: Symbol, maximum: SymInt, largest: bool) -> SymInt:
    """Return an extent that is at least, or at most, the given one for all values of a symbol:
    atoms are never negative and grow with their numbers, so a term is bounded by those of its
    atoms."""
    total: SymInt = 0
    for atoms, factor in value.terms if isinstance(value, Extent) else [((), value)]:
        up = largest == (factor > 0)
        product: SymInt = factor
        for atom in atoms:
            if atom == count:
                product = product * (maximum if up else count.low)
            elif isinstance(atom, Symbol) or count not in atom.symbols():
                product = product * Extent({(atom,): 1})
            else:
                product = product * atom.apply(_largest(atom.number, count, maximum, up))
        total = total + product
    return total


def _maximum(count: Symbol) -> SymInt:
    if not count.is_unbounded:
        return count.high
    return count.extent if count.limit is None else allocation_extent(count.limit)
