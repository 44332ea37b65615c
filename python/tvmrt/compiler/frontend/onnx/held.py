"""What a name of a network may stand for that is no tensor: sequences and optional values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import Whole, counts_in, shown


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
    of the run, is true, else ``no``. ``name``: the node that makes it, an If, or a Squeeze by
    ``extent``: that of the axis which goes where it is 1."""

    name: str
    condition: Value
    yes: Held
    no: Held
    extent: Whole | None = None

    @property
    def op(self) -> str:
        """The operator of the node."""
        return "If" if self.extent is None else "Squeeze"

    @property
    def decider(self) -> str:
        """What decides, for people."""
        return "condition" if self.extent is None else f"extent {shown(self.extent)}"

    @property
    def remedy(self) -> str:
        """What else helps where a run must not decide."""
        if self.extent is None or counts_in(self.extent):
            return ""
        return f", or bounds at which {shown(self.extent)} is not 1"

    def side(self, taken: bool) -> str:
        """One of both for people."""
        if self.extent is None:
            return "then branch" if taken else "else branch"
        return f"result {'without' if taken else 'with'} the axis of {shown(self.extent)} elements"


Held = Union[Value, TensorList, Counted, Stack, Nothing, Perhaps, Alternatives]
NO_TENSORS = (TensorList, Counted, Stack, Nothing, Perhaps)
