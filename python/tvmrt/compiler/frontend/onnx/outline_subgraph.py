"""Subgraph outlining: import a subgraph as a graph of its own, such as a loop body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmrt.compiler.ir import Graph, TensorType, Value
from tvmrt.compiler.ir.computed_sizes.element_ranges import interval
from tvmrt.compiler.ir.sizes import Symbol, SymInt, data_dependent_symbols, substitute
from tvmrt.error import UnsupportedError

from .import_state import Checkpoint
from .sequence_values import OnnxValue, PackedSequence, StackedSequence, TensorList, tensors_of
from .tensors import captured_names

if TYPE_CHECKING:
    from .structured_loop import StructuredLoop


@dataclass(frozen=True)
class OutlinedGraph:
    """An outlined graph. Its inputs are the requested ones, then one for each of ``captured``, the
    outer values that it reads. ``counts``: the outer data-dependent sizes by the symbols that stand
    for them inside."""

    graph: Graph
    captured: list[Value]
    counts: dict[Symbol, Symbol]

    def to_outer_type(self, type: TensorType) -> TensorType:
        """Translate a type of the graph to the outer scope."""
        sizes = {inner.name: outer.extent for inner, outer in self.counts.items()}
        return type.with_shape(substitute(n, sizes) for n in type.shape)


def outline_subgraph(
    loop: StructuredLoop,
    inputs: Sequence[tuple[str, TensorType, SymInt | None]],
    run: Callable[[list[Value], Mapping[str, OnnxValue | None]], list[Value | None]],
) -> OutlinedGraph:
    """Import a loop's body as a graph of its own. ``inputs``: name, type and, if it is known, the
    value of each element of its inputs; ``run`` returns its results, of the inputs and a scope.

    Raises UnsupportedError if one of the nodes cannot be compiled.
    """
    importer, body = loop.ctx.importer, loop.body
    counts: dict[Symbol, Symbol] = {}
    with importer.separate_graph("step" if callable(body) else body.name or "body") as graph:
        for name, type, number in inputs:
            elements = None if number is None else np.full(type.shape, number, object)
            graph.inputs.append(_mirror_input(importer, name, type, elements, counts))
        given = list(graph.inputs)
        if callable(body):
            graph.outputs = run(given, {})
            return OutlinedGraph(graph, [], counts)
        start, outer, inside = Checkpoint(importer), loop.ctx.scope, {}
        read = [outer[name] for name in captured_names(body) if outer.get(name) is not None]
        captured = [v for v in dict.fromkeys(tensors_of(read)) if v.data is None]
        for v in captured:
            elements = importer.sizes.extents.get(v)
            inside[v] = _mirror_input(importer, v.name, v.type, elements, counts)
            importer.sizes.intervals[inside[v]] = interval(v, importer.sizes.intervals)
        graph.inputs += inside.values()
        results = run(given, {name: _mirrored(v, inside) for name, v in outer.items()})
        if start.problems or any(v is None for v in results):
            reasons = start.problems or ["one of its results cannot be compiled"]
            raise UnsupportedError("; ".join(reasons))
        graph.outputs = results
        return OutlinedGraph(graph, captured, counts)


def _mirrored(value: OnnxValue | None, inside: Mapping[Value, Value]) -> OnnxValue | None:
    """Return an outer value, possibly a sequence, with the graph's inputs in place of tensors."""
    if isinstance(value, StackedSequence):
        return StackedSequence(inside.get(value.value, value.value))
    if isinstance(value, PackedSequence):
        parts, sizes = (inside.get(v, v) for v in (value.value, value.sizes))
        return PackedSequence(parts, value.axis, sizes)
    if isinstance(value, TensorList):
        return TensorList([_mirrored(v, inside) for v in value.values])
    return inside.get(value, value)


def _mirror_input(
    importer: Any,
    name: str,
    type: TensorType,
    elements: np.ndarray | None,
    counts: dict[Symbol, Symbol],
) -> Value:
    """Return an input of a subgraph of an outer type; ``elements``: its sizes, if it has them.
    Outer data-dependent sizes become parameters of the body and are added to ``counts``."""
    sizes = [] if elements is None else elements.reshape(-1).tolist()
    outer = data_dependent_symbols(type.shape, sizes)
    inner = [replace(symbol, source=None, local=True) for symbol in outer]
    counts.update(zip(inner, outer))
    inside = {symbol.name: symbol.extent for symbol in inner}
    result = Value(name, type.with_shape(substitute(n, inside) for n in type.shape))
    if elements is not None:
        local = [substitute(n, inside) for n in sizes]
        importer.sizes.extents[result] = np.asarray(local, object).reshape(elements.shape)
    return result
