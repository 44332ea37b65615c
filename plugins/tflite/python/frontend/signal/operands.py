"""Validation of the options and operands of audio operators."""

from __future__ import annotations

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.flexbuffer import read_map


def integer_options(ctx: OpContext, *names: str) -> list[int]:
    """Return integer options by name. Raises ValueError if one is missing."""
    options = read_map(ctx.op.custom_options)
    missing = [n for n in names if not isinstance(options.get(n), int) or abs(options[n]) >= 2**31]
    if missing:
        raise ValueError(f"its options lack the integer {', '.join(missing)}")
    return [int(options[name]) for name in names]


def check_range(name: str, value: int, low: int, high: int) -> int:
    """Return an option's value. Raises ValueError if it is not between ``low`` and ``high``."""
    if not low <= value <= high:
        raise ValueError(f"its option {name} is {value}, not from {low} to {high}")
    return value


def operand(ctx: OpContext, index: int, dtype: str, rank: int | None = None) -> Value:
    """Return an operand of a type and rank (None: at least 1). Raises ValueError for another one,
    and UnsupportedError for a dynamic shape."""
    x = ctx.required(index)
    fits = x.type.rank >= 1 if rank is None else x.type.rank == rank
    if x.dtype.name not in dtype.split("|") or not fits:
        axes = "axes" if rank is None else f"{rank} axes"
        raise ValueError(f"operand {index} is {x.type}, not {dtype} of {axes}")
    if not all(isinstance(n, int) for n in x.shape):
        raise UnsupportedError(f"{x.type}, which has a dynamic shape")
    if x.type.size == 0:
        raise ValueError(f"operand {index} is empty")
    return x


def rows_of(ctx: OpContext, x: Value) -> Value:
    """Reshape x to [rows, elements of the last axis]."""
    return ctx.reshape(x, (x.type.size // x.shape[-1], x.shape[-1]))
