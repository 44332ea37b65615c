"""Conditions on the sizes of a run that a network imposes, collected while it is imported.

A network has a meaning only at sizes where its operators fit: a skip connection at those where both
branches have equal extents, a window where it fits into the image. Where the declared bounds leave
that open, the condition is assumed and noted; the importer then narrows the dimensions to the sizes
that satisfy all conditions (``tvmrt.frontend.size_conditions``). Outside of ``collecting()``
nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .extent import Extent, Symbol, Whole, bounds, symbols_of

Sizes = Mapping[str, Any]  # arrays of sizes by the names of symbols


@dataclass(frozen=True)
class Condition:
    """``holds`` maps arrays of sizes to an array of truth values; ``equal`` are the extents that
    must be equal, if it is that. ``node``: the node that imposes it."""

    symbols: frozenset[Symbol]
    holds: Callable[[Sizes], np.ndarray]
    node: str
    equal: tuple[Whole, Whole] | None = None


@dataclass
class Assumptions:
    """The conditions of one import; ``node`` is the one that is being imported. ``guarded``: it
    runs only where a condition of the run holds.

    ``unbounded``: what is wrong with sizes that the run finds and nothing bounds so far, by name;
    ``bounds``: how large some of them may be by what is made of them.
    """

    conditions: list[Condition] = field(default_factory=list)
    node: str = ""
    guarded: bool = False
    unbounded: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)


_current: ContextVar[Assumptions | None] = ContextVar("assumptions", default=None)


@contextmanager
def collecting() -> Iterator[Assumptions]:
    """Assume conditions that the bounds of dimensions leave open, and note them."""
    found = Assumptions()
    token = _current.set(found)
    try:
        yield found
    finally:
        _current.reset(token)


def enter_node(name: str, guarded: bool = False) -> None:
    """Say which node is being imported, and whether some runs leave it out."""
    current = _current.get()
    if current is not None:
        current.node, current.guarded = name, guarded


def may_assume() -> bool:
    """Whether conditions are collected, so that the network is imported again."""
    return _current.get() is not None


def assume_bound(name: str, problem: str) -> None:
    """Say that the bound of a size that the run finds is assumed until all of the network is known;
    ``problem`` is the error if nothing gives it one."""
    current = _current.get()
    if current is not None:
        current.unbounded[name] = problem


def note_bound(extent: Whole, high: int) -> None:
    """Say that a size that the run finds, if nothing else bounds it, is at most so large."""
    current = _current.get()
    for symbol in symbols_of(extent):
        if current is not None and symbol.name in current.unbounded and extent == symbol.extent:
            current.bounds.setdefault(symbol.name, high)


def are_equal(a: Whole, b: Whole) -> bool:
    """Whether two extents are equal, or may be and are assumed to be."""
    if a == b:
        return True
    difference = a - b
    if not isinstance(difference, Extent):
        return False
    low, high = bounds(difference)
    if low > 0 or high < 0:
        return False
    return _assume(symbols_of(difference), lambda sizes: difference.at(sizes) == 0, (a, b))


def is_at_least(extent: Whole, least: int) -> bool:
    """Whether an extent has no less than so many elements, or may have and is assumed to."""
    low, high = bounds(extent)
    if low >= least or high < least or not isinstance(extent, Extent):
        return low >= least
    return _assume(symbols_of(extent), lambda sizes: extent.at(sizes) >= least)


def _assume(
    symbols: set[Symbol],
    holds: Callable[[Sizes], np.ndarray],
    equal: tuple[Whole, Whole] | None = None,
) -> bool:
    current = _current.get()
    if current is None or current.guarded or any(symbol.local for symbol in symbols):
        return False  # what some runs leave out says nothing of the others
    if any(symbol.source is not None for symbol in symbols) and equal is None:
        return False
    current.conditions.append(Condition(frozenset(symbols), holds, current.node, equal))
    return True
