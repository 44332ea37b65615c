"""The passes of an ONNX import, in their order.

Each pass takes a ``NetworkImport`` and returns one. The first passes change the model, which stays
a valid ONNX model of the same network. ``import_at_valid_sizes`` makes the graph.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx

from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.frontend.size_constraints import narrow_sizes, warn_of_constraints
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.sizes.assumptions import collect_assumptions
from tvmrt.error import UnsupportedError

from . import fixed_values
from .axis_names import name_symbolic_axes
from .check_ssa import check_ssa_form
from .device_fallback import FallbackHandler
from .flatten_io import sequences_to_tensors, shapes_by_tensor
from .import_state import ImportRequest, Problems
from .importer import GraphImporter
from .inputs import make_given_inputs
from .model_file import load_lazily
from .sanitize_model import sanitize_model
from .version_converter import upgrade_opset

MAX_IMPORTS = 12  # maximum number of imports until the valid sizes are known


@dataclass(frozen=True)
class NetworkImport:
    """State between two passes: what to import, the lengths of its sequence inputs, and the graph,
    or the problems that prevent it once the nodes were imported."""

    request: ImportRequest
    sequences: Mapping[str, int | None]
    graph: Graph | None = None
    problems: Problems = field(default_factory=Problems)

    def with_model(self, model: onnx.ModelProto) -> NetworkImport:
        """Return the state with another model of the same network."""
        return replace(self, request=replace(self.request, model=model))


def import_model(
    source: str | os.PathLike | onnx.ModelProto,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    operators: Any = None,
    dims: Mapping[str, int | str | Sequence[int]] | None = None,
    sequences: Mapping[str, int | None] | None = None,
    fallback_handlers: Mapping[str, FallbackHandler] | None = None,
    is_bounded: bool = False,
    values: Mapping[str, int | Sequence[int]] | None = None,
) -> Graph:
    """Import an ONNX model.

    ``shapes``: the shape of each input with symbolic dimensions. ``dims``: the maximum, or
    (minimum, maximum), of each dynamic dimension. ``operators``: user-defined operators, by
    ``find(domain, name, version)``. ``sequences``: the lengths of sequence inputs, see
    ``flatten_io.sequences_to_tensors``. ``is_bounded``: sizes that are found by data need bounds,
    because memory is planned before a run. ``values``: by name, the value of inputs that is the
    same in all runs; each run checks it. ``fallback_handlers``: by device, the one that takes nodes
    without an operator. Raises OSError (file), ValueError (damaged or contradictory),
    KeyError (a shape or value for an unknown input) or UnsupportedError, which lists all
    unsupported nodes.
    """
    lengths = dict(sequences or {})
    request = ImportRequest(
        *load_lazily(source),
        shapes or {},
        dims,
        operators,
        dict(fallback_handlers or {}),
        max_sequence_lengths={name: most for name, most in lengths.items() if most},
        is_bounded=is_bounded,
    )
    request = fixed_values.with_values(request, values or {})
    network = NetworkImport(request, lengths)
    try:
        for run_pass in PASSES:
            network = run_pass(network)
    except RecursionError as problem:
        raise UnsupportedError(
            "the network's functions, branches and loop bodies are nested too deeply; export it "
            "with fewer levels, or raise Python's limit with sys.setrecursionlimit"
        ) from problem
    network.problems.raise_error()
    return network.graph  # type: ignore[return-value]  # without problems there is a graph


def sanitize(network: NetworkImport) -> NetworkImport:
    """Correct what exporters are known to write wrongly, and remove defaults of given inputs."""
    request = network.request
    return network.with_model(make_given_inputs(sanitize_model(request.model), request.shapes))


def flatten_sequences(network: NetworkImport) -> NetworkImport:
    """Replace inputs that are sequences or maps by tensors."""
    request = network.request
    model, bundles = sequences_to_tensors(
        request.model, dict(network.sequences), Dims(request.dims)
    )
    return replace(network, request=replace(request, model=model, bundles=bundles))


def check_ssa(network: NetworkImport) -> NetworkImport:
    """Check that each tensor has one producer, which precedes its readers."""
    check_ssa_form(network.request.model)
    return network


def name_dimensions(network: NetworkImport) -> NetworkImport:
    """Assign the given shapes to the tensors of each input, and name dynamic axes without one."""
    request = network.request
    shapes = shapes_by_tensor(request.shapes, request.bundles)
    model = name_symbolic_axes(request.model, shapes)
    return replace(network, request=replace(request, model=model, shapes=shapes))


def convert_version(network: NetworkImport) -> NetworkImport:
    """Convert operators of old versions."""
    return network.with_model(upgrade_opset(network.request.model))


def import_at_valid_sizes(network: NetworkImport) -> NetworkImport:
    """Import the nodes, and restrict the dimensions to the sizes at which all nodes are valid.

    An import assumes the conditions on sizes that it cannot decide. They narrow the dimensions, or
    a run checks them first, and the nodes are imported again. If no sizes satisfy the conditions,
    the error of the node is raised.
    """
    for _ in range(MAX_IMPORTS):
        error: Exception | None = None
        with collect_assumptions() as assumed:
            try:
                network = import_nodes(network)
            except (ValueError, UnsupportedError) as problem:
                error = problem
        is_complete = error is None and network.graph is not None
        constraints = narrow_sizes(network.request.constraints, assumed)
        if is_complete and assumed.unbounded and (constraints is None or constraints.checked):
            # nothing narrows the data-dependent sizes
            raise UnsupportedError("; ".join(dict.fromkeys(assumed.unbounded.values())))
        if constraints is None:
            if assumed.conditions:
                break  # the next import raises the error
            if error is not None:
                try:
                    raise error
                finally:
                    error = None  # its traceback holds this frame and all weights of the file
            if is_complete:
                warn_of_constraints(network.request.constraints, network.request.dims or {})
            return network
        request = replace(network.request, constraints=constraints)
        network = NetworkImport(request, network.sequences)  # the graph is no longer needed
    return import_nodes(network)


def import_nodes(network: NetworkImport) -> NetworkImport:
    """Import the nodes of the model once."""
    importer = GraphImporter(network.request)
    return replace(network, graph=importer.run(), problems=importer.problems)


PASSES = (
    sanitize,
    flatten_sequences,
    check_ssa,
    name_dimensions,
    convert_version,
    import_at_valid_sizes,
)
