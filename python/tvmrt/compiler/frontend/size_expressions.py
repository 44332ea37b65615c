"""Floats and booleans that a network computes from dynamic sizes.

Exporters write ``ceil(height / 2)`` as a cast to float, a division, a rounding and a cast back. A
:class:`SizeExpr` is such a number as a symbolic expression over extents. It can be evaluated at
any sizes with the rounding of the network's element types, and it has bounds. It becomes an extent
again if an exact one gives the same number at all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from tvmrt.compiler.ir.extent import Extent, Symbol, SymInt, UndecidedExtent, symbols_of
from tvmrt.compiler.ir.extent_bounds import MAX_SIZES, all_sizes

from .interval_arithmetic import INTERVALS, Interval, cells, extent_interval
from .size_ratios import Ratio, constant_ratio, leaf_ratio, ratio_of

MAX_EXTENT = 2**31 - 1
MAX_DEPTH = 256  # maximum nesting of operators
FLOATS = ("float32", "float64")

Sizes = Mapping[str, Any]

# Operators in numpy; casts to integers truncate. A quotient has non-negative integer operands.
_NUMPY: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "ceil": np.ceil,
    "div": np.divide,
    "equal": np.equal,
    "floor": np.floor,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "neg": np.negative,
    "quotient": lambda a, b: np.floor_divide(a, np.maximum(b, 1)),
    "round": np.rint,
    "sqrt": np.sqrt,
    "sub": np.subtract,
    "where": np.where,
}


@dataclass(frozen=True, eq=False)
class SizeExpr:
    """``op`` of ``operands``, or a leaf: ``value`` is an integer, an extent or a float.

    ``dtype``: int64, bool, one of FLOATS, or float16 between two casts. ``ratio``: the number in
    exact arithmetic, if known.
    in exact arithmetic, if known.
    """

    op: str
    operands: tuple[SizeExpr, ...]
    dtype: str
    value: Any
    key: bytes
    depth: int
    symbols: frozenset[Symbol]
    ratio: Ratio | None = None

    @property
    def is_cast(self) -> bool:
        return self.op == "cast"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeExpr) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        if not self.op:
            return repr(self.value)
        return f"{self.op}({', '.join(map(repr, self.operands))})"

    def at(self, sizes: Sizes) -> Any:
        """Return the number at these sizes, which are arrays by symbol name."""
        return _visit_bottom_up(self, lambda expr, operands: _at(expr, operands, sizes))

    def interval(self, low: Sizes, high: Sizes) -> Interval:
        """Return bounds of the number for sizes from ``low`` to ``high``."""
        return _visit_bottom_up(self, lambda expr, operands: _interval(expr, operands, low, high))


def _visit_bottom_up(expr: SizeExpr, function: Callable) -> Any:
    """Apply a function bottom-up to each number and the results for its operands, once each."""
    found: dict[bytes, Any] = {}

    def visit(each: SizeExpr) -> Any:
        if each.key not in found:
            found[each.key] = function(each, [visit(o) for o in each.operands])
        return found[each.key]

    with np.errstate(all="ignore"):
        return visit(expr)


def _at(expr: SizeExpr, operands: list, sizes: Sizes) -> Any:
    if not expr.op:
        value = expr.value
        return np.asarray(value.at(sizes) if isinstance(value, Extent) else value, expr.dtype)
    if expr.is_cast:
        return _cast(operands[0], expr.dtype)
    return _NUMPY[expr.op](*operands)


def _cast(array: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(array).astype(dtype)


def _interval(expr: SizeExpr, operands: list, low: Sizes, high: Sizes) -> Interval:
    if not expr.op:
        value = expr.value
        ends = extent_interval(value, low, high) if isinstance(value, Extent) else (value, value)
        return tuple(np.asarray(end, expr.dtype) for end in ends)  # type: ignore[return-value]
    if expr.is_cast:
        return tuple(_cast(end, expr.dtype) for end in operands[0])  # type: ignore[return-value]
    return INTERVALS[expr.op](_NUMPY[expr.op], *operands)


# Construction.


def leaf(value: SymInt | float, dtype: str = "int64") -> SizeExpr:
    """Return an integer, an extent or a float as a number."""
    if isinstance(value, Extent):
        symbols = frozenset(symbols_of(value))
        ranges = sorted((s.name, s.low, s.high) for s in symbols)
        ratio = leaf_ratio(value)
    else:
        symbols, ranges = frozenset(), []
        ratio = constant_ratio(value, dtype)
    text = value.text() if isinstance(value, Extent) else repr(np.asarray(value, dtype).tolist())
    return SizeExpr("", (), dtype, value, _key(text, dtype, ranges), 0, symbols, ratio)


def combine(op: str, operands: Sequence[SizeExpr], dtype: str) -> SizeExpr:
    """Return an operator applied to numbers. Raises UndecidedExtent if the nesting is too deep."""
    depth = 1 + max(o.depth for o in operands)
    if depth > MAX_DEPTH:
        raise UndecidedExtent(f"a size is computed by more than {MAX_DEPTH} operators")
    symbols = frozenset().union(*(o.symbols for o in operands))
    key = _key(op, dtype, [o.key for o in operands])
    try:
        rule = "trunc" if op == "cast" and dtype == "int64" else op
        ratio = ratio_of(rule, [o.ratio for o in operands], dtype)
    except UndecidedExtent:
        ratio = None
    return SizeExpr(op, tuple(operands), dtype, None, key, depth, symbols, ratio)


def cast_to(expr: SizeExpr, dtype: str) -> SizeExpr:
    return expr if expr.dtype == dtype else combine("cast", [expr], dtype)


def _key(*parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=16).digest()


# Evaluation at all sizes.


def _sizes_of(expr: SizeExpr) -> dict[str, np.ndarray] | None:
    """Return all combinations of sizes; None if there are too many of them, as each operator needs
    an array of that size."""
    many = MAX_SIZES if expr.depth <= MAX_DEPTH // 8 else MAX_SIZES // 16
    return all_sizes(sorted(expr.symbols, key=lambda s: s.name), many)


@lru_cache(maxsize=1024)
def constant_value(expr: SizeExpr) -> float | int | bool | None:
    """Return the number if it is the same at all sizes; else None."""
    sizes = _sizes_of(expr)
    if sizes is None:
        low, high = bounds(expr) or (0, 1)
        return low if low == high else None
    found = np.asarray(expr.at(sizes))
    first = found.reshape(-1)[0]
    return first.item() if (found == first).all() else None


@lru_cache(maxsize=1024)
def bounds(expr: SizeExpr) -> tuple[Any, Any] | None:
    """Return lower and upper bounds of the number; None if it is unbounded."""
    source = expr.operands[0] if expr.is_cast else expr
    sizes = _sizes_of(expr)
    if sizes is not None:
        found = np.asarray(source.at(sizes))
        low, high = found.min(), found.max()
    else:
        lower, upper = source.interval(*cells(expr.symbols))
        low, high = lower.min(), upper.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    ends = [np.asarray(end).astype(expr.dtype).item() for end in (low, high)]
    return ends[0], ends[1]


def exact_extent(expr: SizeExpr) -> SymInt | None:
    """Return the extent that equals an int64 number at all sizes; None if none is known."""
    if expr.ratio is not None and _equals_ratio(expr):
        return expr.ratio.numerator
    ends = bounds(expr)
    if ends is None or not 0 <= ends[0] <= ends[1] <= MAX_EXTENT:
        return None
    steps = _linear_coefficients(expr)
    if steps is None:
        return constant_value(expr)
    first, *factors = steps
    symbols = sorted(expr.symbols, key=lambda s: s.name)
    return first + sum(k * (s.extent - s.low) for k, s in zip(factors, symbols))


@lru_cache(maxsize=1024)
def _linear_coefficients(expr: SizeExpr) -> tuple[int, ...] | None:
    """Return a number at the minimum sizes, and its growth per symbol, ordered by name; None if it
    is not linear."""
    symbols = sorted(expr.symbols, key=lambda s: s.name)
    sizes = _sizes_of(expr)
    if sizes is None or not symbols or any(s.low == s.high for s in symbols):
        return None
    found = np.broadcast_to(expr.at(sizes), sizes[symbols[0].name].shape)
    corner = (0,) * len(symbols)
    first = int(found[corner])
    factors = [
        int(found[tuple(int(i == axis) for i in range(len(symbols)))]) - first
        for axis in range(len(symbols))
    ]
    expected = first + sum(k * (sizes[s.name] - s.low) for k, s in zip(factors, symbols))
    return (first, *factors) if np.array_equal(found, expected) else None


@lru_cache(maxsize=1024)
def _equals_ratio(expr: SizeExpr) -> bool:
    """Return whether a number equals its exact quotient at all sizes."""
    ratio = expr.ratio
    if ratio is None or ratio.denominator != 1:
        return False
    sizes = _sizes_of(expr)
    if ratio.is_exact or sizes is None:
        return ratio.is_exact
    extent = ratio.numerator
    found = extent.at(sizes) if isinstance(extent, Extent) else extent
    return bool((expr.at(sizes) == found).all())
