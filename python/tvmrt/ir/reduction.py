"""Reductions: fold the elements along some axes into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .dtype import DTYPES, DType
from .graph import TensorType
from .op import REDUCE, Op, define


class ReduceOp(Op):
    """``axes``: sorted, none negative; ``keepdims``: whether they stay with extent 1.

    In C the accumulator starts at ``start``, takes each element by ``step`` ({acc}, {x}) and
    ends through ``finish`` ({acc}, {n} elements). ``combine`` is the OpenMP name by which
    compilers may reorder the fold, or None.
    """

    kind = REDUCE

    def __init__(
        self,
        name: str,
        start: str,
        step: str,
        fn: Callable[..., np.ndarray],
        finish: str = "{acc}",
        combine: str | None = "+",
        floats_only: bool = False,
    ) -> None:
        self.name = name
        self.start = start
        self.step = step
        self.finish = finish
        self.combine = combine
        self.fn = fn
        self.floats_only = floats_only

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        if self.floats_only and not types[0].dtype.is_float:
            raise ValueError(f"{self.name} needs floats, not {types[0].dtype}")
        return [TensorType(reduced_shape(types[0], attrs), types[0].dtype)]

    def evaluate(self, arrays, attrs):
        x = arrays[0]
        wide = x.astype(np.float64) if x.dtype == np.float32 else x
        out = self.fn(wide, axis=tuple(attrs["axes"]), keepdims=bool(attrs["keepdims"]))
        return [np.asarray(out).astype(x.dtype)]

    def start_for(self, dtype: DType) -> str:
        """The C literal from which the fold starts."""
        if self.start not in ("lowest", "highest"):
            return self.start
        if dtype.is_float:
            return "-INFINITY" if self.start == "lowest" else "INFINITY"
        if dtype.name == "bool":
            return "0" if self.start == "lowest" else "1"
        info = np.iinfo(dtype.numpy)
        suffix = "LL" if dtype.bits == 64 and dtype.is_signed else "ULL" if dtype.bits == 64 else ""
        if dtype.is_signed and self.start == "lowest":
            return f"(-{info.max}{suffix} - 1)"
        suffix = suffix or ("" if dtype.is_signed else "u")
        return f"{info.min if self.start == 'lowest' else info.max}{suffix}"


def reduced_shape(type: TensorType, attrs: dict[str, Any]) -> tuple[int, ...]:
    """Shape after folding ``attrs['axes']``."""
    axes = set(attrs["axes"])
    if attrs["keepdims"]:
        return tuple(1 if d in axes else n for d, n in enumerate(type.shape))
    return tuple(n for d, n in enumerate(type.shape) if d not in axes)


def _prod(x: np.ndarray, **kw: Any) -> np.ndarray:
    return np.prod(x, **kw)


for _op in (
    ReduceOp("reduce_sum", "0", "{acc} + {x}", np.sum),
    ReduceOp("reduce_mean", "0", "{acc} + {x}", np.mean, "{acc} / {n}"),
    ReduceOp("reduce_prod", "1", "{acc} * {x}", _prod, combine="*"),
    ReduceOp("reduce_max", "lowest", "({x} > {acc} ? {x} : {acc})", np.max, combine="max"),
    ReduceOp("reduce_min", "highest", "({x} < {acc} ? {x} : {acc})", np.min, combine="min"),
    ReduceOp(
        "reduce_sum_square",
        "0",
        "{acc} + {x} * {x}",
        lambda x, **kw: np.sum(np.square(x), **kw),
    ),
):
    define(_op)


class ArgReduce(Op):
    """Index of the extreme along ``axis``, the first or (``select_last``) the last of equals."""

    def __init__(self, name: str, largest: bool) -> None:
        self.name = name
        self.largest = largest

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        shape = reduced_shape(types[0], {"axes": [attrs["axis"]], "keepdims": attrs["keepdims"]})
        if types[0].shape[attrs["axis"]] == 0:
            raise ValueError(f"{self.name} over an empty axis {attrs['axis']}")
        return [TensorType(shape, DTYPES["int64"])]

    def evaluate(self, arrays, attrs):
        x, axis = arrays[0], attrs["axis"]
        pick = np.argmax if self.largest else np.argmin
        if attrs["select_last"]:
            index = x.shape[axis] - 1 - pick(np.flip(x, axis), axis)
        else:
            index = pick(x, axis)
        return [np.expand_dims(index, axis) if attrs["keepdims"] else index]


define(ArgReduce("argmax", True))
define(ArgReduce("argmin", False))
