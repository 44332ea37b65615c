"""Integers that a run brings, where nothing but the shapes of the network's results tells them.

The network is imported with two sets of other numbers in their places. An extent of a result that
is the number at one place both times is that number, and what the network declares of this extent
is what it must be; runs are held to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmrt.error import TVMError
from tvmrt.ir import Builder, Graph, Value, constant

from .apart import names_read
from .tensors import subgraphs

Known = Mapping[str, np.ndarray]

MOST = 8  # elements of an input that may be a shape
# Numbers that are tried, none of which is another one's neighbour.
_TRIED = ((11, 13, 17, 19, 23, 29, 31, 37), (41, 43, 47, 53, 59, 61, 67, 71))


def by_results(
    model: onnx.ModelProto,
    refused: Sequence[onnx.NodeProto],
    attempt: Callable[[Known], Graph],
) -> dict[str, np.ndarray]:
    """What inputs must be for the results to have their declared shapes, by name; those that no
    result tells are left out, and those that no node depends on that was ``refused``. ``attempt``
    imports the network with some inputs as constants."""
    declared = _declared(model.graph)
    kinds = {} if declared is None else _candidates(model.graph, _sources(model.graph, refused))
    while kinds:
        tried = [_numbered(kinds, numbers) for numbers in _TRIED]
        try:
            shapes = [_shapes(attempt(known)) for known in tried]
        except (TVMError, ValueError, KeyError):
            return {}
        found = {name: _solved(*(known[name] for known in tried), shapes, declared)
                 for name in kinds}  # fmt: skip
        told = {name: numbers for name, numbers in found.items() if numbers is not None}
        if len(told) == len(kinds):
            return told
        kinds = {name: kinds[name] for name in told}
    return {}


def _declared(graph: onnx.GraphProto) -> list[tuple[int, ...]] | None:
    """The shapes of the results; None where one is not told in numbers."""
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
    """The names on which nodes depend, at any remove; all where one is of a graph inside."""
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
    return [*node.input, *(name for inner in subgraphs(node) for name in names_read(inner))]


def _candidates(
    graph: onnx.GraphProto, sources: set[str]
) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Type and shape of the inputs that are integers of a fixed number, by name; of ``sources``
    alone."""
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
    """Each input with numbers of its own."""
    found, rest = {}, list(numbers)
    for name, (dtype, shape) in kinds.items():
        size = int(np.prod(shape))
        found[name] = np.asarray(rest[:size], dtype).reshape(shape)
        del rest[:size]
    return found


def _shapes(graph: Graph) -> list[tuple]:
    return [value.shape for value in graph.outputs]


def _solved(
    first: np.ndarray, second: np.ndarray, shapes: list, declared: list
) -> np.ndarray | None:
    """The elements that give the declared extents; None where one is in no extent."""
    if any(len(s) != len(d) for tried in shapes for s, d in zip(tried, declared)):
        return None
    told = {
        (a, b): wanted
        for rows in zip(*shapes, declared)
        for a, b, wanted in zip(*rows)
        if isinstance(a, int) and isinstance(b, int)
    }
    pairs = list(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist()))
    if not all(pair in told for pair in pairs):
        return None
    return np.asarray([told[pair] for pair in pairs], first.dtype).reshape(first.shape)


def held(builder: Builder, value: Value, known: np.ndarray) -> Value:
    """An input as the constant that it must be; a run in which it is not ends with an error."""
    flat = builder.emit("reshape", [value], value.name, shape=(known.size,))
    flat = (
        flat if flat.dtype.name == "int64" else builder.emit("cast", [flat], value.name, to="int64")
    )
    numbers = tuple(known.reshape(-1).tolist())
    builder.emit(
        "require",
        [flat, flat],
        value.name,
        expected=numbers,
        where=f"input '{value.name}'",
        text=f"results of their declared shapes, {list(numbers)}",
    )
    return constant(known, value.name)
