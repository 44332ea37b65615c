"""Value numbering: values of the same operators on the same operands get the same number.

Exporters duplicate a mask, and the nodes that count its elements, for each use. Two data-dependent
dimensions are equal if the values that define them have the same number. Each run checks that
others are equal where the network needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .graph import Node, Value
from .traits import Trait

_MAX_CONSTANT = 1 << 16  # bytes of a constant that is compared by its elements


def freeze(item: Any) -> Any:
    """Return attributes as something hashable."""
    if isinstance(item, dict):
        return tuple((k, freeze(v)) for k, v in sorted(item.items()))
    if isinstance(item, (list, tuple)):
        return tuple(freeze(v) for v in item)
    if isinstance(item, np.ndarray):
        return (item.dtype.str, item.shape, item.tobytes())
    if isinstance(item, np.generic):
        return item.item()
    return item


class ValueNumbers:
    """Numbers of the values of one import."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self._keys: dict[tuple[Any, ...], int] = {}

    def of(self, value: Value) -> int:
        """Return the number of a value, shared by all values with the same elements."""
        pending = [] if value in self._numbers else [value]
        while pending:
            current = pending[-1]
            missing = [v for v in _read(current) if v not in self._numbers]
            pending += missing
            if not missing:
                pending.pop()
                key = self._key(current)
                self._numbers.setdefault(current, self._keys.setdefault(key, len(self._keys)))
        return self._numbers[value]

    def _key(self, value: Value) -> tuple[Any, ...]:
        node = value.producer
        if value.data is not None and value.type.nbytes <= _MAX_CONSTANT:
            return ("constant", value.dtype.name, value.shape, value.data.tobytes())
        if value.data is not None or node is None:
            return ("value", id(value))
        numbers = [-1 if v is None else self._numbers[v] for v in node.inputs]
        if node.has(Trait.COMMUTATIVE):
            numbers.sort()
        guard = node.guard and (self._numbers[node.guard[0]], node.guard[1])
        place = node.outputs.index(value)
        return (node.op, tuple(numbers), freeze(node.attrs), place, guard, value.type)


def _read(value: Value) -> Iterator[Value]:
    node = value.producer
    if value.data is None and node is not None:
        yield from (v for v in node.inputs if v is not None)
        if node.guard is not None:
            yield node.guard[0]


def counted_mask(node: Node) -> Value | None:
    """Return the tensor whose nonzero elements a node counts; None if it does not count."""
    x = node.inputs[0] if node.inputs else None
    if node.op == "count_nonzero" or x is None:
        return x
    if node.op != "reduce_sum" or len(node.attrs["axes"]) != len(x.shape):
        return None
    while x.producer is not None and x.producer.has(Trait.REARRANGES, Trait.CONVERTS):
        x = x.producer.inputs[0]
        if x is None or x.dtype.name == "bool":
            return x
    return None
