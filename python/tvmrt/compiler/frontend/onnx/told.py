"""Infer run-time integer operands from the declared output shapes.

The network is imported with two sets of trial values for these operands. If an output extent equals
the same element in both imports, the declared extent is the value of that element. Each run checks
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmrt.compiler.frontend.dims import MAX_DIM
from tvmrt.compiler.ir import Graph, Value, constant
from tvmrt.compiler.ir.extent import Extent
from tvmrt.error import TVMError

from .import_state import ImportState, Known
from .outline_subgraph import captured_names
from .tensors import subgraphs

Trials = Sequence[Known]

ANY = -1  # value of an element that may be anything

MOST = 8  # maximum number of input elements that may be shapes
MOST_NODES = 256  # maximum size of a network that is imported once per input extent
# Trial values; no two of them are adjacent.
_TRIED = ((11, 13, 17, 19, 23, 29, 31, 37), (41, 43, 47, 53, 59, 61, 67, 71))


def by_results(
    model: onnx.ModelProto,
    refused: Sequence[onnx.NodeProto],
    attempt: Callable[[Known], Graph],
) -> dict[str, np.ndarray]:
    """Return the input values implied by the declared output shapes, by name; ``ANY`` for an
    element without one. Inputs without any are omitted, and so are inputs that no ``refused`` node
    depends on. ``attempt`` imports the network with some inputs known."""
    declared = _declared(model.graph)
    kinds = {} if declared is None else _candidates(model.graph, _sources(model.graph, refused))
    if not kinds:
        return {}
    trials = [_numbered(kinds, numbers) for numbers in _TRIED]
    shapes = _shapes(trials, attempt)
    if shapes is None:
        pinned = _pinned(model.graph, trials, attempt)
        if pinned is None:
            return {}
        trials, shapes = pinned
    found = {name: _solved(*(t[name] for t in trials), shapes, declared) for name in kinds}
    return {name: numbers for name, numbers in found.items() if (numbers != ANY).any()}


def _shapes(trials: Trials, attempt: Callable[[Known], Graph]) -> list[list[tuple]] | None:
    """Return the output shapes for trial values; None if the network cannot be imported."""
    try:
        return [[value.shape for value in attempt(known).outputs] for known in trials]
    except (TVMError, ValueError, KeyError, MemoryError):
        return None


def _pinned(
    graph: onnx.GraphProto, trials: Trials, attempt: Callable[[Known], Graph]
) -> tuple[Trials, list[list[tuple]]] | None:
    """Fix one element to an extent of an input. Return the trials and output shapes if exactly one
    such choice can be imported; else None."""
    if len(graph.node) > MOST_NODES:
        return None
    extents = {d.dim_value for info in graph.input for d in info.type.tensor_type.shape.dim}
    fitting = []
    for name, numbers in trials[0].items():
        for place in range(numbers.size):
            for extent in sorted(extents - {0}):
                changed = [_changed(known, name, place, extent) for known in trials]
                shapes = _shapes(changed, attempt)
                fitting += [] if shapes is None else [(changed, shapes)]
    return fitting[0] if len(fitting) == 1 else None


def _changed(known: Known, name: str, place: int, number: int) -> Known:
    numbers = known[name].copy()
    numbers.flat[place] = number
    return {**known, name: numbers}


def _declared(graph: onnx.GraphProto) -> list[tuple[int, ...]] | None:
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


def _sources(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Return the names on which nodes depend, directly or not; all inputs for nodes of
    subgraphs."""
    makers = {name: node for node in graph.node for name in node.output}
    if not all(name in makers for node in nodes for name in node.output if name):
        return {info.name for info in graph.input}
    found: set[str] = set()
    open_ = [name for node in nodes for name in _read_by(node)]
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_ += _read_by(makers[name]) if name in makers else []
    return found


def _read_by(node: onnx.NodeProto) -> list[str]:
    return [*node.input, *(name for inner in subgraphs(node) for name in captured_names(inner))]


def _candidates(
    graph: onnx.GraphProto, sources: set[str]
) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Return type and shape of integer inputs of constant size by name, for ``sources`` only."""
    weights = {tensor.name for tensor in graph.initializer}
    found, count = {}, 0
    for info in graph.input:
        tensor = info.type.tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        whole = tensor.elem_type in (TensorProto.INT32, TensorProto.INT64)
        if (
            info.name in weights
            or info.name not in sources
            or not whole
            or not tensor.HasField("shape")
        ):
            continue
        size = int(np.prod(shape))
        if len(shape) <= 1 and 0 < size <= MOST - count:
            found[info.name] = helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape
            count += size
    return found


def _numbered(kinds: Mapping, numbers: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return each input with distinct trial values."""
    found, rest = {}, list(numbers)
    for name, (dtype, shape) in kinds.items():
        size = int(np.prod(shape))
        found[name] = np.asarray(rest[:size], dtype).reshape(shape)
        del rest[:size]
    return found


def _solved(first: np.ndarray, second: np.ndarray, shapes: list, declared: list) -> np.ndarray:
    """Return the elements that give the declared extents; ``ANY`` for one that is in no extent."""
    told = {
        (a, b): wanted
        for rows in zip(*shapes, declared)
        for a, b, wanted in zip(*rows)
        if isinstance(a, int) and isinstance(b, int)
    }
    pairs = list(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist()))
    found = [a if a == b else told.get((a, b), ANY) for a, b in pairs]
    return np.asarray(found, np.int64).reshape(first.shape)


def held(importer: ImportState, value: Value, known: np.ndarray) -> Value:
    """Replace an input by the values that it must have; a run with others ends with an error."""
    builder, name = importer.builder, value.name
    emit = partial(builder.emit, name=name)
    flat = emit("reshape", [value], shape=(known.size,))
    flat = flat if flat.dtype.name == "int64" else emit("cast", [flat], to="int64")
    numbers = known.reshape(-1).tolist()
    free = [n == ANY for n in numbers]
    checked = flat
    if any(free):
        keep = builder.const(np.asarray([not f for f in free], np.int64), name)
        checked = emit("mul", [flat, keep])
    text = ", ".join("any" if n == ANY else str(n) for n in numbers)
    emit(
        "require",
        [checked, flat],
        expected=tuple(0 if n == ANY else n for n in numbers),
        where=f"input '{name}'",
        text=f"results of their declared shapes, [{text}]",
    )
    if not any(free):
        return constant(known.astype(value.dtype.numpy), name)
    elements = [
        _open(importer, emit, flat, place) if n == ANY else n for place, n in enumerate(numbers)
    ]
    importer.extents[value] = np.asarray(elements, object).reshape(known.shape)
    return value


def _open(importer: ImportState, emit: Callable, flat: Value, place: int) -> Extent:
    """Return a run-time element as an extent."""
    part = emit("slice", [flat], starts=(place,), steps=(1,), sizes=(1,))
    dims, what = importer.dims, f"element {place}"
    name = dims.unique_name(f"{flat.name}_{place}")
    number = emit("reshape", [part], shape=())
    source = emit("count", [number], extent=name, what=what, low=0, high=MAX_DIM)
    return dims.declare_symbol(name, 0, MAX_DIM, source)
