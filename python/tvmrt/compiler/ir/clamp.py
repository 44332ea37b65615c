"""Clamps: nodes that limit the elements of a tensor to a constant minimum or maximum."""

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
