"""Loops that a run goes through, as many rounds as its data says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import Contract
from .dtype import DTYPES
from .extent import Whole
from .graph import Graph, TensorType
from .op import Op, register


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
    ``most`` rounds end the run with an error where something is collected. ``round``: the symbol
    that the body has for the number of the round, if it has one; ``extents``: what else it depends
    on.
    """

    contract = Contract(
        operands=["limit?: int64[]", "go?: bool[]", "values*: any[*]"],
        attributes=[
            "body: object",
            "carried: int 0..",
            "sliced: int 0..",
            "conditional: bool",
            "most: int 0..",
            "backward: object",
            "round?: object",
            "extents: object",
        ],
    )

    def results(self, known: Mapping[str, Any]) -> list[TensorType]:
        body: Graph = known["body"]
        carried, sliced, most = known["carried"], known["sliced"], known["most"]
        wanted = [
            _stacked(v.type, most) if carried <= i < carried + sliced else v.type
            for i, v in enumerate(body.inputs[1:])
        ]
        found = list(known["values"])
        if found != wanted:
            raise ValueError(
                f"a loop takes {', '.join(map(str, wanted))}, not {', '.join(map(str, found))}"
            )
        made = [v.type for v in body.outputs[known["conditional"] :]]
        if made[:carried] != wanted[:carried]:
            raise ValueError("what a loop carries has another type after a round than before it")
        collected = [_stacked(type, most) for type in made[carried:]]
        return [*made[:carried], *collected, TensorType((), DTYPES["int64"])]


def loop_bodies(graph: Graph) -> list[Graph]:
    """The graphs that the loops among the nodes go through."""
    return [node.attrs["body"] for node in graph.nodes if node.op == "loop"]


def _stacked(type: TensorType, rounds: Whole) -> TensorType:
    return TensorType((rounds, *type.shape), type.dtype)
