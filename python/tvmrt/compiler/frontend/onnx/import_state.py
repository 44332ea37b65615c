"""State of one import of an ONNX network, shared by the importers of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.frontend.size_constraints import SizeConstraints
from tvmrt.compiler.frontend.size_propagation import KnownSizes
from tvmrt.compiler.ir import Builder, FoldingBudget, Graph, TensorType
from tvmrt.compiler.ir.bundle import Bundle
from tvmrt.compiler.ir.sizes import symbols_of
from tvmrt.compiler.ir.sizes.assumptions import current_assumptions
from tvmrt.error import UnsupportedError, UnsupportedSizes

from .device_fallback import FallbackHandler
from .inputs import declared_shapes, input_types, overrides_declared
from .model_file import columns, licence
from .model_functions import ModelFunctions, TableBudget
from .tensors import DetachedData


@dataclass(frozen=True)
class ImportRequest:
    """A network and how to import it.

    ``detached``: data of large weights that is not in the model. ``shapes``, ``dims``,
    ``operators`` and ``fallback_handlers``: as for ``import_model``. ``bundles``: inputs that were
    sequences, by name. ``sequences``: their lengths, and the maximum length of output sequences.
    ``constraints``: the sizes at which the network is valid. ``is_bounded``: as for
    ``import_model``. ``values``: the value of each input that is fixed, by name.
    """

    model: onnx.ModelProto
    detached: DetachedData = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    dims: Mapping[str, int | str | Sequence[int]] | None = None
    operators: Any = None
    fallback_handlers: Mapping[str, FallbackHandler] = field(default_factory=dict)
    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    sequences: Mapping[str, int | None] = field(default_factory=dict)
    constraints: SizeConstraints = field(default_factory=SizeConstraints)
    is_bounded: bool = False
    values: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def is_general(self) -> bool:
        """Whether each dimension has one size, as in the variant for a run that failed an
        assumption: sizes that a run finds are not assumed to be equal."""
        declared = (self.dims or {}).values()
        sizes = [n if isinstance(n, (tuple, list)) else (n, n) for n in declared]
        return bool(sizes) and not self.is_bounded and all(low == high for low, high in sizes)


class Declarations:
    """Types of the network's inputs by name, and declared shapes of its inner tensors."""

    def __init__(self, request: ImportRequest, dims: Dims) -> None:
        self.inputs: dict[str, TensorType] = {}
        self._request = request
        self._dims = dims
        self._are_valid = True

    def bind_inputs(self, infos: Sequence[onnx.ValueInfoProto]) -> dict[str, TensorType]:
        """Return the types of these inputs, with the requested shapes and dimensions."""
        proto = self._request.model.graph
        results = [*proto.output, *proto.value_info]
        self.inputs = input_types(infos, self._request.shapes, self._dims, results)
        self._are_valid = not overrides_declared(infos, self.inputs)
        return self.inputs

    def axis_names(self, name: str) -> list[str | None]:
        """Return the dimension that each axis of an input is, None for axes of fixed extents."""
        shape = self._request.shapes.get(name)
        if shape is not None:
            return [n if isinstance(n, str) else None for n in shape]
        infos = {info.name: info for info in self._request.model.graph.input}
        return [d.dim_param or None for d in infos[name].type.tensor_type.shape.dim]

    @cached_property
    def shapes(self) -> dict[str, tuple]:
        """Declared shapes by name; none if the request overrides declared shapes of inputs."""
        graph = self._request.model.graph
        return declared_shapes(graph, self._dims) if self._are_valid else {}

    def symbols(self) -> set:
        """Return the symbolic dimensions of the inputs."""
        return symbols_of(*(type.shape for type in self.inputs.values()))


class Problems:
    """Problems of an import: nodes that cannot be compiled, with reasons.

    ``texts``: errors of unsupported nodes; ``about_sizes``: the texts of errors that other sizes
    may avoid. ``is_partial``: whether a branch was left out because it is invalid at these extents.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.about_sizes: set[str] = set()
        self.is_partial = False

    def add(self, text: str, about_sizes: bool = False) -> None:
        """Record the error of an unsupported node."""
        self.texts.append(text)
        self.about_sizes |= {text} if about_sizes else set()

    def raise_error(self) -> None:
        """Raise UnsupportedError with all errors, if there are any; UnsupportedSizes if other sizes
        may avoid all of them."""
        count = len(self.texts)
        if count:
            kind = UnsupportedSizes if self.about_sizes.issuperset(self.texts) else UnsupportedError
            raise kind(
                f"{count} node{'s' if count > 1 else ''} of the network cannot be compiled: "
                + "; ".join(self.texts)
            )


class Checkpoint:
    """A point of the import to return to. ``problems``: the errors since then."""

    def __init__(self, state: ImportState) -> None:
        self._state, self._problems = state, state.problems
        assumed = current_assumptions().conditions
        self._lists: list[list] = [state.graph.nodes, state.problems.texts, assumed]
        self._counts = [len(each) for each in self._lists]
        self._was_partial, self._unchecked = state.problems.is_partial, state.unchecked
        self._known = [len(names) for names in state.dims.names]

    @property
    def problems(self) -> list[str]:
        return self._problems.texts[self._counts[1] :]

    def undo(self) -> None:
        """Drop the nodes, errors, sizes and conditions since then. Sizes get the same names again,
        since the conditions of the next import have these names."""
        self._problems.is_partial, self._state.unchecked = self._was_partial, self._unchecked
        for names, count in zip(self._state.dims.names, self._known):
            for name in list(names)[count:]:
                del names[name]
        for each, count in zip(self._lists, self._counts):
            del each[count:]


class ImportState:
    """State of a network while its nodes are imported; nothing outside sets its attributes."""

    def __init__(self, request: ImportRequest) -> None:
        zeros = [condition.zero for condition in request.constraints.checked]
        self.request = request
        self.dims = Dims(request.dims, request.constraints.narrowed, zeros)
        self.unchecked = list(request.constraints.checked)  # whose sizes are not known yet
        self.sizes = KnownSizes()
        self.functions = ModelFunctions(request.model)
        self.declarations = Declarations(request, self.dims)
        self.problems = Problems()
        self.tables = TableBudget()
        self.graph = Graph(request.model.graph.name or "graph")
        self.whole = self.graph  # also while a body is imported into a graph of its own
        self.graph.licence, self.graph.columns = licence(request.model), columns(request.model)
        self.graph.bundles.update(request.bundles)
        self.builder = Builder(self.graph, budget=FoldingBudget())

    def declared(self, name: str) -> tuple | None:
        """Return the shape that the network declares of an inner tensor; None if there is none, or
        if it has dimensions that no input has."""
        shape = self.declared_bounds(name)
        if shape is None:
            return None
        return shape if symbols_of(shape) <= self.declarations.symbols() else None

    def declared_bounds(self, name: str) -> tuple | None:
        """Return the declared shape of a tensor, including dimensions that no input has; these have
        bounds, and the run computes their sizes."""
        return None if self.functions.is_inside else self.declarations.shapes.get(name)

    @contextmanager
    def separate_graph(self, name: str) -> Iterator[Graph]:
        """Import nodes to a graph of their own. Errors of its nodes are dropped at the end."""
        outer = self.graph, self.builder
        count = len(self.problems.texts)
        self.graph = Graph(name)
        self.graph.op_types = outer[0].op_types
        self.builder = Builder(self.graph, outer[1].sources, outer[1].budget)
        try:
            yield self.graph
        finally:
            del self.problems.texts[count:]
            self.graph, self.builder = outer
