"""Forms and sums of extents, and the extents that memory is allocated for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tvmrt.error import UnsupportedSizes

from .extent import (
    Extent,
    Symbol,
    SymInt,
    UndecidedExtent,
    data_dependent_symbols,
    lower_bound,
    symbols_of,
)


@contextmanager
def error_context(places: Sequence[str]) -> Iterator[None]:
    """Add these node names to an UndecidedExtent error."""
    try:
        yield
    except UndecidedExtent as problem:
        raise UnsupportedSizes(f"{', '.join(places)}: {problem}") from problem


def linear_form(extent: SymInt) -> tuple[Symbol, int, int] | None:
    """Return (symbol, step, first) of an extent ``step * symbol + first`` with a positive step;
    None for any other."""
    if not isinstance(extent, Extent):
        return None
    terms = dict(extent.terms)
    first = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((atoms, step),) = terms.items()
    is_linear = len(atoms) == 1 and isinstance(atoms[0], Symbol) and step > 0
    return (atoms[0], step, first) if is_linear else None  # type: ignore[return-value]


def sym_sum(values: Iterable[SymInt]) -> SymInt:
    """Return the sum of extents, in less time than one addition after another."""
    total: dict = {}
    for value in values:
        for atoms, k in value.terms if isinstance(value, Extent) else [((), value)]:
            total[atoms] = total.get(atoms, 0) + k
    return Extent(total) + 0  # an integer, if no symbol remains


def allocation_extent(value: SymInt) -> SymInt:
    """Return the extent with data-dependent symbols at their maximum, for memory allocation."""
    counts = data_dependent_symbols(value)
    if not counts:
        return value
    others = {s.name: s.extent for s in symbols_of(value)}
    at_maximum = value.at({**others, **{s.name: s.high for s in counts}})
    at_minimum = value.at({**others, **{s.name: s.low for s in counts}})
    return at_maximum if lower_bound(at_maximum - at_minimum) >= 0 else at_minimum
