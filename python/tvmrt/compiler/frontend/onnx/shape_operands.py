"""Infer run-time integer operands from the declared output shapes.

The part of the network that reads these operands is imported with two sets of trial values. If an
output extent equals the same element in both imports, the declared extent is the value of that
element. Each run checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Optional

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmrt.compiler.frontend.dims import MAX_DIM
from tvmrt.compiler.ir import Value, constant
from tvmrt.compiler.ir.extent import Extent

from .import_state import ImportState, Known
from .outline_subgraph import captured_names
from .tensors import subgraphs

Trials = Sequence[Known]

ANY = -1  # value of an element that may be anything

MAX_ELEMENTS = 8  # maximum number of input elements that may be shapes
MAX_NODES = 256  # maximum size of a network that is imported once per input extent
# Trial values; no two of them are adjacent.
_TRIAL_VALUES = ((11, 13, 17, 19, 23, 29, 31, 37), (41, 43, 47, 53, 59, 61, 67, 71))


# Returns the shapes of the outputs for some values of inputs; None if the import fails.
OutputShapes = Callable[[Known], Optional[Sequence[tuple]]]


@dataclass(frozen=True)
class ShapeOperandSearch:
    """Search of the values that the declared output shapes imply for some inputs.

    ``model``: the part of the network that computes the outputs that depend on these inputs, whose
    ``declared`` shapes are constant. ``candidates``: type and shape of the inputs by name.
    """

    model: onnx.ModelProto
    declared: list[tuple[int, ...]]
    candidates: Mapping[str, tuple[np.dtype, tuple[int, ...]]]

    def run(self, output_shapes: OutputShapes) -> dict[str, np.ndarray]:
        """Return the values of inputs by name; ``ANY`` for an element without one. Inputs without
        any value are omitted."""
        trials = [_trial_values(self.candidates, values) for values in _TRIAL_VALUES]
        shapes = _shapes_of_trials(trials, output_shapes)
        if shapes is None:
            with_pin = _pin_one_element(self.model.graph, trials, output_shapes)
            if with_pin is None:
                return {}
            trials, shapes = with_pin
        found = {
            name: _solve(*(t[name] for t in trials), shapes, self.declared)
            for name in self.candidates
        }
        return {name: values for name, values in found.items() if (values != ANY).any()}


def search_operands(
    model: onnx.ModelProto, refused: Sequence[onnx.NodeProto]
) -> ShapeOperandSearch | None:
    """Return the search of the inputs that the ``refused`` nodes depend on; None if no input is a
    candidate, or if an output has no constant declared shape."""
    declared = _declared_output_shapes(model.graph)
    if declared is None:
        return None
    candidates = _candidate_inputs(model.graph, _dependencies(model.graph, refused))
    if not candidates:
        return None
    needed = _dependents(model.graph, candidates)
    outputs = [info.name for info in model.graph.output]
    part = _extract(model, [name for name in outputs if name in needed])
    names = {name for node in part.graph.node for name in node.output}
    if not all(name in names for node in refused for name in node.output if name):
        part = model  # a refused node of a subgraph, or one that no such output needs
    kept = {info.name for info in part.graph.output}
    return ShapeOperandSearch(
        part, [shape for name, shape in zip(outputs, declared) if name in kept], candidates
    )


def _dependents(graph: onnx.GraphProto, names: Collection[str]) -> set[str]:
    """Return the names that depend on some names, directly or not."""
    found = set(names)
    for node in graph.node:
        if not found.isdisjoint(_names_read_by(node)):
            found.update(node.output)
    return found


def _extract(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """Return the part of a network that computes some of its outputs; its inputs stay."""
    graph = model.graph
    read = set(outputs)
    kept = []
    for node in reversed(graph.node):
        if not read.isdisjoint(node.output):
            kept.append(node)
            read.update(_names_read_by(node))
    if len(kept) == len(graph.node):
        return model
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.functions.extend(model.functions)
    part.graph.name = graph.name
    part.graph.node.extend(reversed(kept))
    part.graph.input.extend(graph.input)
    part.graph.value_info.extend(graph.value_info)
    part.graph.output.extend(info for info in graph.output if info.name in outputs)
    inputs = read | {info.name for info in graph.input}
    part.graph.initializer.extend(t for t in graph.initializer if t.name in inputs)
    return part


def _shapes_of_trials(trials: Trials, output_shapes: OutputShapes) -> list[Sequence[tuple]] | None:
    """Return the output shapes for trial values; None if the network cannot be imported."""
    found: list[Sequence[tuple]] = []
    for known in trials:
        shapes = output_shapes(known)
        if shapes is None:
            return None
        found.append(shapes)
    return found


def _pin_one_element(
    graph: onnx.GraphProto, trials: Trials, output_shapes: OutputShapes
) -> tuple[Trials, list[Sequence[tuple]]] | None:
    """Fix one element to an extent of an input. Return the trials and output shapes if exactly one
    such choice can be imported; else None."""
    if len(graph.node) > MAX_NODES:
        return None
    extents = {d.dim_value for info in graph.input for d in info.type.tensor_type.shape.dim}
    fitting = []
    for name, values in trials[0].items():
        for index in range(values.size):
            for extent in sorted(extents - {0}):
                changed = [_with_element(known, name, index, extent) for known in trials]
                shapes = _shapes_of_trials(changed, output_shapes)
                fitting += [] if shapes is None else [(changed, shapes)]
    return fitting[0] if len(fitting) == 1 else None


def _with_element(known: Known, name: str, index: int, element: int) -> Known:
    values = known[name].copy()
    values.flat[index] = element
    return {**known, name: values}


def _declared_output_shapes(graph: onnx.GraphProto) -> list[tuple[int, ...]] | None:
    """Return the declared output shapes; None if one of them is not constant."""
    shapes = []
    for info in graph.output:
        tensor = info.type.tensor_type
        if not tensor.HasField("shape") or not all(
            d.HasField("dim_value") for d in tensor.shape.dim
        ):
            return None
        shapes.append(tuple(d.dim_value for d in tensor.shape.dim))
    return shapes


def _dependencies(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Return the names on which nodes depend, directly or not; all inputs for nodes of
    subgraphs."""
    producers = {name: node for node in graph.node for name in node.output}
    if not all(name in producers for node in nodes for name in node.output if name):
        return {info.name for info in graph.input}
    result: set[str] = set()
    pending = [name for node in nodes for name in _names_read_by(node)]
    while pending:
        name = pending.pop()
        if name not in result:
            result.add(name)
            pending += _names_read_by(producers[name]) if name in producers else []
    return result


def _names_read_by(node: onnx.NodeProto) -> list[str]:
    return [*node.input, *(name for inner in subgraphs(node) for name in captured_names(inner))]


def _candidate_inputs(
    graph: onnx.GraphProto, sources: set[str]
) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Return type and shape of integer inputs of constant size by name, for ``sources`` only."""
    weights = {tensor.name for tensor in graph.initializer}
    found, count = {}, 0
    for info in graph.input:
        tensor = info.type.tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        is_integer = tensor.elem_type in (TensorProto.INT32, TensorProto.INT64)
        if (
            info.name in weights
            or info.name not in sources
            or not is_integer
            or not tensor.HasField("shape")
        ):
            continue
        size = int(np.prod(shape))
        if len(shape) <= 1 and 0 < size <= MAX_ELEMENTS - count:
            found[info.name] = helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape
            count += size
    return found


def _trial_values(candidates: Mapping, values: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return each input with distinct trial values."""
    found, remaining = {}, list(values)
    for name, (dtype, shape) in candidates.items():
        size = int(np.prod(shape))
        found[name] = np.asarray(remaining[:size], dtype).reshape(shape)
        del remaining[:size]
    return found


def _solve(first: np.ndarray, second: np.ndarray, shapes: list, declared: list) -> np.ndarray:
    """Return the elements that give the declared extents; ``ANY`` for one that is in no extent."""
    extent_of_trial = {
        (a, b): wanted
        for rows in zip(*shapes, declared)
        for a, b, wanted in zip(*rows)
        if isinstance(a, int) and isinstance(b, int)
    }
    pairs = list(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist()))
    found = [a if a == b else extent_of_trial.get((a, b), ANY) for a, b in pairs]
    return np.asarray(found, np.int64).reshape(first.shape)


def require_values(importer: ImportState, value: Value, known: np.ndarray) -> Value:
    """Replace an input by the values that it must have; a run with others ends with an error."""
    builder, name = importer.builder, value.name
    emit = partial(builder.emit, name=name)
    flat = emit("reshape", [value], shape=(known.size,))
    flat = flat if flat.dtype.name == "int64" else emit("cast", [flat], to="int64")
    values = known.reshape(-1).tolist()
    free = [n == ANY for n in values]
    checked = flat
    if any(free):
        keep = builder.const(np.asarray([not f for f in free], np.int64), name)
        checked = emit("mul", [flat, keep])
    text = ", ".join("any" if n == ANY else str(n) for n in values)
    emit(
        "require",
        [checked, flat],
        expected=tuple(0 if n == ANY else n for n in values),
        where=f"input '{name}'",
        text=f"results of their declared shapes, [{text}]",
    )
    if not any(free):
        return constant(known.astype(value.dtype.numpy), name)
    elements = [
        _element_extent(importer, emit, flat, index) if n == ANY else n
        for index, n in enumerate(values)
    ]
    importer.sizes.extents[value] = np.asarray(elements, object).reshape(known.shape)
    return value


def _element_extent(importer: ImportState, emit: Callable, flat: Value, index: int) -> Extent:
    """Return a run-time element as an extent."""
    part = emit("slice", [flat], starts=(index,), steps=(1,), sizes=(1,))
    dims, what = importer.dims, f"element {index}"
    name = dims.unique_name(f"{flat.name}_{index}")
    element = emit("reshape", [part], shape=())
    source = emit("count", [element], extent=name, what=what, low=0, high=MAX_DIM)
    return dims.declare_symbol(name, 0, MAX_DIM, source)
