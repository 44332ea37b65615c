"""What a name of a network may stand for that is no tensor: sequences and optional values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from tvmrt.compiler.ir import Value


@dataclass(eq=False, repr=False)
class TensorList:
    """A sequence of tensors, or of ``Nothing``: an optional value that is not there."""

    values: list[Held]


@dataclass(eq=False, repr=False)
class Counted:
    """A sequence of the first ``count`` of some tensors, an int64 scalar that the run finds; the
    others have no elements along the axis along which they differ."""

    values: list[Value]
    count: Value


@dataclass(eq=False, repr=False)
class Stack:
    """A sequence of tensors of one type, along the first axis of ``value``."""

    value: Value


class Nothing:
    """An optional value that is not there."""


@dataclass(eq=False, repr=False)
class Perhaps:
    """An optional value that is there where ``there``, a scalar of the run, is true."""

    value: Held
    there: Value


@dataclass(eq=False, repr=False)
class Alternatives:
    """One of two values that differ in their number of axes: ``yes`` where ``condition``, a scalar
    of the run, is true, else ``no``. ``name``: the node that makes it."""

    name: str
    condition: Value
    yes: Held
    no: Held


Held = Union[Value, TensorList, Counted, Stack, Nothing, Perhaps, Alternatives]
NO_TENSORS = (TensorList, Counted, Stack, Nothing, Perhaps)
