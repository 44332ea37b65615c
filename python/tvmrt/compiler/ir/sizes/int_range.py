"""Which sizes C's int can hold, the type of generated expressions where it suffices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

# The maximum of a dimension without a bound, and of the elements of a tensor, which each run checks
# where the compiler cannot.
INT_MAX = 2**31 - 1

Term = tuple[tuple[Any, ...], int]  # a product of atoms, and its factor


def is_unbounded(*values: Any) -> bool:
    """Return whether extents or their parts depend on a dimension without a bound."""
    return any(s.is_unbounded for v in values if hasattr(v, "symbols") for s in v.symbols())


def may_exceed_int(extent: Any) -> bool:
    """Return whether a term, or the sum of the positive ones, may exceed C's int. A run checks the
    sizes of tensors with an unbounded dimension, but not products that are subtracted."""
    if not is_unbounded(extent):
        return any(abs(k) * prod(a.bounds[1] for a in atoms) > INT_MAX for atoms, k in extent.terms)
    positive, negative = _sides(extent)
    return any(atoms for atoms, _ in negative) and not _is_single(positive)


def part_may_exceed_int(number: Any) -> bool:
    """Return whether the number inside a quotient or maximum, which no run checks, may exceed C's
    int: if dimensions have no bound, all but a difference of single sizes."""
    return is_unbounded(number) and not all(map(_is_single, _sides(number)))


def _sides(extent: Any) -> tuple[list[Term], list[Term]]:
    """Return the positive and the negative terms."""
    return [t for t in extent.terms if t[1] > 0], [t for t in extent.terms if t[1] < 0]


def _is_single(terms: Sequence[Term]) -> bool:
    """Return whether terms are at most one size or one number, which C's int can hold."""
    if not terms:
        return True
    (atoms, factor), *more = terms
    return not more and (not atoms or (len(atoms) == 1 and abs(factor) == 1))
