"""What a name of a network may stand for that is no tensor: sequences and optional values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from tvmrt.ir import Value


class TensorList:
    """A sequence of tensors, or of ``Nothing``: an optional value that is not there."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Held] = ()) -> None:
        self.values = list(values)


class Counted:
    """A sequence of the first ``count`` of some tensors, an int64 scalar that the run finds; the
    others have no elements along the axis along which they differ."""

    __slots__ = ("count", "values")

    def __init__(self, values: Sequence[Value], count: Value) -> None:
        self.values, self.count = list(values), count


class Stack:
    """A sequence of tensors of one type, along the first axis of ``value``."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class Nothing:
    """An optional value that is not there."""

    __slots__ = ()


class Perhaps:
    """An optional value that is there where ``there``, a scalar of the run, is true."""

    __slots__ = ("there", "value")

    def __init__(self, value: Held, there: Value) -> None:
        self.value, self.there = value, there


Held = Union[Value, TensorList, Counted, Stack, Nothing, Perhaps]
NO_TENSORS = (TensorList, Counted, Stack, Nothing, Perhaps)
