"""Sequence values, optional values and other names of a network that are not tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import SymInt, data_dependent_symbols, extent_text


@dataclass(eq=False, repr=False)
class TensorList:
    """A sequence of tensors, or of ``AbsentOptional`` for absent optional values."""

    values: list[OnnxValue]


@dataclass(eq=False, repr=False)
class DynamicTensorList:
    """A sequence of the first ``count`` of some tensors, with ``count`` a run-time int64 scalar.
    The other tensors are empty along the axis along which they differ."""

    values: list[Value]
    count: Value


@dataclass(eq=False, repr=False)
class StackedSequence:
    """A sequence of tensors of one type, stacked along the first axis of ``value``."""

    value: Value


@dataclass(eq=False, repr=False)
class AppendedSequence:
    """The tensors that an iteration of a loop has appended to a sequence of unknown elements."""

    values: list[Value]


@dataclass(eq=False, repr=False)
class PackedSequence:
    """A sequence of tensors that may differ along one axis, joined along that axis in ``value``.
    ``sizes``: the extent of each along it, an int64 vector."""

    value: Value
    axis: int
    sizes: Value


class AbsentOptional:
    """An absent optional value."""


@dataclass(eq=False, repr=False)
class DynamicOptional:
    """An optional value that is present if ``is_present``, a run-time scalar, is true."""

    value: OnnxValue
    is_present: Value


@dataclass(eq=False, repr=False)
class Alternatives:
    """One of two values of different rank: ``yes`` if ``condition``, a run-time scalar, is true,
    else ``no``. ``name``: the node that produces it, an If or a Squeeze. ``extent``: for a Squeeze,
    the extent of the axis that is removed if it is 1."""

    name: str
    condition: Value
    yes: OnnxValue
    no: OnnxValue
    extent: SymInt | None = None

    @property
    def op(self) -> str:
        """The operator of the node."""
        return "If" if self.extent is None else "Squeeze"

    @property
    def decider(self) -> str:
        """The deciding quantity, for messages."""
        return "condition" if self.extent is None else f"extent {extent_text(self.extent)}"

    @property
    def remedy(self) -> str:
        """An alternative remedy for messages, or ""."""
        if self.extent is None or data_dependent_symbols(self.extent):
            return ""
        return f", or bounds at which {extent_text(self.extent)} is not 1"

    def side(self, taken: bool) -> str:
        """Return the name of a side for messages."""
        if self.extent is None:
            return "then branch" if taken else "else branch"
        axis = f"the axis of {extent_text(self.extent)} elements"
        return f"result {'without' if taken else 'with'} {axis}"


OnnxValue = Union[
    Value,
    TensorList,
    DynamicTensorList,
    StackedSequence,
    AppendedSequence,
    PackedSequence,
    AbsentOptional,
    DynamicOptional,
    Alternatives,
]
SEQUENCE_TYPES = (TensorList, DynamicTensorList, StackedSequence, AppendedSequence, PackedSequence)
NON_TENSOR_TYPES = (*SEQUENCE_TYPES, AbsentOptional, DynamicOptional)


def tensors_of(values: Iterable[OnnxValue | None]) -> Iterator[Value]:
    """Yield the tensors in values, except for run-time counts and conditions."""
    for value in values:
        if isinstance(value, Value):
            yield value
        elif isinstance(value, (TensorList, DynamicTensorList)):
            yield from tensors_of(value.values)
        elif isinstance(value, (StackedSequence, DynamicOptional)):
            yield from tensors_of([value.value])
        elif isinstance(value, PackedSequence):
            yield from (value.value, value.sizes)
        elif isinstance(value, Alternatives):
            yield from tensors_of([value.yes, value.no])
