"""What outlives a run: tensors that each run finds as the last one left them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import Contract
from .dtype import DTYPES
from .graph import Graph, Node, TensorType, Value
from .op import Op, register


@register("begin_state")
class BeginState(Op):
    """What a run finds: the operands in the first run and after a reset, later what the run before
    has left.

    Results: a mark that is 0 in memory that no run has touched, then one tensor an operand. They
    lie where the executor keeps them from run to run. Which values a run leaves is told by the last
    outputs of the graph, see :class:`States`. A graph has one such node at most, in front.
    """

    contract = Contract("first+: constant any[*]")

    def results(self, known: Mapping[str, Any]) -> list[TensorType]:
        return [TensorType((1,), DTYPES["uint8"]), *known["first"]]


class States:
    """The states of a graph while it is made."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._first: list[Value] = []
        self._found: list[Value] = []
        self._left: list[Value] = []

    def add(self, first: Value) -> int:
        """A further state; ``first``, a constant, is what the first run finds. Its number."""
        self._first.append(first)
        value = Value(f"state_{first.name}", first.type)
        self._found.append(value)
        self._left.append(value)
        return len(self._first) - 1

    def now(self, number: int) -> Value:
        """What a state is at this place of the run."""
        return self._left[number]

    def set(self, number: int, value: Value) -> None:
        """From here on a state is this value. Raises ValueError for one of another type."""
        if value.type != self._first[number].type:
            raise ValueError(f"a state of {self._first[number].type} becomes {value.type}")
        self._left[number] = value

    def close(self) -> None:
        """Put the node in front of the graph, and what a run leaves behind its outputs, where no
        caller sees it. To be called once, when all else is there."""
        if not self._first:
            return
        node = Node("begin_state", self._first, {}, "begin_state")
        mark = Value("state_mark", TensorType((1,), DTYPES["uint8"]))
        node.give([mark, *self._found])
        self.graph.nodes.insert(0, node)
        self.graph.outputs += self._left
        self.graph.output_names += [f"tvmrt_state:{i}" for i in range(len(self._left))]
        self.graph.kept = len(self._left)
