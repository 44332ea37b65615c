"""Loops that a run goes through, as many rounds as its data says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from .contract import Contract
from .dtype import DTYPES
from .extent import Symbol, Whole, most, symbols_of
from .graph import Graph, TensorType
from .op import Op, register


@dataclass(frozen=True)
class Growth:
    """An axis of the carried tensor of number ``carried`` that has another extent in each round:
    ``symbol`` in the body, ``first`` before the first round, ``after`` each, which depends on the
    symbol or others of the body; ``most`` it may be."""

    carried: int
    axis: int
    symbol: Symbol
    first: Whole
    after: Whole
    most: int


@register("loop")
class Loop(Op):
    """A graph that is run round after round.

    ``body`` reads the number of the round (int64, from 0), then what is ``carried`` from round to
    round, then the round's slices of what is ``sliced``, then what is the same in all rounds. It
    gives, if ``conditional``, whether there is a further round, then what is carried, then what is
    collected. ``values`` are in the same order: the first carried ones, tensors with the rounds as
    their first axis, the others. ``limit``: the most rounds, ``go``: whether there is a first one;
    where both are missing there are ``most`` rounds. ``backward``: for each sliced, then each
    collected tensor, whether its last slice comes first.

    Results: what is carried after the last round, what was collected, with ``most`` rounds as first
    axis, of which those behind the last round have no meaning, and the number of rounds. More than
    ``most`` rounds end the run with an error where something is collected. What has an axis of
    ``grows`` is carried without gaps; its result has one axis, with room for the most elements,
    and the extents of these axes follow as int64 scalars; more than the most end the run with an
    error. ``round``: the symbol
    that the body has for the number of the round, if it has one; ``extents``: what else it depends
    on.
    """

    contract = Contract(
        "limit?: int64[], go?: bool[], values*: any[*]",
        "body: object, carried: int 0.., sliced: int 0.., conditional: bool, most: int 0.., "
        "backward: object, round?: object, grows?: object, extents: object",
    )

    def results(self, known: Mapping[str, Any]) -> list[TensorType]:
        body: Graph = known["body"]
        carried, sliced, most = known["carried"], known["sliced"], known["most"]
        grows: tuple[Growth, ...] = known.get("grows") or ()
        wanted = [
            _stacked(v.type, most) if carried <= i < carried + sliced else v.type
            for i, v in enumerate(body.inputs[1:])
        ]
        wanted = _with(wanted, {(g.carried, g.axis): g.first for g in grows})
        found = list(known["values"])
        if found != wanted:
            raise ValueError(
                f"a loop takes {', '.join(map(str, wanted))}, not {', '.join(map(str, found))}"
            )
        made = [v.type for v in body.outputs[known["conditional"] :]]
        inside = [v.type for v in body.inputs[1:]]
        if _at_rest(made[:carried], grows) != _at_rest(inside[:carried], grows):
            raise ValueError("a loop-carried value changes its type in an iteration")
        collected = [_stacked(type, most) for type in made[carried:]]
        scalar = TensorType((), DTYPES["int64"])
        left = [_room(type, i, grows) for i, type in enumerate(inside[:carried])]
        given = {s.name: s for s in symbols_of(known["extents"])}
        outside = [_outside(type, given) for type in (*left, *collected)]
        return [*outside, scalar, *[scalar] * len(grows)]


def loop_bodies(graph: Graph) -> list[Graph]:
    """The graphs that the loops among the nodes go through."""
    return [node.attrs["body"] for node in graph.nodes if node.op == "loop"]


def _outside(type: TensorType, given: Mapping[str, Symbol]) -> TensorType:
    """Return a type in the body as one outside, where the sizes that a run finds have a source."""
    shape = (
        n.at({s.name: given.get(s.name, s).extent for s in n.symbols()})
        if any(s.local and s.name in given for s in symbols_of(n))
        else n
        for n in type.shape
    )
    return TensorType(tuple(shape), type.dtype)


def _stacked(type: TensorType, rounds: Whole) -> TensorType:
    return TensorType((rounds, *type.shape), type.dtype)


def _with(types: list[TensorType], extents: Mapping[tuple[int, int], Whole]) -> list[TensorType]:
    """The types with these extents at (number of the tensor, axis)."""
    return [
        TensorType(
            tuple(extents.get((i, axis), n) for axis, n in enumerate(type.shape)), type.dtype
        )
        for i, type in enumerate(types)
    ]


def _at_rest(types: list[TensorType], grows: tuple[Growth, ...]) -> list[TensorType]:
    """What stays the same in all rounds."""
    return _with(types, {(g.carried, g.axis): -1 for g in grows})


def _room(type: TensorType, index: int, grows: tuple[Growth, ...]) -> TensorType:
    """The result of what is carried."""
    large = {g.axis: g.most for g in grows if g.carried == index}
    if not large:
        return type
    shape = (large.get(axis, most(n)) for axis, n in enumerate(type.shape))
    return TensorType((prod(shape),), type.dtype)
