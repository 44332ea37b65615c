"""Narrow the dimensions of a network to the sizes at which all its operators fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeVar

import numpy as np

from tvmrt.error import Remark, UnsupportedError
from tvmrt.ir.assumptions import Assumptions, Condition, collecting
from tvmrt.ir.extent import Extent, Symbol, Whole, counts_in, exact_quotient, most, symbols_of
from tvmrt.ir.extent_bounds import all_sizes

from .dims import Narrowed

MAX_IMPORTS = 12
MAX_SIZES = 1 << 20  # combinations of sizes, all of which are tried

T = TypeVar("T")


def import_at_fitting_sizes(attempt: Callable[[Mapping[str, Narrowed]], T]) -> T:
    """Call ``attempt`` with dimensions that are narrowed until no condition on sizes is open.

    ``attempt`` imports the network with the narrowed dimensions. What it raises is raised where
    no sizes satisfy the conditions, or where they are of a form that is not known here.
    """
    narrowed: dict[str, Narrowed] = {}
    reasons: dict[str, str] = {}
    for _ in range(MAX_IMPORTS):
        result, problem = None, None
        with collecting() as assumed:
            try:
                result = attempt(narrowed)
            except (ValueError, UnsupportedError) as error:
                problem = error
        found = _solve(assumed.conditions)
        _add_bounds(found, assumed)
        if assumed.unbounded and problem is None and not found:
            raise UnsupportedError("; ".join(dict.fromkeys(assumed.unbounded.values())))
        if assumed.conditions and not found:
            return attempt(narrowed)  # raises what does not fit
        if problem is not None and not found:
            raise problem
        if not found:
            _warn(narrowed, reasons)
            return result  # type: ignore[return-value]
        for name, (sizes, node) in found.items():
            narrowed[name] = sizes
            if node:
                reasons[name] = node
    return attempt(narrowed)


def _warn(narrowed: Mapping[str, Narrowed], reasons: Mapping[str, str]) -> None:
    for name, sizes in narrowed.items():
        if sizes.node or name not in reasons:
            continue
        warnings.warn(
            f"the dimension {name} {sizes}: node {reasons[name]} fits at no other size",
            Remark,
            stacklevel=2,
        )


def _solve(conditions: Sequence[Condition]) -> dict[str, tuple[Narrowed, str]]:
    """Return narrower sizes by the names of dimensions, each with the node that asks for them."""
    found: dict[str, tuple[Narrowed, str]] = {}
    fits: dict[Symbol, np.ndarray] = {}
    nodes: dict[str, str] = {}
    for condition in conditions:
        if counts_in(*(symbol.extent for symbol in condition.symbols)):
            found.update(_equal_count(condition, found))
            continue
        same = _replaced(*condition.equal, condition.node, found) if condition.equal else {}
        found.update(same)
        for symbol, fit in {} if same else _fitting(condition).items():
            fits[symbol] = fits.get(symbol, True) & fit
            nodes.setdefault(symbol.name, condition.node)
    for symbol, fit in fits.items():
        sizes = None if symbol.name in found else _sizes_of(symbol, fit)
        if sizes is not None:
            found[symbol.name] = sizes, nodes[symbol.name]
    return found


def _fitting(condition: Condition) -> dict[Symbol, np.ndarray]:
    """Return which sizes of each dimension satisfy a condition, whatever the others are; nothing
    where they depend on each other."""
    symbols = sorted(condition.symbols, key=lambda s: s.name)
    sizes = all_sizes(symbols, MAX_SIZES)
    if sizes is None:
        return {}
    fit = condition.holds(sizes)
    axes = range(len(symbols))
    alone = [fit.any(axis=tuple(d for d in axes if d != axis)) for axis in axes]
    if not np.array_equal(fit, reduce(np.logical_and.outer, alone)):
        return {}
    return dict(zip(symbols, alone))


def _sizes_of(symbol: Symbol, fit: np.ndarray) -> Narrowed | None:
    """Return the sizes of a dimension that fit; None if none do, or if all do."""
    good = np.arange(symbol.low, symbol.high + 1)[fit]
    if not len(good) or fit.all():
        return None
    steps = np.unique(np.diff(good))
    if len(steps) <= 1:
        step = int(steps[0]) if len(steps) else 1
        return _in_steps(symbol, step, int(good[0]), int(good[-1]))
    return _multiples(symbol, set(good.tolist()))


def _in_steps(symbol: Symbol, step: int, low: int, high: int) -> Narrowed:
    first = low % step if step > 1 else 0
    return Narrowed((low - first) // step, (high - first) // step, step, first)


def _multiples(symbol: Symbol, good: set[int]) -> Narrowed | None:
    """Return the multiples of the smallest number whose multiples within the bounds all fit."""
    for step in range(2, symbol.high + 1):
        low = -(-max(symbol.low, 1) // step) * step
        multiples = range(low, symbol.high + 1, step)
        if multiples and good.issuperset(multiples):
            return _in_steps(symbol, step, multiples[0], multiples[-1])
    return None


def _replaced(
    a: Whole, b: Whole, node: str, taken: Mapping[str, object]
) -> dict[str, tuple[Narrowed, str]]:
    """Return a dimension that must be an extent of others for two extents to be equal."""
    difference = a - b
    if not isinstance(difference, Extent):
        return {}
    for atoms, factor in difference.terms:
        symbol = atoms[0] if len(atoms) == 1 else None
        if not isinstance(symbol, Symbol) or abs(factor) != 1 or symbol.name in taken:
            continue
        rest = difference - factor * symbol.extent
        others = symbols_of(rest)
        if symbol in others or any(other.name in taken for other in others):
            continue
        same = -factor * rest
        if isinstance(same, Extent):
            return {symbol.name: (Narrowed(same=same), node)}
    return {}


def _add_bounds(found: dict[str, tuple[Narrowed, str]], assumed: Assumptions) -> None:
    """Add bounds of sizes that the run finds and nothing bounds, by others that are equal."""
    highs, unbounded = dict(assumed.bounds), assumed.unbounded
    for condition in assumed.conditions:
        pair = condition.equal or ()
        for a, b in zip(pair, pair[::-1]):
            if not any(symbol.name in unbounded for symbol in symbols_of(b)):
                names = (s.name for s in symbols_of(a) if a == s.extent and s.name in unbounded)
                highs.update((name, most(b)) for name in names if name not in highs)
    for name, high in highs.items():
        sizes, node = found.get(name, (Narrowed(), ""))
        found[name] = replace(sizes, high=high), node


def _equal_count(
    condition: Condition, taken: Mapping[str, object]
) -> dict[str, tuple[Narrowed, str]]:
    """Return a size that a run finds, and what it must be for two extents to be equal."""
    a, b = condition.equal or (0, 0)
    difference = a - b
    if not isinstance(difference, Extent) or any(s.name in taken for s in condition.symbols):
        return {}
    for symbol in counts_in(difference):
        factor = dict(difference.terms).get((symbol,))
        if factor is None:
            continue
        rest = difference - factor * symbol.extent
        same = exact_quotient(-rest, factor) if factor > 0 else exact_quotient(rest, -factor)
        if same is None or symbol in symbols_of(same):
            continue
        return {symbol.name: (Narrowed(same=same, node=condition.node), condition.node)}
    return {}
