"""Tensors of strings. A string is one int64 handle, which operators move and select like a number.
Operators that read or create the text are in the plug-in ``onnx_text``."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from .contract import Contract, holds
from .dtype import STRING
from .op import Op, register
from .tensor_type import TensorType


class TextOp(Op):
    """String operator, only for hosts: a string is an address of memory that boards do not have."""

    host_only = "it handles strings, which are not supported on boards; do that before the network"


class StringsOp(TextOp):
    """String operator that returns strings."""

    def results(self, known: Mapping[str, Any]) -> list[TensorType]:
        return [type.with_source(STRING) for type in self.contract.result_types(known)]


@register("text_in")
class TextIn(StringsOp):
    """Handles of the strings of an input."""

    contract = Contract("x: handle[*S] -> y: int64[*S]")


@register("text_out")
class TextOut(TextOp):
    """Strings of an output."""

    contract = Contract("x: int64[*S] -> y: handle[*S]")


@register("texts")
class Texts(StringsOp):
    """Constant strings. ``values``: a tuple of them in row-major order."""

    contract = Contract(
        "-> y: int64[*shape]",
        "values: object, shape: ints 0..",
        rules=[
            holds(
                "shape has as many elements as values",
                lambda values, shape: isinstance(values, tuple) and prod(shape) == len(values),
            )
        ],
        example={"values": ("a", "b"), "shape": (2,)},
    )
