"""Interface of operators: kind, contract, evaluation on constants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .contract import Contract, ContractError
from .sizes import Extent, extent_text
from .sizes.assumptions import are_equal
from .tensor_type import TensorType
from .traits import SumOrder, Trait, Weights

POINTWISE = "pointwise"  # one output element from the elements at the same (broadcast) index
VIEW = "view"  # the same elements in another order or number; often without code
REDUCE = "reduce"  # pointwise work, then a reduction over some axes
KERNEL = "kernel"  # anything else: a call of hand-written code

# Version of the operators for devices: increases when one is removed or changes its meaning.
IR_VERSION = 1

GAP = "\x1f"  # a space until C is formatted: a line that is too long may be broken here


class Expression(NamedTuple):
    """C expression, and the header in ``kernels/`` with the functions that it calls, or "".

    A long expression has a ``GAP`` for each space at which it may be broken.
    """

    text: str
    header: str = ""


class Op:
    """One operator. Subclasses are registered once and hold no state of a network.

    ``contract`` defines the operands, attributes and result types; subclasses document their
    meaning.
    """

    name: str = ""
    onnx: OnnxName | None = None  # ONNX operator that it computes for all operands and attributes
    kind: str = KERNEL
    has_side_effects: bool = False  # never removed, because it may end a run with an error
    results_persist: bool = False  # whether its results stay valid until the next run
    host_only: str = ""  # reason why it does not run on boards
    traits: frozenset[Trait] = frozenset()
    sum_order: SumOrder | None = None  # of the sums that it computes, if they are on its card
    integer_of: str = ""  # operator on floating-point numbers that it computes on 8-bit integers
    variant_of: str = ""  # operator that it computes by another algorithm
    weights: Weights | None = None  # set for matmul-like operators
    channel_axis: int | None = None  # axis of x and y whose indices are channels
    kernel: Kernel | None = None  # the C function that computes it, if one call is enough
    symbol: str = ""  # "+", "-" or "*": y is this of two scaled integer operands, scaled again
    swapped: str = ""  # of a comparison: the operator that is equal with swapped operands
    negated: str = ""  # of a comparison: the operator that is its negation, without NaN
    result_range: tuple[float, float] | None = None  # of y, for any operands
    # How y changes with each operand, a character each: "+" it never falls, "-" it never rises, "*"
    # either, depending on the others, "/" either, without a bound at 0, "0" its extremes are at the
    # ends and nearest to 0. Empty if not stated.
    monotonic: str = ""
    contract: Contract

    @property
    def is_product(self) -> bool:
        """Whether it is a convolution, a matrix product or the like, by any algorithm."""
        own = self.has(Trait.CONVOLUTION, Trait.MATRIX_PRODUCT) or self.weights is not None
        return own or bool(self.variant_of)

    @property
    def is_integer_product(self) -> bool:
        """Whether it is a convolution, a matrix product or the like on 8-bit integers."""
        return bool(self.integer_of) and self.is_product

    @property
    def is_integer_pair(self) -> bool:
        """Whether it is an arithmetic operator on two 8-bit operands."""
        return bool(self.integer_of and self.symbol)

    @property
    def is_copy(self) -> bool:
        """Whether y equals x."""
        return {Trait.ELEMENTWISE, Trait.REARRANGES} <= self.traits

    def has(self, *traits: Trait) -> bool:
        """Return whether the operator has one of these traits."""
        return not self.traits.isdisjoint(traits)

    def infer(
        self,
        types: Sequence[TensorType | None],
        attrs: dict[str, Any],
        data: Sequence[np.ndarray | None] | None = None,
        open: bool = False,
    ) -> list[TensorType] | None:
        """Return the types of the outputs. Raise ValueError if the contract is broken.

        ``data`` and ``open`` as for ``Contract.bind``; None as from ``Contract.result_types``.
        """
        return self.results(self.contract.bind(types, attrs, data, open))

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType] | None:
        """Return the types of the outputs from the values of the contract's names."""
        return self.contract.result_types(bindings)

    def evaluate(
        self, arrays: Sequence[np.ndarray | None], attrs: dict[str, Any]
    ) -> list[np.ndarray] | None:
        """Return the outputs for constant inputs, or None if this operator is never folded."""
        return None


OPS: dict[str, Op] = {}
INTEGER_FORMS: dict[str, list[Op]] = {}  # operators by the name in their ``integer_of``
ONNX_FORMS: dict[tuple[str, str], list[Op]] = {}  # operators by domain and name in ONNX


def register(name: str, onnx: str = ""):
    """Decorate a class: register an instance of it as operator ``name``.

    ``onnx``: the ONNX operator with the same operands and attributes, in the notation of
    ``OnnxName``. Its importer is derived from the contract, and so are writers.
    """

    def add(cls: type[Op]) -> type[Op]:
        instance = cls()
        instance.name = f"{name} {onnx}"
        define(instance)
        return cls

    return add


def define(op: Op) -> Op:
    """Register an operator; names are unique. Its name in ONNX may follow the name."""
    op.name, _, onnx = op.name.partition(" ")
    op.onnx = OnnxName.parse(onnx)
    if op.name in OPS:
        raise ValueError(f"operator {op.name} is defined twice")
    if op.kind == POINTWISE:
        op.traits |= {Trait.ELEMENTWISE}
    OPS[op.name] = op
    if op.integer_of:
        INTEGER_FORMS.setdefault(op.integer_of, []).append(op)
    if op.onnx:
        ONNX_FORMS.setdefault((op.onnx.domain, op.onnx.name), []).append(op)
    return op


def integer_form(op: Op, weights: bool | None = None) -> Op | None:
    """Return the first registered operator that computes ``op`` on 8-bit integers.

    With ``weights``, only an operator that has, or has not, constant weights.
    """
    forms = INTEGER_FORMS.get(op.name, ())
    return next((f for f in forms if weights in (None, f.weights is not None)), None)


def get_op(name: str) -> Op:
    """Return the operator of that name. Raise KeyError if there is none."""
    return OPS[name]


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape by numpy's rules. Raise ValueError naming the shapes."""
    rank = max((len(s) for s in shapes), default=0)
    out = []
    for axis in range(-rank, 0):
        extents = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if not all(are_equal(a, b) for a, b in combinations(extents, 2)):
            raise ContractError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        if len(extents) > 1:  # an integer, or the first in alphabetical order
            extents = {min(extents, key=lambda n: (isinstance(n, Extent), extent_text(n)))}
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def normalize_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front. Raise ValueError if it is outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis


def distinct_axes(axes: Sequence[int], rank: int) -> set[int]:
    """Return axes counted from the front. Raise ValueError for one outside the rank or twice."""
    normalized = {normalize_axis(axis, rank) for axis in axes}
    if len(normalized) != len(axes):
        raise ValueError(f"axes {axes} name an axis twice")
    return normalized


_TEXT = re.compile(r"(?:([\w.]+)::)?(\w+)(?:\((\w+)=(\w+)\))?")


class OnnxName(NamedTuple):
    """ONNX operator, with the attribute and its value that select one of several operators.

    As text: ``CumSum``, ``BitShift(direction=LEFT)``, ``example.vendor::Squareplus``.
    """

    domain: str
    name: str
    key: str
    value: int | str

    @classmethod
    def parse(cls, text: str) -> OnnxName | None:
        """Read the name from text; None for "". Raises ValueError if it has another form."""
        match = _TEXT.fullmatch(text)
        if match is None and text:
            raise ValueError(f"{text!r} is not an ONNX operator, such as BitShift(direction=LEFT)")
        domain, name, key, value = match.groups("") if match else ("",) * 4
        return cls(domain, name, key, int(value) if value.isdigit() else value) if name else None


class Kernel(NamedTuple):
    """C function that computes an operator with dense operands and results by one call.

    ``header`` is in ``kernels/``. ``function`` may have names in braces: the element type of an
    operand, or the value of an attribute. ``arguments`` are separated by spaces, after ``*y= `` if
    the function returns the only element of y:

    - an operand or a result: the pointer to it; ``*x``: its only element; ``x.size``: the number of
      its elements;
    - an attribute: its value; an extent of the contract, or a formula such as ``C-1``;
    - ``!words``: the function may fail, and gets the text that locates the error: the node, and
      these words, which may have attributes in braces.
    """

    header: str
    function: str
    arguments: str
