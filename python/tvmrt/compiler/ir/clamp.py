"""Clamps to a constant minimum or maximum, and order comparisons, each in one form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .graph import Node, Value
from .traits import Trait


class Clamp(NamedTuple):
    """Clamped tensor with its constant scalar limit, which is not NaN."""

    x: Value
    limit: np.ndarray
    is_lower: bool


def clamp_of(node: Node) -> Clamp | None:
    """Return the clamp that a node computes; None if it computes anything else."""
    if not node.has(Trait.LOWER_LIMIT, Trait.UPPER_LIMIT):
        return None
    constants = [v for v in node.inputs if v.is_constant]
    computed = [v for v in node.inputs if not v.is_constant]
    if len(computed) != 1 or any(v.type.size != 1 for v in constants):
        return None
    limit = constants[0].data.reshape(()) if constants else computed[0].dtype.numpy.type(0)
    if np.isnan(limit):
        return None
    return Clamp(computed[0], np.asarray(limit), node.has(Trait.LOWER_LIMIT))


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
