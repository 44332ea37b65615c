"""Loops with a data-dependent number of iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from .contract import Contract
from .dtype import DTYPES
from .graph import Graph
from .op import Op, register
from .sizes import Symbol, SymInt, is_unbounded, substitute, symbols_of, upper_bound
from .tensor_type import TensorType


@dataclass(frozen=True)
class Growth:
    """Axis of a loop-carried tensor whose extent changes in each iteration. ``carried``: index of
    the tensor. Extents: ``symbol`` in the body, ``first`` before the first iteration, ``after`` an
    iteration, in terms of the body's symbols, and ``upper_bound``."""

    carried: int
    axis: int
    symbol: Symbol
    first: SymInt
    after: SymInt
    upper_bound: SymInt


@register("loop")
class Loop(Op):
    """Loop over a graph.

    ``body`` reads the iteration number (int64, from 0), then the ``carried`` loop-carried values,
    then the slices of the ``sliced`` tensors, then loop-invariant values. It returns, if
    ``conditional``, whether to continue, then the loop-carried values, then slices of the
    collected tensors. ``values`` are in the same order: initial loop-carried values, tensors with
    the iterations as their first axis, loop-invariant values. ``limit``: maximum number of
    iterations; ``go``: whether to start. Without both there are ``most`` iterations. ``backward``:
    for each sliced, then each collected tensor, whether its last slice comes first.

    Results: the final loop-carried values; the collected tensors, with ``most`` iterations as
    first axis, where slices after the last iteration have no meaning; the trip count. If
    anything is collected, more than ``most`` iterations end the run with an error. Values with an
    axis in ``grows`` are carried without gaps. Their result has one axis with the maximum number of
    elements, and the extents of these axes follow as int64 scalars; extents above the maximum end
    the run with an error. ``round``: the body's symbol for the iteration number, if it has one;
    ``extents``: further extents that it depends on.
    """

    contract = Contract(
        "limit?: int64[], go?: bool[], values*: any[*]",
        "body: object, carried: int 0.., sliced: int 0.., conditional: bool, most: int 0.., "
        "backward: object, round?: object, grows?: object, extents: object",
    )

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType]:
        body: Graph = bindings["body"]
        carried, sliced, upper_bound = bindings["carried"], bindings["sliced"], bindings["most"]
        grows: tuple[Growth, ...] = bindings.get("grows") or ()
        inside = [v.type for v in body.inputs[1:]]
        expected = [
            t.with_shape((upper_bound, *t.shape)) if carried <= i < carried + sliced else t
            for i, t in enumerate(inside)
        ]
        expected = _with_extents(expected, {(g.carried, g.axis): g.first for g in grows})
        actual = list(bindings["values"])
        if actual != expected:
            raise ValueError(
                f"a loop takes {', '.join(map(str, expected))}, not {', '.join(map(str, actual))}"
            )
        body_types = [v.type for v in body.outputs[bindings["conditional"] :]]
        masks = {(g.carried, g.axis): -1 for g in grows}
        if _with_extents(body_types[:carried], masks) != _with_extents(inside[:carried], masks):
            raise ValueError("a loop-carried value changes its type in an iteration")
        collected = [t.with_shape((upper_bound, *t.shape)) for t in body_types[carried:]]
        scalar = TensorType((), DTYPES["int64"])
        left = [
            _max_type(type.with_source(after.source), i, grows)
            for i, (type, after) in enumerate(zip(inside[:carried], body_types))
        ]
        # outside the body, data-dependent dimensions have a source
        sizes = {s.name: s.extent for s in symbols_of(bindings["extents"])}
        outside = [t.with_shape(substitute(n, sizes) for n in t.shape) for t in (*left, *collected)]
        return [*outside, scalar, *[scalar] * len(grows)]


def loop_bodies(graph: Graph) -> list[Graph]:
    """Return the bodies of the loops among the nodes."""
    return [node.attrs["body"] for node in graph.nodes if node.op == "loop"]


def _with_extents(
    types: list[TensorType], extents: Mapping[tuple[int, int], SymInt]
) -> list[TensorType]:
    """Return the types with these extents at (index of the tensor, axis)."""
    return [
        type.with_shape(extents.get((i, axis), n) for axis, n in enumerate(type.shape))
        for i, type in enumerate(types)
    ]


def _max_type(type: TensorType, index: int, grows: tuple[Growth, ...]) -> TensorType:
    """Return the type of the result of a loop-carried value."""
    large = {g.axis: g.upper_bound for g in grows if g.carried == index}
    if not large:
        return type
    shape = (
        large.get(axis, n if is_unbounded(n) else upper_bound(n))
        for axis, n in enumerate(type.shape)
    )
    return type.with_shape((prod(shape),))
