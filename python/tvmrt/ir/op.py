"""What an operator is to the compiler: its kind, its typing rule, its value on constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .graph import TensorType

POINTWISE = "pointwise"  # one output element from the elements at the same (broadcast) place
VIEW = "view"  # the same elements in another order or number; often no code at all
REDUCE = "reduce"  # pointwise work, then a fold over some axes
KERNEL = "kernel"  # anything else: a call of hand-written code


class Op:
    """One operator. Subclasses are registered once and hold no state of a network.

    Attributes of a node are plain Python values whose meaning the subclass documents.
    """

    name: str = ""
    kind: str = KERNEL

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]) -> list[TensorType]:
        """Types of the outputs. Raises ValueError with a sentence when inputs do not fit."""
        raise NotImplementedError(self.name)

    def evaluate(
        self, arrays: Sequence[np.ndarray | None], attrs: dict[str, Any]
    ) -> list[np.ndarray] | None:
        """Outputs for constant inputs, or None when this operator is never folded."""
        return None


OPS: dict[str, Op] = {}


def register(name: str):
    """Class decorator: make one instance of the class the operator ``name``."""

    def add(cls: type[Op]) -> type[Op]:
        instance = cls()
        instance.name = name
        define(instance)
        return cls

    return add


def define(op: Op) -> Op:
    """Enter an operator; names are unique."""
    if op.name in OPS:
        raise ValueError(f"operator {op.name} is defined twice")
    OPS[op.name] = op
    return op


def get_op(name: str) -> Op:
    """The operator of that name. Raises KeyError when there is none."""
    return OPS[name]


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape by the rules of numpy. Raises ValueError naming the shapes."""
    rank = max((len(s) for s in shapes), default=0)
    out = []
    for axis in range(-rank, 0):
        extents = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(extents) > 1:
            raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def normalize_axis(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises ValueError when it lies outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis
