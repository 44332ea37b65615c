"""Reductions along some axes, and cumulative operators along one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from .contract import Contract, holds, let
from .dtype import DType
from .op import REDUCE, Op, define, register
from .sizes import SymInt, sym_max
from .sizes.assumptions import are_equal
from .traits import SumOrder, Trait


def _reduced_shape(S: Sequence[int], axes: Sequence[int], keepdims: bool) -> list[int]:
    if keepdims:
        return [1 if d in axes else n for d, n in enumerate(S)]
    return [n for d, n in enumerate(S) if d not in axes]


class ReduceOp(Op):
    """Reduction. ``axes``: sorted, none negative; ``keepdims``: whether they stay with extent 1.

    In C the accumulator starts at ``start``, takes each element by ``step`` ({acc}, {x}) and
    ends through ``finish`` ({acc}, {n} elements). ``combine`` is the OpenMP reduction that lets
    compilers reorder it, or None. Integer sums and products wrap around; the extremum of
    floating-point numbers with a NaN is NaN.
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
    ) -> None:
        self.name = name
        self.start = start
        self.step = step
        self.finish = finish
        self.combine = combine
        if self.picks:
            self.traits = frozenset({Trait.EXTREMUM})
        elif combine == "+":
            self.sum_order = SumOrder.FOLD
        self.fn = fn

    contract = Contract(
        "x: E=computed[*S] -> y: E[*Y]",
        "axes: axes of x (operand 1), keepdims: bool",
        rules=[let("*Y", "S without axes, or with 1 in their places", _reduced_shape)],
    )

    def evaluate(self, arrays, attrs):
        x = arrays[0]
        if self.picks and not all(x.shape[axis] for axis in attrs["axes"]):
            return None  # numpy has no extremum of nothing
        wide = x.astype(np.float64) if x.dtype == np.float32 else x
        out = self.fn(wide, axis=tuple(attrs["axes"]), keepdims=bool(attrs["keepdims"]))
        return [np.asarray(out).astype(x.dtype)]

    @property
    def picks(self) -> bool:
        """Whether the result is one of the elements."""
        return self.combine in ("max", "min")

    def accumulator(self, dtype: DType) -> str:
        """Return the C type of the accumulator: integers are added and multiplied unsigned, because
        signed overflow is undefined."""
        if self.picks or not dtype.is_int:
            return dtype.c
        return "uint64_t" if dtype.bits == 64 else "uint32_t"

    def header_for(self, dtype: DType) -> str:
        """Return the header in ``kernels/`` with the accumulator's type and functions, or ""."""
        return ""

    def step_for(self, dtype: DType, acc: str, x: str, n: int) -> str:
        """Return the C expression that adds element ``x`` to a reduction over ``n`` elements."""
        if self.picks and dtype.is_float:
            # one comparison for most elements; once ``acc`` is NaN, it stays NaN
            holds = ">=" if self.combine == "max" else "<="
            return f"({acc} {holds} {x} || {acc} != {acc} ? {acc} : {x})"
        wide = self.accumulator(dtype)
        return self.step.format(acc=acc, x=x if wide == dtype.c else f"({wide}){x}")

    def finish_for(self, dtype: DType, acc: str, n: int) -> str:
        """Return the C expression of the result of a reduction over ``n`` elements."""
        wide = self.accumulator(dtype)
        result = self.finish.format(acc=acc, n=f"({wide}){sym_max(n, 1) if dtype.is_int else n}")
        return result if wide == dtype.c else f"({dtype.c})({result})"

    def start_for(self, dtype: DType) -> str:
        """Return the C literal of the accumulator's initial value."""
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


class MeanOp(ReduceOp):
    """Mean; for integers exact, rounded toward zero: the accumulator is wider than the elements."""

    traits = frozenset({Trait.MEAN})

    def accumulator(self, dtype: DType) -> str:
        if self.header_for(dtype):
            return f"tvmrt_mean_{dtype.name}"
        return "int64_t" if dtype.is_int else dtype.c

    def header_for(self, dtype: DType) -> str:
        return "op/mean.h" if dtype.is_int and dtype.bits == 64 else ""

    def step_for(self, dtype: DType, acc: str, x: str, n: int) -> str:
        if self.header_for(dtype):
            return f"tvmrt_mean_add_{dtype.name}({acc}, {x}, {n})"
        return super().step_for(dtype, acc, x, n)

    def start_for(self, dtype: DType) -> str:
        if self.header_for(dtype):
            return f"tvmrt_mean_start_{dtype.name}()"
        return "0"

    def finish_for(self, dtype: DType, acc: str, n: int) -> str:
        if self.header_for(dtype):
            return f"tvmrt_mean_end_{dtype.name}({acc}, {sym_max(n, 1)})"
        return super().finish_for(dtype, acc, n)


def _mean(x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return np.mean(x, axis=axis, keepdims=keepdims)
    count = max(prod(x.shape[d] for d in axis), 1)
    wide = x.astype(np.uint64 if x.dtype == np.uint64 else np.int64)
    whole, rest = np.divmod(wide, wide.dtype.type(count))
    rest = rest.sum(axis=axis, keepdims=keepdims)
    floor = whole.sum(axis=axis, keepdims=keepdims) + rest // count
    return floor + ((floor < 0) & (rest % count != 0)).astype(wide.dtype)


for _op in (
    ReduceOp("reduce_sum ReduceSum", "0", "{acc} + {x}", np.sum),
    MeanOp("reduce_mean ReduceMean", "0", "{acc} + {x}", _mean, "{acc} / {n}"),
    ReduceOp("reduce_prod ReduceProd", "1", "{acc} * {x}", np.prod, combine="*"),
    ReduceOp(
        "reduce_max ReduceMax", "lowest", "({x} > {acc} ? {x} : {acc})", np.max, combine="max"
    ),
    ReduceOp(
        "reduce_min ReduceMin", "highest", "({x} < {acc} ? {x} : {acc})", np.min, combine="min"
    ),
    ReduceOp(
        "reduce_sum_square ReduceSumSquare",
        "0",
        "{acc} + {x} * {x}",
        lambda x, **kw: np.sum(np.square(x), **kw),
    ),
):
    define(_op)


def _has_element(extent: SymInt, others: Sequence[SymInt]) -> bool:
    """Return whether an extent is not 0, or one of the others is 0 then."""
    return extent in others or extent > 0 or are_equal(prod(others), 0)


class ArgReduce(Op):
    """Index of the extremum along ``axis``; the first, or with ``select_last`` the last of equals.

    NaN precedes every number, for maximum and minimum alike, as in numpy.
    """

    traits = frozenset({Trait.ANY_LAYOUT})

    def __init__(self, name: str, largest: bool) -> None:
        self.name = name
        self.largest = largest

    contract = Contract(
        "x: computed[*S] -> y: int64[*Y]",
        "axis: axis of x, keepdims: bool, select_last: bool (select_last_index)",
        rules=[
            holds(
                "axis has an element",
                lambda S, axis: _has_element(S[axis], [*S[:axis], *S[axis + 1 :]]),
            ),
            let(
                "*Y",
                "S without axis, or with 1 in its place",
                lambda S, axis, keepdims: _reduced_shape(S, [axis], keepdims),
            ),
        ],
    )

    def evaluate(self, arrays, attrs):
        x, axis = arrays[0], attrs["axis"]
        pick = np.argmax if self.largest else np.argmin
        if x.shape[axis] == 0:
            index = np.empty(x.shape[:axis] + x.shape[axis + 1 :], np.int64)
        elif attrs["select_last"]:
            index = x.shape[axis] - 1 - pick(np.flip(x, axis), axis)
        else:
            index = pick(x, axis)
        return [np.expand_dims(index, axis) if attrs["keepdims"] else index]


define(ArgReduce("argmax ArgMax", True))
define(ArgReduce("argmin ArgMin", False))


@register("cumulative_sum", onnx="CumSum")
class CumulativeSum(Op):
    """Cumulative sum y[i] = x[0] + ... + x[i] along ``axis``; ``exclusive`` leaves x[i] out;
    ``reverse`` starts at the end.
    """

    sum_order = SumOrder.TERMS
    traits = frozenset({Trait.ANY_LAYOUT})
    function: np.ufunc = np.add

    contract = Contract(
        "x: E=float|int32|int64|uint32|uint64[*S] -> y: E[*S]",
        "axis: axis of x (operand 1), exclusive: bool, reverse: bool",
    )

    def evaluate(self, arrays, attrs):
        x = np.moveaxis(arrays[0], attrs["axis"], 0)[:: -1 if attrs["reverse"] else 1]
        if attrs["exclusive"] and len(x):
            x = np.roll(x, 1, 0)
            x[0] = self.function.identity
        y = self.function.accumulate(x, 0, x.dtype)[:: -1 if attrs["reverse"] else 1]
        return [np.moveaxis(y, 0, attrs["axis"])]


@register("cumulative_product", onnx="CumProd")
class CumulativeProduct(CumulativeSum):
    """Cumulative product along ``axis``, with the attributes of ``cumulative_sum``."""

    sum_order = None
    function = np.multiply


@register("det", onnx="Det")
class Determinant(Op):
    """Determinant of square matrices in the last two axes."""

    contract = Contract("x: E=float[*B N N] -> y: E[*B]")
