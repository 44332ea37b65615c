"""State of one import of an ONNX network, shared by the importers of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.ir import Builder, Graph, TensorType, Value
from tvmrt.compiler.ir.assumptions import Condition
from tvmrt.compiler.ir.extent import SymInt, symbols_of
from tvmrt.compiler.ir.value_ranges import Interval

from .device_fallback import FallbackHandler
from .half_precision import HALF
from .inputs import declared_shapes
from .model_file import licence, opsets
from .string_table import StringTables
from .unroll_limits import UnrollBudget

Known = Mapping[str, np.ndarray]  # values that inputs must have, by name


class ImportState:
    """State of a network while its nodes are imported.

    ``GraphImporter`` implements the methods without a body; importers of nodes with subgraphs call
    them. ``problems`` collects error texts of unsupported nodes.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: str,
        shapes: dict,
        operators: Any = None,
        dims: Dims | None = None,
        known: Known | None = None,
    ) -> None:
        self.known = known or {}  # values that inputs must have, by name
        self.operators = operators
        self.model = model
        self.folder = folder
        self.lazy_weights: dict[str, np.ndarray] = {}  # large weights, not in the model
        self.shapes = shapes
        self.dims = dims or Dims()
        # integer tensors made of extents, element by element
        self.extents: dict[Value, np.ndarray] = {}
        # intervals of loop-invariant values in loop bodies
        self.intervals: dict[Value, Interval] = {}
        # float and boolean tensors computed from extents, and the counts that they became
        self.size_expressions: dict[Value, np.ndarray] = {}
        self.expression_extents: dict[tuple, SymInt] = {}
        self.opsets = opsets(self.model)
        self.active_functions: list[tuple[str, str]] = []
        self.functions = {(f.domain, f.name): f for f in self.model.functions}
        self.graph = Graph(self.model.graph.name or "graph")
        self.graph.licence = licence(self.model)
        self.builder = Builder(self.graph)
        self.types: dict[str, TensorType] = {}
        self.problems: list[str] = []
        self.unsupported_nodes: list[onnx.NodeProto] = []  # the nodes of unsupported operators
        self.fallback_handlers: dict[str, FallbackHandler] = {}
        self.max_sequence_lengths: dict[str, int] = {}  # maximum length of each output sequence
        # ONNX types of half-precision and packed tensors, which have a wider type here
        self.onnx_types: dict[Value, str] = {}
        self.string_tables = StringTables()
        self.texts: set[Value] = set()  # values whose elements stand for strings
        self.text_heap: Value | None = None  # memory for strings created by a run
        self.columns: dict[Value, list[str]] = {}  # names of an output's columns
        self.unroll_budget = UnrollBudget(self.functions)
        self._declared_shapes: dict[str, tuple] | None = None
        self.is_partial = False  # whether a branch was left out, as it is invalid at these extents
        self.checked: tuple[Condition, ...] = ()  # conditions checked at the start of a run
        self.table_elements = 0  # number of elements of tables so far

    def packed(self, value: Value) -> str | None:
        """Return the packed ONNX type of a tensor that is wider here; else None."""
        kind = self.onnx_types.get(value)
        return None if kind in HALF else kind

    def declared(self, name: str) -> tuple | None:
        """Return the shape that the network declares of an inner tensor; None if there is none, or
        if it has dimensions that no input has."""
        shape = self.declared_bounds(name)
        if shape is None:
            return None
        sizes = symbols_of(*(type.shape for type in self.types.values()))
        return shape if symbols_of(shape) <= sizes else None

    def declared_bounds(self, name: str) -> tuple | None:
        """Return the declared shape of a tensor, including dimensions that no input has; these have
        bounds, and the run computes their sizes."""
        if self._declared_shapes is None:
            self._declared_shapes = declared_shapes(self.model.graph, self.dims)
        return None if self.active_functions else self._declared_shapes.get(name)

    def import_nodes(self, nodes: Sequence[onnx.NodeProto], scope: dict) -> None:
        """Import nodes in order; ``scope`` maps names to values and receives the results."""
        raise NotImplementedError

    def import_body(self, proto: onnx.GraphProto, scope: dict) -> None:
        """Import the constants and nodes of a subgraph in a scope that has its inputs."""
        raise NotImplementedError

    def import_branch(
        self,
        proto: onnx.GraphProto,
        outer: dict[str, Value | None],
        guard: tuple[Value, bool] | None = None,
        inputs: Sequence[Value | None] = (),
    ) -> list[Value | None]:
        """Import the nodes of a subgraph inline; with a guard they run only if it holds.

        ``inputs`` are bound to the subgraph's own inputs in order.
        """
        raise NotImplementedError
