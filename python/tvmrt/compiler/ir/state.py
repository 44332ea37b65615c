"""State: tensors that are preserved from one run to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import Contract
from .dtype import DTYPES
from .graph import Graph, Node, Value
from .op import Op, register
from .tensor_type import TensorType


@register("begin_state")
class BeginState(Op):
    """Read the state: the operands in the first run and after a reset, later the values from the
    previous run.

    Results: a mark that is 0 in memory that no run has touched, then one tensor per operand, in
    memory that the executor preserves between runs. The last outputs of the graph are the new
    state, see :class:`States`. A graph has at most one such node, its first.
    """

    contract = Contract("first+: constant any[*]")

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType]:
        return [TensorType((1,), DTYPES["uint8"]), *bindings["first"]]


class States:
    """States of a graph under construction."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._initial: list[Value] = []
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []

    def add(self, first: Value) -> int:
        """Add a state with the constant ``first`` as initial value. Return its number."""
        self._initial.append(first)
        value = Value(f"state_{first.name}", first.type)
        self._inputs.append(value)
        self._outputs.append(value)
        return len(self._initial) - 1

    def current_value(self, number: int) -> Value:
        """Return the current value of a state."""
        return self._outputs[number]

    def set(self, number: int, value: Value) -> None:
        """Set the current value of a state. Raise ValueError if its type differs."""
        if value.type != self._initial[number].type:
            raise ValueError(f"a state of {self._initial[number].type} becomes {value.type}")
        self._outputs[number] = value

    def close(self) -> None:
        """Insert the node at the start of the graph, and append the new states to its outputs,
        hidden from the caller. Call it once, at the end."""
        if not self._initial:
            return
        node = Node("begin_state", self._initial, {}, "begin_state")
        mark = Value("state_mark", TensorType((1,), DTYPES["uint8"]))
        node.set_outputs([mark, *self._inputs])
        self.graph.nodes.insert(0, node)
        self.graph.outputs += self._outputs
        self.graph.output_names += [f"tvmrt_state:{i}" for i in range(len(self._outputs))]
        self.graph.state_count = len(self._outputs)
