"""Order comparisons of two tensors in one form."""

from __future__ import annotations

from typing import NamedTuple

from .graph import Node, Value

_OR_EQUAL = {"less": False, "less_equal": True}  # the others have swapped operands


class Comparison(NamedTuple):
    """Whether ``small`` is less than ``great``, or equal to it with ``or_equal``."""

    small: Value
    great: Value
    or_equal: bool


def comparison_of(node: Node | None) -> Comparison | None:
    """Return the comparison that a node computes; None if it computes anything else."""
    if node is None or not node.operator.swapped:
        return None
    a, b = node.inputs
    if node.op in _OR_EQUAL:
        return Comparison(a, b, _OR_EQUAL[node.op])
    return Comparison(b, a, _OR_EQUAL[node.operator.swapped])
