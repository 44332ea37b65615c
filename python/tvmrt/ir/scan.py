"""Running results along one axis, and other work that goes through rows one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import TensorType
from .op import Op, register


@register("cumulative_sum")
class CumulativeSum(Op):
    """out[i] = x[0] + ... + x[i] along ``axis``; ``exclusive`` leaves x[i] out; ``reverse`` starts
    at the end.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        if types[0].dtype.name == "bool":
            raise ValueError(f"{self.name} needs numbers, not bool")
        return [types[0]]


@register("cumulative_product")
class CumulativeProduct(CumulativeSum):
    """The same with products."""


@register("det")
class Determinant(Op):
    """Determinants of square matrices in the last two axes."""

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        x = types[0]
        if x.rank < 2 or x.shape[-1] != x.shape[-2] or not x.dtype.is_float:
            raise ValueError(f"determinant of {x}; square matrices of floats expected")
        return [TensorType(x.shape[:-2], x.dtype)]
