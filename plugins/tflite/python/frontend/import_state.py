"""State of one import of a ``.tflite`` network, shared by its operators' importers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.frontend import Dims, KnownSizes
from tvmrt.compiler.sdk.graph import DTYPES, Builder, Graph, States, Value, constant
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.model_file import Model, Signature, Subgraph


class ImportState:
    """State of a network during import.

    ``import_subgraph`` is implemented by ``GraphImporter``; importers of operators that call
    subgraphs use it. ``problems`` collects the unsupported operators.
    """

    def __init__(
        self,
        model: Model,
        shapes: dict,
        rounding: str,
        entry: tuple[int, Signature | None],
        dims: Dims,
    ) -> None:
        self.model = model
        self.entry = entry
        self.shapes = shapes
        self.rounding = rounding
        self.operators: Any = None
        self.graph = Graph(model.subgraphs[entry[0]].name or "main")
        self.builder = Builder(self.graph)
        self.problems: list[str] = []
        self.variables: dict[tuple[str, str], Any] = {}
        self.sizes = KnownSizes()
        self.assigned_variables: set[tuple[str, str]] | None = None
        self.dims = dims
        self.is_separate_graph = False  # inside a loop with a data-dependent trip count
        self.initializing = False  # inside a CALL_ONCE
        self.states = States(self.graph)
        self._state_of: dict[tuple[int, int], int] = {}  # by id of the subgraph and tensor index
        self.subgraph_stack = [entry[0]]
        self.unrolled_operators = 0  # number of operators imported from called subgraphs

    def check_state(self) -> None:
        """Raise UnsupportedError inside a loop, because no state can be kept there between runs."""
        if self.is_separate_graph:
            raise UnsupportedError("a state in a loop with a data-dependent trip count")

    def _state(self, subgraph: Subgraph, index: int) -> int:
        """Return the state number of a variable tensor, whose initial value is its zero point."""
        self.check_state()
        key = id(subgraph), index
        if key not in self._state_of:
            tensor = subgraph.tensors[index]
            q = tensor.quantization
            start = int(q.zero[0]) if q is not None and tensor.dtype == "int8" else 0
            first = np.full(tensor.shape, start, DTYPES[tensor.dtype].numpy)
            self._state_of[key] = self.states.add(constant(first, tensor.name))
        return self._state_of[key]

    def set_variable(self, subgraph: Subgraph, index: int, value: Value) -> None:
        """Set a variable tensor to a value from here on; ignore other tensors."""
        if subgraph.tensors[index].is_variable:
            self.set_state(self._state(subgraph, index), value)

    def set_state(self, number: int, value: Value) -> None:
        """Set a state to a value from here on; a branch that is skipped leaves it unchanged."""
        if self.builder.guard is not None:
            value = self.in_branch(
                self.states.current_value(number), value, self.builder.emit, "state"
            )
        self.states.set(number, value)

    def in_branch(self, before: Value, value: Value, emit: Callable, *name: str) -> Value:
        """Select the new value if the current branch is taken, else the previous value."""
        condition, wanted = self.builder.guard
        sides = [value, before] if wanted else [before, value]
        with self.builder.guarded(None):
            return emit("where", [condition, *sides], *name)

    @contextmanager
    def separate_graph(self, name: str) -> Iterator[Graph]:
        """Import into a separate graph, the body of a loop with a data-dependent trip count."""
        outer, graph = (self.builder, self.is_separate_graph), Graph(name)
        self.builder, self.is_separate_graph = Builder(graph), True
        self.builder.sources = outer[0].sources
        try:
            yield graph
        finally:
            self.builder, self.is_separate_graph = outer

    def import_subgraph(self, index: int, inputs: Sequence[Value | None]) -> list[Value | None]:
        """Import a subgraph's operators in place of the operator that calls it."""
        raise NotImplementedError
