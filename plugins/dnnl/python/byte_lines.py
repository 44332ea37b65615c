"""Tables of bytes that are lines, as conversions: for libraries that convert and have no tables.

Between conversions of two scales a rectifier, a bound or nothing at all became a table. It is a
line where some scale and zero points give every entry of it, which is tried, entry by entry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.quantized import dequantize_array, quantize_array


class Line(NamedTuple):
    """round(f / scale) + y_zero of f = x - x_zero, which is 0 at least if ``is_bent``."""

    x_zero: np.ndarray
    scale: np.ndarray
    y_zero: np.ndarray
    is_bent: bool

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        floats = dequantize_array(x, np.float32(1), self.x_zero)
        bent = np.maximum(floats, np.float32(0)) if self.is_bent else floats
        return quantize_array(bent, self.scale, self.y_zero)


def line_of(node: Node) -> Line | None:
    """The line that a table is; None if it is none, or constant."""
    x_kind, y_kind = node.inputs[0].dtype.numpy, node.output.dtype.numpy
    table = node.inputs[1].data
    if table is None:
        return None
    entries = table.view(y_kind)
    x = np.arange(256, dtype=np.uint8).view(x_kind)
    order = np.argsort(x, kind="stable")
    for is_bent in (False, True):
        for zero in order:
            line = _through(x[order], entries[order], x[zero], entries[zero], is_bent)
            if line is not None and np.array_equal(line.evaluate(x), entries):
                return line
    return None


def _through(
    x: np.ndarray, y: np.ndarray, x_zero: np.generic, y_zero: np.generic, is_bent: bool
) -> Line | None:
    """The line in the middle of those that round to the entries, if there are any."""
    info = np.iinfo(y.dtype)
    away = x.astype(np.float64) - np.float64(x_zero)
    steps = y.astype(np.float64) - np.float64(y_zero)
    counts = (y > info.min) & (y < info.max) & ((away > 0) if is_bent else (away != 0))
    if not np.any(counts):
        return None
    bounds = [(steps[counts] + half) / away[counts] for half in (-0.5, 0.5)]
    low, high = np.minimum(*bounds).max(), np.maximum(*bounds).min()
    if not 0 < low < high:
        return None
    scale = np.float32(2 / (low + high))
    return Line(np.asarray(x_zero), np.asarray(scale), np.asarray(y_zero), is_bent)


def without_lines(graph: Graph) -> None:
    """Put conversions in the place of tables that are lines."""
    fresh = Graph(graph.name)
    builder = Builder(fresh)
    mapping: dict[Value, Value] = {}
    for node in graph.nodes:
        node.inputs = [v if v is None else mapping.get(v, v) for v in node.inputs]
        if node.guard is not None:
            node.guard = (mapping.get(node.guard[0], node.guard[0]), node.guard[1])
        line = line_of(node) if node.op == "table" else None
        if line is None:
            fresh.nodes.append(node)
            continue
        builder.sources, builder.guard = node.sources, node.guard
        one = builder.const(np.float32(1))
        y = builder.emit("dequantize", [node.inputs[0], one, builder.const(line.x_zero)])
        if line.is_bent:
            y = builder.emit("relu", [y])
        parts = [builder.const(line.scale), builder.const(line.y_zero)]
        mapping[node.output] = builder.emit("quantize", [y, *parts])
    graph.nodes = fresh.nodes
    graph.outputs = [mapping.get(v, v) for v in graph.outputs]
