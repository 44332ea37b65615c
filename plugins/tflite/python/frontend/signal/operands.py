"""Options and operands of these operators, each held against what the operator takes."""

from __future__ import annotations

from tvmrt.compiler.ir import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.flexbuffer import read_map


def whole_options(ctx: OpContext, *names: str) -> list[int]:
    """Whole numbers by their names in the options. Raises ValueError where one is missing."""
    given = read_map(ctx.op.custom_options)
    missing = [n for n in names if not isinstance(given.get(n), int) or abs(given[n]) >= 2**31]
    if missing:
        raise ValueError(f"its options have no whole number {', '.join(missing)}")
    return [int(given[name]) for name in names]


def within(name: str, value: int, low: int, high: int) -> int:
    """An option that is between two numbers. Raises ValueError for another."""
    if not low <= value <= high:
        raise ValueError(f"its option {name} is {value}, not from {low} to {high}")
    return value


def operand(ctx: OpContext, index: int, dtype: str, rank: int | None = None) -> Value:
    """An operand of a type; without a rank it has an axis at least. Raises ValueError,
    and UnsupportedError for one whose extents a run chooses."""
    x = ctx.required(index)
    fits = x.type.rank >= 1 if rank is None else x.type.rank == rank
    if x.dtype.name not in dtype.split("|") or not fits:
        axes = "axes" if rank is None else f"{rank} axes"
        raise ValueError(f"operand {index} is {x.type}, not {dtype} of {axes}")
    if not all(isinstance(n, int) for n in x.shape):
        raise UnsupportedError(f"{x.type}, whose extents a run chooses")
    if x.type.size == 0:
        raise ValueError(f"operand {index} is empty")
    return x


def rows_of(ctx: OpContext, x: Value) -> Value:
    """x as [rows, elements of the last axis]."""
    return ctx.reshape(x, (x.type.size // x.shape[-1], x.shape[-1]))
