"""What an operator is to the compiler: its kind, its typing rule, its value on constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .assumptions import are_equal
from .contract import Contract, Misfit
from .extent import Extent, shown
from .graph import TensorType, Value

POINTWISE = "pointwise"  # one output element from the elements at the same (broadcast) place
VIEW = "view"  # the same elements in another order or number; often no code at all
REDUCE = "reduce"  # pointwise work, then a fold over some axes
KERNEL = "kernel"  # anything else: a call of hand-written code

# Of the operators as devices meet them: grows when one goes or changes its meaning.
IR_VERSION = 1

GAP = "\x1f"  # a space until C is laid out: a line that is too long may go on below instead


class Expression(NamedTuple):
    """A C expression, and the header in ``kernels/`` with the functions that it calls, or "".

    A long one has a ``GAP`` for each space at which it may be broken.
    """

    text: str
    header: str = ""


class Op:
    """One operator. Subclasses are registered once and hold no state of a network.

    ``contract`` says what operands and attributes it takes and which types it gives; what they
    mean is told by the subclass.
    """

    name: str = ""
    kind: str = KERNEL
    stays: bool = False  # whether it is there for the error that it may end a run with
    keeps: bool = False  # whether its results stay until the next run
    host_only: str = ""  # why no board runs it
    contract: Contract

    def infer(
        self,
        types: Sequence[TensorType | None],
        attrs: dict[str, Any],
        data: Sequence[np.ndarray | None] | None = None,
        open: bool = False,
    ) -> list[TensorType] | None:
        """Types of the outputs. Raises ValueError with a sentence when the contract is broken.

        ``data`` and ``open`` as for ``Contract.bind``; None as from ``Contract.result_types``.
        """
        return self.results(self.contract.bind(types, attrs, data, open))

    def results(self, known: Mapping[str, Any]) -> list[TensorType] | None:
        """Types of the outputs from what every name of the contract stands for."""
        return self.contract.result_types(known)

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


def result_types(
    op: str, inputs: Sequence[Value | None], attrs: dict[str, Any], open: bool = False
) -> list[TensorType] | None:
    """Types of a node's outputs, with all that the operator's contract asks of its inputs."""
    types = [None if v is None else v.type for v in inputs]
    data = [None if v is None else v.data for v in inputs]
    return get_op(op).infer(types, attrs, data, open)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape by the rules of numpy. Raises ValueError naming the shapes."""
    rank = max((len(s) for s in shapes), default=0)
    out = []
    for axis in range(-rank, 0):
        extents = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if not all(are_equal(a, b) for a, b in combinations(extents, 2)):
            raise Misfit(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        if len(extents) > 1:  # a number, or the one that is written first
            extents = {min(extents, key=lambda n: (isinstance(n, Extent), shown(n)))}
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def normalize_axis(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises ValueError when it lies outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis
