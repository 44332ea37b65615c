"""Value numbering: values that have the same elements in every run get the same number.

Exporters duplicate a mask, and the nodes that count its elements, for each use. Two data-dependent
dimensions are equal if the values that define them have the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from .graph import Node, Value
from .op import OPS
from .sizes import SymInt, exact_quotient
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
                if current not in self._numbers:
                    self._numbers[current] = self._number(current)
        return self._numbers[value]

    def _number(self, value: Value) -> int:
        key = _constant_key(value)
        if key is None and value.producer is not None:
            key = self._key(value, value.producer)
            if isinstance(key, int):
                return key
        return self._keys.setdefault(key or ("value", id(value)), len(self._keys))

    def _key(self, value: Value, node: Node) -> tuple[Any, ...] | int:
        """Return the key of a node's result, or the number of the operand that it repeats."""
        same = _forwarded_operand(node)
        if same is not None and node.guard is None:
            return self._numbers[same]
        operator, inputs = node.operator, list(node.inputs)
        if node.op in _SOURCES:
            inputs[0] = _SOURCES[node.op](node)
        compared = _negated_comparison(node)
        if compared is not None:
            operator, inputs = OPS[compared.operator.negated], list(compared.inputs)
        if operator.swapped > operator.name:
            operator, inputs = OPS[operator.swapped], inputs[::-1]
        numbers = [-1 if v is None else self.of(v) for v in inputs]
        if operator.has(Trait.COMMUTATIVE):
            numbers.sort()
        guard = node.guard and (self.of(node.guard[0]), node.guard[1])
        place = node.outputs.index(value)
        return (operator.name, tuple(numbers), freeze(node.attrs), place, guard, value.type)

    def count(self, number: Value) -> tuple[tuple[Any, ...], Value | None, SymInt]:
        """Return (key, mask, factor) of an integer scalar. Two scalars with equal keys have the
        ratio of their factors in every run. The scalar is the factor times the number of nonzero
        elements of the mask; the mask is None if it does not count elements."""
        while number.producer is not None and _keeps_integer(number.producer):
            number = number.producer.inputs[0]  # type: ignore[assignment]
        node = number.producer
        counted = None if node is None or node.guard is not None else counted_mask(node)
        if counted is None:
            return ("number", self.of(number)), None, 1
        mask, factor = _simplify_mask(counted)
        return ("nonzero", self.of(mask)), mask, factor


def _constant_key(value: Value) -> tuple[Any, ...] | None:
    if value.data is None or value.type.nbytes > _MAX_CONSTANT:
        return None
    return ("constant", value.dtype.name, value.shape, value.data.tobytes())


def _read(value: Value) -> Iterator[Value]:
    node = value.producer
    if value.data is None and node is not None:
        yield from (v for v in node.inputs if v is not None)
        if node.guard is not None:
            yield node.guard[0]


def _negated_comparison(node: Node) -> Node | None:
    """Return the comparison of integers that a node negates; the result is one, too."""
    compared = node.inputs[0].producer if node.op == "logical_not" else None  # type: ignore[union-attr]
    if compared is None or not compared.operator.negated or compared.guard is not None:
        return None
    is_int = all(v is not None and v.dtype.is_int for v in compared.inputs)
    return compared if is_int else None


def _source(node: Node, is_dropped: Callable[[Node], bool] = lambda node: True) -> Value:
    """Return the source of a chain of nodes of one operator, the last of which is enough."""
    x = _first_operand(node)
    before = x.producer
    while before is not None and before.op == node.op and before.guard is None:
        if not is_dropped(before):
            break
        x = _first_operand(before)
        before = x.producer
    return x


def _first_operand(node: Node) -> Value:
    """Return the first operand, which must be present."""
    value = node.inputs[0]
    assert value is not None
    return value


def _forwarded_operand(node: Node) -> Value | None:
    """Return the operand whose elements a node repeats unchanged; None if it does not."""
    x = node.inputs[0] if node.inputs else None
    if x is None:
        return None
    if node.op in _SOURCES:
        x = _SOURCES[node.op](node)
        return x if x.type == node.outputs[0].type else None
    if node.op == "logical_not":
        inner = x.producer
        return inner.inputs[0] if inner is not None and inner.op == node.op else None
    if node.op in _NEUTRAL:
        a, b = node.inputs
        for one, other in ((a, b), (b, a)):
            same_type = one.type == node.outputs[0].type  # type: ignore[union-attr]
            if same_type and (one is other or _is_all(other, _NEUTRAL[node.op])):
                return one
    return None


def _is_all(value: Value | None, expected: Any) -> bool:
    """Return whether all elements of a constant are this number."""
    return value is not None and value.data is not None and bool((value.data == expected).all())


def _is_lossless(before: Value, after: Value) -> bool:
    """Return whether a cast maps all distinct numbers of a type to distinct ones."""
    a, b = before.dtype, after.dtype
    if a.name == "bool" or a == b:
        return b.name != "bool" or a == b
    return a.is_int and b.is_int and a.bits < b.bits and b.name.startswith("int")


def _keeps_integer(node: Node) -> bool:
    """Return whether the node returns its integer scalar unchanged."""
    if node.has(Trait.REARRANGES):
        return True
    return (
        node.has(Trait.CONVERTS)
        and node.inputs[0].dtype.is_int
        and node.outputs[0].dtype.bits >= 32
    )  # type: ignore[union-attr]


def counted_mask(node: Node) -> Value | None:
    """Return the tensor whose nonzero elements a node counts; None if it does not count."""
    rule = _COUNTS.get(node.op)
    return None if rule is None else rule(node)


def _summed_mask(node: Node) -> Value | None:
    x = node.inputs[0]
    if x is None or len(node.attrs["axes"]) != len(x.shape):
        return None
    while x.producer is not None and x.producer.has(Trait.REARRANGES, Trait.CONVERTS):
        x = x.producer.inputs[0]
        if x is None or x.dtype.name == "bool":
            return x
    return None


def _simplify_mask(mask: Value) -> tuple[Value, SymInt]:
    """Return a simpler tensor with the nonzero elements of a mask, and the number of elements of
    the mask that each of its elements stands for."""
    factor: SymInt = 1
    while mask.producer is not None and mask.producer.guard is None:
        node = mask.producer
        x = node.inputs[0] if node.inputs else None
        rule = _MASK_RULES.get(node.op)
        count = rule(mask, node) if rule else 1 if node.has(Trait.REARRANGES) else None
        if count is None:
            break
        mask, factor = x, factor * count  # type: ignore[assignment, operator]
    return mask, factor


def _repeat_count(mask: Value, node: Node) -> SymInt | None:
    """Return how often an expansion repeats each element."""
    sizes = prod(mask.shape), prod(_first_operand(node).shape)
    return None if 0 in sizes else exact_quotient(*sizes)


def _keeps_zero(mask: Value, node: Node) -> int | None:
    """Return 1 if a cast returns 0 only for 0, else None."""
    before = _first_operand(node)
    of_bool = "bool" in (mask.dtype.name, before.dtype.name)
    return 1 if of_bool or _is_lossless(before, mask) else None


def _chooses_one(mask: Value, node: Node) -> int | None:
    """Return 1 if a where node is nonzero exactly where its condition is true, else None."""
    condition, yes, no = node.inputs
    if condition is None or yes is None or yes.data is None or condition.shape != mask.shape:
        return None
    return 1 if bool((yes.data != 0).all()) and _is_all(no, 0) else None


# Sources of the elements of nodes that keep them, other than their type and number.
_SOURCES: dict[str, Callable[[Node], Value]] = {
    "cast": lambda node: _source(
        node, lambda cast: _is_lossless(_first_operand(cast), cast.output)
    ),
    "expand": _source,
    "identity": _source,
    "reshape": _source,
}
_NEUTRAL = {"logical_and": True, "logical_or": False}  # operand that returns the other one
_COUNTS: dict[str, Callable[[Node], Value | None]] = {
    "count_nonzero": _first_operand,
    "reduce_sum": _summed_mask,
}
# How many elements of the node's result, a mask, each element of its operand stands for.
_MASK_RULES: dict[str, Callable[[Value, Node], SymInt | None]] = {
    "cast": _keeps_zero,
    "expand": _repeat_count,
    "where": _chooses_one,
}
