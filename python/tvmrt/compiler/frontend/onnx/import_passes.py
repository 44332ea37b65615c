"""The passes of an ONNX import, in their order.

The first passes change the model, which stays a valid ONNX model of the same network. Then
``import_at_valid_sizes`` makes the graph.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.frontend.size_constraints import narrow_sizes, warn_of_constraints
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.sizes.assumptions import collect_assumptions
from tvmrt.error import UnsupportedError

from . import fixed_values
from .check_model import check_ssa_form
from .device_fallback import FallbackHandler
from .flatten_io import sequences_to_tensors, shapes_by_tensor
from .import_state import ImportRequest
from .importer import GraphImporter
from .inputs import make_given_inputs, name_symbolic_axes
from .model_file import load_lazily
from .sanitize_model import sanitize_model
from .version_converter import upgrade_opset

MAX_IMPORTS = 12  # maximum number of imports until the valid sizes are known


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
    request = ImportRequest(
        *load_lazily(source),
        shapes or {},
        dims,
        operators,
        dict(fallback_handlers or {}),
        sequences=dict(sequences or {}),
        is_bounded=is_bounded,
    )
    request = fixed_values.with_values(request, values or {})
    try:
        for run_pass in PASSES:
            request = run_pass(request)
        return import_at_valid_sizes(request)
    except RecursionError as problem:
        raise UnsupportedError(
            "the network's functions, branches and loop bodies are nested too deeply; export it "
            "with fewer levels, or raise Python's limit with sys.setrecursionlimit"
        ) from problem


def sanitize(request: ImportRequest) -> ImportRequest:
    """Correct what exporters are known to write wrongly, and remove defaults of given inputs."""
    return replace(request, model=make_given_inputs(sanitize_model(request.model), request.shapes))


def flatten_sequences(request: ImportRequest) -> ImportRequest:
    """Replace inputs that are sequences or maps by tensors."""
    model, bundles = sequences_to_tensors(request.model, request.sequences, Dims(request.dims))
    return replace(request, model=model, bundles=bundles)


def check_ssa(request: ImportRequest) -> ImportRequest:
    """Check that each tensor has one producer, which precedes its readers."""
    check_ssa_form(request.model)
    return request


def name_dimensions(request: ImportRequest) -> ImportRequest:
    """Assign the given shapes to the tensors of each input, and name dynamic axes without one."""
    shapes = shapes_by_tensor(request.shapes, request.bundles)
    return replace(request, model=name_symbolic_axes(request.model, shapes), shapes=shapes)


def convert_version(request: ImportRequest) -> ImportRequest:
    """Convert operators of old versions."""
    return replace(request, model=upgrade_opset(request.model))


PASSES = (sanitize, flatten_sequences, check_ssa, name_dimensions, convert_version)


def import_at_valid_sizes(request: ImportRequest) -> Graph:
    """Import the nodes, and restrict the dimensions to the sizes at which all nodes are valid.

    An import assumes the conditions on sizes that it cannot decide. They narrow the dimensions, or
    a run checks them first, and the nodes are imported again. If no sizes satisfy the conditions,
    the error of the node is raised.
    """
    for _ in range(MAX_IMPORTS):
        error: Exception | None = None
        importer = GraphImporter(request)
        graph = None
        with collect_assumptions() as assumed:
            try:
                graph = importer.run()
            except (ValueError, UnsupportedError) as problem:
                error = problem
        constraints = narrow_sizes(request.constraints, assumed)
        if constraints is None:
            if assumed.conditions:
                break  # the next import raises the error
            if error is not None:
                try:
                    raise error
                finally:
                    error = None  # its traceback holds this frame and all weights of the file
            importer.problems.raise_error()
            warn_of_constraints(request.constraints, request.dims or {})
            return graph  # type: ignore[return-value]  # without problems there is a graph
        request = replace(request, constraints=constraints)
        importer, graph = None, None  # type: ignore[assignment]  # they are no longer needed
    importer = GraphImporter(request)
    graph = importer.run()
    importer.problems.raise_error()
    return graph  # type: ignore[return-value]
