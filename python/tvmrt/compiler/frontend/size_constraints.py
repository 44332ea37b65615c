"""Narrow the dimensions of a network to the sizes at which all its operators are valid."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from tvmrt.compiler.ir import Builder
from tvmrt.compiler.ir.data_dependent_dims import SIZES_AT_WHICH
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    MAX_SIZES,
    Extent,
    Symbol,
    SymInt,
    all_sizes,
    data_dependent_symbols,
    lower_bound,
    solve,
)
from tvmrt.compiler.ir.sizes.assumptions import Assumptions, Condition, is_implied_by
from tvmrt.error import SizesWarning, TvmrtWarning

from .dims import Declaration, ValidSizes

MAX_RANGES = 6  # number of ranges in an error text
MAX_PERIOD = 512  # maximum period of the valid sizes
MAX_SAMPLE = 1 << 16  # sizes of dimensions without a bound that are tried


@dataclass(frozen=True)
class SizeConstraints:
    """Known restrictions of sizes: narrower dimensions by name, and conditions that a run checks
    first. ``reasons``: the node that requires a narrower dimension, by its name."""

    narrowed: Mapping[str, ValidSizes] = field(default_factory=dict)
    checked: tuple[Condition, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


def narrow_sizes(constraints: SizeConstraints, assumed: Assumptions) -> SizeConstraints | None:
    """Return the restrictions with those that the assumptions of an import add; None if they add
    none."""
    solution = solve_conditions(assumed.conditions)
    for symbol in () if solution else assumed.may_be_empty:
        if symbol.name not in constraints.narrowed:
            solution[symbol.name] = ValidSizes(0, symbol.high), ""
    checked = () if solution else _satisfiable_conditions(assumed.conditions)
    if not (solution or checked):
        return None
    narrowed = {name: sizes for name, (sizes, _) in solution.items()}
    reasons = {name: node for name, (_, node) in solution.items() if node}
    # conditions refer to the current dimensions: after narrowing they are found again
    known = () if narrowed else constraints.checked
    return SizeConstraints(
        {**constraints.narrowed, **narrowed},
        (*known, *checked),
        {**constraints.reasons, **reasons},
    )


def warn_of_constraints(constraints: SizeConstraints, declared: Mapping[str, Declaration]) -> None:
    """Warn that a network is valid at fewer sizes than the caller declared. The caller did not
    declare dimensions without an upper bound, and sizes that a run finds."""
    open_dims = {
        name
        for name, bounds in declared.items()
        if isinstance(bounds, (tuple, list)) and bounds[1] >= INT_MAX
    }

    def is_open(name: str) -> bool:
        return re.sub(r"(_by_\d+)+$", "", name) in open_dims

    messages = [
        f"the dimension {name} {sizes}, as node {constraints.reasons[name]} requires"
        for name, sizes in constraints.narrowed.items()
        if not sizes.node and name in constraints.reasons and not is_open(name)
    ]
    for text in messages:
        warnings.warn(text, TvmrtWarning, stacklevel=3)
    reported = [
        c
        for c in constraints.checked
        if not all(is_open(s.name) or s.source is not None for s in c.symbols)
    ]
    for words, conditions in _group_by_text(reported).items():
        is_of_several = any(len(condition.symbols) > 1 for condition in conditions)
        warnings.warn(
            f"a run needs sizes at which {words}, as node {conditions[0].node} requires",
            SizesWarning if is_of_several else TvmrtWarning,
            stacklevel=3,
        )


def _satisfiable_conditions(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """Return the conditions that each run has to check, without redundant ones. Return none if no
    size satisfies all conditions on a dimension."""
    kept: list[Condition] = []
    for condition in conditions:
        if is_implied_by(condition.zero, [other.zero for other in kept]):
            continue
        is_open = any(symbol.is_unbounded for symbol in condition.symbols)
        if is_open or condition.holds(_sample_sizes(condition.symbols)).any():
            kept.append(condition)
    fits = _by_dimension(kept).items()
    return () if any(not fit.any() and not s.is_unbounded for s, fit in fits) else tuple(kept)


def _by_dimension(conditions: Sequence[Condition]) -> dict[Symbol, np.ndarray]:
    """Return which sizes satisfy all conditions on a single dimension."""
    fits: dict[Symbol, np.ndarray] = {}
    for condition in conditions:
        if len(condition.symbols) != 1 or condition.counts:
            continue
        (symbol,) = condition.symbols
        sizes = all_sizes(_sampled(condition.symbols), MAX_SIZES)
        if sizes is not None:
            fits[symbol] = _both(fits.get(symbol), condition.holds(sizes))
    return fits


def _group_by_text(conditions: Sequence[Condition]) -> dict[str, list[Condition]]:
    """Group conditions by their text; conditions on the same single dimension share one."""
    fits, found = _by_dimension(conditions), {}
    for condition in conditions:
        fit = next((fits.get(s) for s in condition.symbols if len(condition.symbols) == 1), None)
        (*_, last) = condition.symbols
        words = condition.words if fit is None else describe_sizes(last, fit) or condition.words
        found.setdefault(words, []).append(condition)
    return found


def describe_sizes(symbol: Symbol, fit: np.ndarray) -> str | None:
    """Describe the valid sizes of a dimension by their remainders or as ranges; None if the text
    would be too long."""
    sizes = symbol.low + np.arange(len(fit))
    if not fit.any():  # of those that were tried
        return None
    for period in range(2, min(len(sizes) // 2, MAX_PERIOD) + 1):
        left = np.unique(sizes[fit] % period)
        if np.array_equal(np.isin(sizes % period, left), fit):
            words = _ranges(left)
            return words and f"{symbol.name} modulo {period} is {words}"
    words = _ranges(sizes[fit])
    return words and f"{symbol.name} is {words}"


def _ranges(numbers: np.ndarray) -> str | None:
    """Format ascending numbers as "0, 2 to 5 or 9"."""
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    if len(parts) > MAX_RANGES:
        return None
    words = [f"{p[0]} to {p[-1]}" if len(p) > 1 else str(p[0]) for p in parts]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _sample_sizes(symbols: Collection[Symbol]) -> dict[str, np.ndarray]:
    """Return all combinations of sizes, or those of the largest sizes of each dimension, or of the
    smallest ones if it has no bound."""
    count = int(MAX_SIZES ** (1 / len(symbols)))
    closer = [
        sampled if sampled is not s else replace(s, low=max(s.low, s.high - count + 1))
        for s, sampled in zip(symbols, _sampled(symbols))
    ]
    return all_sizes(closer, MAX_SIZES) or {}


def solve_conditions(conditions: Sequence[Condition]) -> dict[str, tuple[ValidSizes, str]]:
    """Return narrower sizes by dimension, each with the node that requires them."""
    result: dict[str, tuple[ValidSizes, str]] = {}
    fits: dict[Symbol, np.ndarray] = {}
    nodes: dict[str, str] = {}
    for condition in conditions:
        if condition.counts:
            result.update(_solve_data_dependent(condition, result))
            continue
        same = _solve_equality(*condition.equal, condition.node, result) if condition.equal else {}
        result.update(same)
        for symbol, fit in {} if same else _valid_sizes_by_symbol(condition).items():
            fits[symbol] = _both(fits.get(symbol), fit)
            nodes.setdefault(symbol.name, condition.node)
    for symbol, fit in fits.items():
        sizes = None if symbol.name in result else _valid_sizes(symbol, fit)
        if sizes is not None:
            result[symbol.name] = sizes, nodes[symbol.name]
    return result


def _both(fit: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    """Return which of the sizes that were tried for both conditions satisfy both."""
    return other if fit is None else fit[: len(other)] & other[: len(fit)]


def _sampled(symbols: Collection[Symbol]) -> list[Symbol]:
    """Return the dimensions of a condition with the sizes that are tried of those without a bound:
    the smallest ones."""
    count = min(int(MAX_SAMPLE ** (1 / len(symbols))), MAX_SAMPLE // 32)
    return [replace(s, high=s.low + count - 1) if s.is_unbounded else s for s in symbols]


def _valid_sizes_by_symbol(condition: Condition) -> dict[Symbol, np.ndarray]:
    """Return which sizes of each dimension satisfy a condition for any sizes of the others; empty
    if the dimensions depend on each other, or no sizes that are tried satisfy it."""
    symbols = sorted(condition.symbols, key=lambda s: s.name)
    sizes = all_sizes(_sampled(symbols), MAX_SIZES)
    if sizes is None:
        return {}
    fit = condition.holds(sizes)
    axes = range(len(symbols))
    alone = [fit.any(axis=tuple(d for d in axes if d != axis)) for axis in axes]
    if not fit.any() or not np.array_equal(fit, reduce(np.logical_and.outer, alone)):
        return {}
    return dict(zip(symbols, alone))


def _valid_sizes(symbol: Symbol, fit: np.ndarray) -> ValidSizes | None:
    """Return the valid sizes of a dimension: with a step if they are evenly spaced, else as a
    range. None if all or none are valid."""
    good = symbol.low + np.flatnonzero(fit)
    if not len(good) or fit.all():
        return None
    low, high = int(good[0]), int(good[-1])
    if symbol.is_unbounded and symbol.low + len(fit) - high <= len(fit) // 4:
        high = symbol.high  # the next import checks it, or each run
    steps = np.unique(np.diff(good))
    if len(steps) > 1:
        return ValidSizes(low, high) if (low, high) != symbol.bounds else None
    return _strided_sizes(symbol, int(steps[0]) if len(steps) else 1, low, high)


def _strided_sizes(symbol: Symbol, step: int, low: int, high: int) -> ValidSizes:
    first = low % step if step > 1 else 0
    most = INT_MAX if high >= INT_MAX else (high - first) // step
    return ValidSizes((low - first) // step, most, step, first)


def _solve_equality(
    a: SymInt, b: SymInt, node: str, taken: Mapping[str, object]
) -> dict[str, tuple[ValidSizes, str]]:
    """Return a dimension that must equal an extent of others for two extents to be equal. A
    difference, which may be negative, is none: each run checks the equation."""
    difference = a - b
    if not isinstance(difference, Extent):
        return {}
    for symbol in (atoms[0] for atoms, _ in difference.terms if len(atoms) == 1):
        same = None if symbol.computed or symbol.name in taken else solve(difference, symbol)
        if not isinstance(same, Extent) or lower_bound(same) < 0:
            continue
        if not any(s.name in taken for s in same.symbols()):
            return {symbol.name: (ValidSizes(same=same), node)}
    return {}


def _solve_data_dependent(
    condition: Condition, taken: Mapping[str, object]
) -> dict[str, tuple[ValidSizes, str]]:
    """Return the value that a data-dependent size must have for two extents to be equal."""
    a, b = condition.equal or (0, 0)
    difference = a - b
    if not isinstance(difference, Extent) or any(s.name in taken for s in condition.symbols):
        return {}
    for symbol in data_dependent_symbols(difference):
        same = solve(difference, symbol)
        if same is not None:
            return {symbol.name: (ValidSizes(same=same, node=condition.node), condition.node)}
    return {}


def emit_size_checks(builder: Builder, conditions: Sequence[Condition]) -> None:
    """Add checks of the conditions at the start of a run."""
    for words, those in _group_by_text(conditions).items():
        name = those[0].node
        builder.sources, builder.guard = (name,), None
        emit_size_check(builder, name, those, f"node {name}", f"{SIZES_AT_WHICH}{words}")


def emit_size_check(
    builder: Builder, name: str, conditions: Sequence[Condition], where: str, text: str
) -> None:
    """Let a run check conditions; ``where`` and ``text`` are those of its error."""
    symbols = sorted(set().union(*(c.symbols for c in conditions)), key=lambda s: s.name)
    zeros, sizes = tuple(c.zero for c in conditions), tuple(s.extent for s in symbols)
    found, actual = (
        builder.emit("extents", [], name, values=values, shape=(len(values),))
        for values in (zeros, sizes)
    )
    where = f"{where}, sizes [{', '.join(s.name for s in symbols)}]"
    expected = (0,) * len(zeros)
    builder.emit("require", [found, actual], name, expected=expected, where=where, text=text)
