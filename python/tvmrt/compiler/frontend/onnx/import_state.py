"""State of one import of an ONNX network, shared by the importers of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.ir import Builder, Graph, TensorType, Value
from tvmrt.compiler.ir.assumptions import Condition
from tvmrt.compiler.ir.extent import Whole, symbols_of
from tvmrt.compiler.ir.value_ranges import Interval

from .adoption import Adopter
from .halves import HALF
from .inputs import declared_shapes
from .model_file import licence, opsets
from .names import Names
from .written_out import WrittenOut

Known = Mapping[str, np.ndarray]  # numbers that inputs must be, by name


class ImportState:
    """What is known of a network while its nodes are imported.

    The methods without a body are those of ``GraphImporter``, by which importers of nodes with
    subgraphs import these. ``problems`` collects what is not supported, node by node.
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
        self.known = known or {}  # inputs that must be these numbers
        self.operators = operators
        self.model = model
        self.folder = folder
        self.kept: dict[str, np.ndarray] = {}  # bytes of large weights that the model is without
        self.shapes = shapes
        self.dims = dims or Dims()
        # integers that are made of extents, element by element
        self.extents: dict[Value, np.ndarray] = {}
        # of values in bodies of loops that are made outside
        self.intervals: dict[Value, Interval] = {}
        # floats and truth values that are made of extents, and the counts that they became
        self.size_numbers: dict[Value, np.ndarray] = {}
        self.size_counts: dict[tuple, Whole] = {}
        self.opsets = opsets(self.model)
        self.open_functions: list[tuple[str, str]] = []
        self.functions = {(f.domain, f.name): f for f in self.model.functions}
        self.graph = Graph(self.model.graph.name or "graph")
        self.graph.licence = licence(self.model)
        self.builder = Builder(self.graph)
        self.types: dict[str, TensorType] = {}
        self.problems: list[str] = []
        self.refused: list[onnx.NodeProto] = []  # the nodes that they are about
        self.adopters: dict[str, Adopter] = {}
        self.most_elements: dict[str, int] = {}  # of results that are sequences, by name
        # tensors in half precision and packed ones, which are wider here, and their ONNX types
        self.halves: dict[Value, str] = {}
        self.names = Names()
        self.texts: set[Value] = set()  # values whose elements stand for strings
        self.text_heap: Value | None = None  # memory for the strings that a run makes
        self.columns: dict[Value, list[str]] = {}  # what an output's columns stand for
        self.written_out = WrittenOut(self.functions)
        self._declared_shapes: dict[str, tuple] | None = None
        self.is_partial = False  # whether a branch is left out, as it does not fit these extents
        self.checked: tuple[Condition, ...] = ()  # what a run's sizes are held to first
        self.tabled = 0  # elements of tables that importers wrote

    def packed(self, value: Value) -> str | None:
        """The packed type in which ONNX has a tensor that is wider here; else None."""
        kind = self.halves.get(value)
        return None if kind in HALF else kind

    def declared(self, name: str) -> tuple | None:
        """The shape that the network declares of one of its own tensors; None where it does not, or
        by dimensions that no input has."""
        shape = self.bounds_of(name)
        if shape is None:
            return None
        sizes = symbols_of(*(type.shape for type in self.types.values()))
        return shape if symbols_of(shape) <= sizes else None

    def bounds_of(self, name: str) -> tuple | None:
        """The same, dimensions that no input has included: those have bounds, and the run finds
        their sizes."""
        if self._declared_shapes is None:
            self._declared_shapes = declared_shapes(self.model.graph, self.dims)
        return None if self.open_functions else self._declared_shapes.get(name)

    def import_nodes(self, nodes: Sequence[onnx.NodeProto], scope: dict) -> None:
        """Import nodes in order; ``scope`` maps names to values and takes the results."""
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
        """Import the nodes of a subgraph in place; with a guard they run only if it holds.

        ``inputs`` are bound to the subgraph's own inputs in order.
        """
        raise NotImplementedError
