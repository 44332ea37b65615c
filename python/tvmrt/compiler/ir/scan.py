"""Cumulative operators along one axis, and other operators that process rows in order."""

from __future__ import annotations

from .contract import Contract
from .op import Op, register
from .traits import Trait


@register("cumulative_sum", onnx="CumSum")
class CumulativeSum(Op):
    """Cumulative sum y[i] = x[0] + ... + x[i] along ``axis``; ``exclusive`` leaves x[i] out;
    ``reverse`` starts at the end.
    """

    traits = frozenset({Trait.ANY_LAYOUT})

    contract = Contract(
        "x: E=float|int32|int64|uint32|uint64[*S] -> y: E[*S]",
        "axis: axis of x (operand 1), exclusive: bool, reverse: bool",
    )


@register("cumulative_product", onnx="CumProd")
class CumulativeProduct(CumulativeSum):
    """Cumulative product along ``axis``, with the attributes of ``cumulative_sum``."""


@register("det", onnx="Det")
class Determinant(Op):
    """Determinant of square matrices in the last two axes."""

    contract = Contract("x: E=float[*B N N] -> y: E[*B]")
