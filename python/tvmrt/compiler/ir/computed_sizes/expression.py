"""Numbers that a network computes from dynamic sizes.

Exporters write ``ceil(height / 2)`` as a cast to float, a division, a rounding and a cast back. A
:class:`SizeExpr` is such a number as a symbolic expression over extents. The operators' own
definitions evaluate it at any sizes, so it is rounded and wraps around as in the network. It has
bounds. It becomes an extent again if one is proven to be the same number at all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from tvmrt.option_syntax import option

from ..dtype import DTYPES, to_integers
from ..op import OPS
from ..sizes.bounds import MAX_EXACT, Sizes, bounds_of_cells, cells
from ..sizes.extent import INT_MAX, Extent, Symbol, SymInt, is_unbounded
from ..sizes.forms import symbols_of, value_at
from ..sizes.undecided import UndecidedExtent, deciding_by, describe_symbols
from .exact_results import ExactResult, constant_result, exact_result
from .intervals import Ends, result_interval, wide_interval

MAX_DEPTH = 256  # maximum nesting of operators
FLOATS = ("float32", "float64")
HALF = ("float16", "bfloat16")


class UndefinedSize(UndecidedExtent):
    """Error: a network computes a size by an operator whose result ONNX does not define."""


@dataclass(frozen=True, eq=False)
class SizeExpr:
    """A pointwise operator of the IR, ``op``, on ``operands``, or a leaf: ``value`` is an integer,
    an extent or a float.

    ``dtype``: an element type that networks compute in, or half precision between two casts.
    ``exact``: the number in exact arithmetic, if known. ``attrs``: attributes of the operator.
    """

    op: str
    operands: tuple[SizeExpr, ...]
    dtype: str
    value: Any
    key: bytes
    depth: int
    symbols: frozenset[Symbol]
    exact: ExactResult | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)

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

    def interval(self, low: Sizes, high: Sizes) -> Ends:
        """Return bounds of the number for sizes from ``low`` to ``high``."""
        return _visit_bottom_up(self, lambda expr, operands: _interval(expr, operands, low, high))


def _visit_bottom_up(expr: SizeExpr, function: Callable) -> Any:
    """Apply a function bottom-up to each number and the results for its operands, once each."""
    values: dict[bytes, Any] = {}

    def visit(each: SizeExpr) -> Any:
        if each.key not in values:
            values[each.key] = function(each, [visit(o) for o in each.operands])
        return values[each.key]

    with np.errstate(all="ignore"):
        return visit(expr)


def _at(expr: SizeExpr, operands: list, sizes: Sizes) -> Any:
    if not expr.op:
        return np.asarray(value_at(expr.value, sizes), DTYPES[expr.dtype].numpy)
    return _apply(expr, *operands)


def _apply(expr: SizeExpr, *operands: np.ndarray) -> np.ndarray:
    """Compute the operator by its definition, in the element type of the operands."""
    result = OPS[expr.op].evaluate(operands, dict(expr.attrs))
    return np.asarray(result[0])  # type: ignore[index]


def _interval(expr: SizeExpr, operands: list, low: Sizes, high: Sizes) -> Ends:
    if not expr.op:
        value = expr.value
        if isinstance(value, Extent):
            ends = bounds_of_cells(value, low, high)
            if is_unbounded(value) and max(np.abs(end).max() for end in ends) > MAX_EXACT:
                return _type_interval(expr.dtype)
        else:
            ends = (value, value)
        return tuple(np.asarray(end, expr.dtype) for end in ends)  # type: ignore[return-value]
    if expr.is_cast and expr.dtype == "bool":
        return _type_interval(expr.dtype)
    is_float = not DTYPES[expr.dtype].is_int
    if is_float or (expr.is_cast and expr.operands[0].dtype in FLOATS):
        found = result_interval(OPS[expr.op], operands, lambda *ends: _apply(expr, *ends))
        return _type_interval(expr.dtype) if found is None else found
    return _integer_interval(expr, operands)


def _integer_interval(expr: SizeExpr, operands: list) -> Ends:
    """Return bounds of an integer: where it may wrap around, those of its type."""
    wide = [[end if end.dtype == bool else end.astype(np.float64) for end in o] for o in operands]
    interval = wide_interval(OPS[expr.op], dict(expr.attrs), wide, True)  # type: ignore[arg-type]
    if interval is None:
        return _type_interval(expr.dtype)
    lower, upper = interval
    info = np.iinfo(expr.dtype)
    fits = (lower >= max(info.min, -MAX_EXACT)) & (upper <= min(info.max, MAX_EXACT))
    ends = [np.where(fits, end, 0).astype(info.dtype) for end in (lower, upper)]
    return np.where(fits, ends[0], info.min), np.where(fits, ends[1], info.max)


def _type_interval(dtype: str) -> Ends:
    if dtype in FLOATS:
        return np.asarray(-np.inf, dtype), np.asarray(np.inf, dtype)
    info = (False, True) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.asarray(info[0], dtype), np.asarray(info[1], dtype)


# Construction.


def leaf(value: SymInt | float, dtype: str = "int64") -> SizeExpr:
    """Return an integer, an extent or a float as a number."""
    if isinstance(value, Extent):
        symbols = frozenset(symbols_of(value))
        ranges = sorted((s.name, s.low, s.high) for s in symbols)
        exact: ExactResult | None = ExactResult(value)
    else:
        symbols, ranges = frozenset(), []
        exact = constant_result(value, dtype)
    text = value.text() if isinstance(value, Extent) else repr(np.asarray(value, dtype).tolist())
    return SizeExpr("", (), dtype, value, _key(text, dtype, ranges), 0, symbols, exact)


def combine(
    op: str, operands: Sequence[SizeExpr], dtype: str, attrs: Mapping[str, Any] | None = None
) -> SizeExpr:
    """Return a pointwise operator of the IR applied to numbers; an integer that is exact at all
    sizes is a leaf. Raises UndecidedExtent if the nesting is too deep."""
    simple = _simplified(op, operands, dtype)
    if simple is not None:
        return simple
    attrs = {"to": dtype} if op == "cast" else dict(attrs or {})
    depth = 1 + max(o.depth for o in operands)
    if depth > MAX_DEPTH:
        raise UndecidedExtent(f"a size is computed by more than {MAX_DEPTH} operators")
    symbols = frozenset().union(*(o.symbols for o in operands))
    key = _key(op, dtype, [o.key for o in operands], sorted(attrs.items()))
    try:
        with deciding_by(None):
            exact = exact_result(op, [o.exact for o in operands], operands[-1].dtype, dtype)
    except UndecidedExtent:
        exact = None
    result = SizeExpr(op, tuple(operands), dtype, None, key, depth, symbols, exact, attrs)
    if dtype in FLOATS or dtype in HALF:
        return result
    if exact is not None and exact.is_exact:
        return leaf(exact.value, dtype)  # type: ignore[arg-type]
    return result if symbols else leaf(result.at({}).item(), dtype)


def _simplified(op: str, operands: Sequence[SizeExpr], dtype: str) -> SizeExpr | None:
    """Return an equal operand, or an equal minimum or maximum; None if there is none."""
    if op == "identity" or (op == "cast" and operands[0].dtype == dtype):
        return operands[0]
    if op != "where":
        return None
    condition, *pair = operands
    if pair[0] == pair[1]:
        return pair[0]
    if not condition.op:
        return pair[0] if condition.value else pair[1]
    if condition.op not in _ORDER or dtype in FLOATS or set(condition.operands) != set(pair):
        return None
    is_min = _ORDER[condition.op] == (condition.operands[0] == pair[0])
    return combine("min" if is_min else "max", pair, dtype)


_ORDER = {"less": True, "less_equal": True, "greater": False, "greater_equal": False}


def inexact_error(op: str, *operands: SizeExpr) -> UndefinedSize:
    """Return the error for an operator that C libraries round differently."""
    symbols = {s for expr in operands for s in expr.symbols}
    return UndefinedSize(
        f"a size is computed by {op} from other sizes ({describe_symbols(symbols)}), which may be "
        f"rounded differently elsewhere; compute it exactly, or fix it with {option('shapes')}"
    )


def require_defined(expr: SizeExpr) -> None:
    """Raise UndefinedSize if ONNX does not define an operator's result at all sizes: for floats
    outside of the integer type that they are cast to, and for integer powers that overflow."""
    if not expr.op or expr.dtype in (*FLOATS, *HALF, "bool"):
        return
    if expr.is_cast and expr.operands[0].dtype in FLOATS:
        info, ends = np.iinfo(expr.dtype), bounds(expr.operands[0])
        if ends is not None and info.min - 1 < ends[0] <= ends[1] < info.max + 1:
            return
    elif expr.op not in ("pow", "pow_whole"):
        return
    raise UndefinedSize(
        f"a number that is computed from sizes ({describe_symbols(expr.symbols)}) may be outside "
        f"the range of {expr.dtype}; give closer bounds with {option('dims')}"
    )


def cast_to(expr: SizeExpr, dtype: str) -> SizeExpr:
    return expr if expr.dtype == dtype else combine("cast", [expr], dtype)


def _key(*parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=16).digest()


def constant_value(expr: SizeExpr) -> float | int | bool | None:
    """Return the number if it is known to be the same at all sizes; else None."""
    low, high = bounds(expr) or (0, 1)
    return low if low == high else None


@lru_cache(maxsize=1024)
def bounds(expr: SizeExpr) -> tuple[Any, Any] | None:
    """Return lower and upper bounds of the number; None if it is unbounded."""
    from_float = expr.is_cast and expr.operands[0].dtype in FLOATS  # is it finite?
    source = expr.operands[0] if from_float else expr
    lower, upper = source.interval(*cells(source.symbols))
    ends = lower.min(), upper.max()
    if not np.isfinite(ends).all():
        return None
    if expr.is_cast and expr.dtype == "bool":  # False between negative and positive numbers
        return bool(ends[0] > 0 or ends[1] < 0), bool(ends[0] or ends[1])
    low, high = (to_integers(end, DTYPES[expr.dtype].numpy).item() for end in ends)
    return low, high


def exact_extent(expr: SizeExpr) -> SymInt | None:
    """Return the extent that equals an integer at all sizes; None if none is known."""
    exact: Any = expr.exact
    if exact is not None and exact.is_exact and exact.is_whole:
        return exact.value
    low, high = bounds(expr) or (0, 1)
    return low if low == high and 0 <= low <= INT_MAX else None
