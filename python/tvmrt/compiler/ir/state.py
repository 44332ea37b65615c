"""State: tensors that are preserved from one run to the next, by the executor or by the caller,
such as the caches of a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import Contract
from .dtype import DTYPES
from .graph import Graph, Node, Value
from .op import Op, register
from .sizes import Extent, SymInt
from .tensor_type import TensorType
from .traits import Trait


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


def carried_values(graph: Graph) -> dict[str, str]:
    """Return the inputs whose elements become those of an output, with the names of these outputs.

    The proof: there is a path from the input to the output of operators that move elements, and one
    of them appends to a tensor, updates a part of it, or computes the next state of a recurrent
    layer; there is no such path from another input of this type, or to another output.
    """
    producers = {value: node for node in graph.nodes for value in node.outputs}
    inputs = set(graph.inputs)
    pairs = []
    for value, name in zip(graph.outputs, graph.output_names):
        origins = [v for v in _origins(value, producers) if v in inputs and _fits(v, value)]
        if len(origins) == 1:
            pairs.append((origins[0].name, name))
    names = [name for name, _ in pairs]
    return {name: output for name, output in pairs if names.count(name) == 1}


def _origins(value: Value, producers: dict[Value, Node]) -> list[Value]:
    """Return the values that a value is made of by operators that move or update elements."""
    seen, pending = {(value, False)}, [(value, False)]
    while pending:
        value, is_updated = pending.pop()
        node = producers.get(value)
        if node is None:
            continue
        sources, updates = _sources(node, node.outputs.index(value))
        for source in sources:
            found = (source, is_updated or updates)
            if source is not None and found not in seen:
                seen.add(found)
                pending.append(found)
    return [value for value, is_updated in seen if is_updated]


def _sources(node: Node, result: int) -> tuple[list[Value | None], bool]:
    """Return the operands that a result is made of, and whether it has other elements, too."""
    if node.has(Trait.RECURRENT):  # the results are all steps, h and c; h0 is operand 2
        return (node.inputs[1 + result : 2 + result] if result else []), True
    if node.has(Trait.CONCATENATES):
        return list(node.inputs), len(node.inputs) > 1
    keeps = node.has(Trait.MOVES_ELEMENTS, Trait.CONVERTS, Trait.UPDATES)
    return (node.inputs[:1] if keeps else []), node.has(Trait.UPDATES)


def _fits(before: Value, after: Value) -> bool:
    """Return whether a result may be the input of the next run: dimensions may be longer."""
    if before.dtype != after.dtype or before.type.rank != after.type.rank:
        return False
    return all(map(_extends, before.shape, after.shape))


def _extends(before: SymInt, after: SymInt) -> bool:
    return isinstance(before, Extent) if isinstance(after, Extent) else before == after
