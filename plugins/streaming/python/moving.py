"""Values that move with the window, and ring buffers of their newest elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.graph import Builder, Graph, Node, States, Value, constant
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option


class HopTooShortError(Exception):
    """The hop has to be a multiple of another number; ``factor`` is what it lacks for ``layer``."""

    def __init__(self, factor: int, layer: str) -> None:
        super().__init__(factor)
        self.factor, self.layer = factor, layer


@dataclass(frozen=True)
class Moving:
    """Value of the whole window whose elements move by ``hop`` along ``axis`` from run to run.

    ``value`` has the newest ``hop`` of its ``extent`` elements along the axis. The first
    ``edge`` elements do not move with the others, because ``layer`` pads the window's start.
    ``fill``: the number that pads a causal stream here, None if nothing does.
    """

    value: Value
    axis: int
    extent: int
    hop: int
    edge: int = 0
    layer: str = ""
    fill: float | None = None


def divided(number: int, divisor: int, node: Node) -> int:
    """Return the quotient of a hop and the stride of a node. Raise HopTooShortError unless it is
    an integer."""
    if number % divisor:
        raise HopTooShortError(divisor // gcd(number, divisor), name_of(node))
    return number // divisor


def name_of(node: Node) -> str:
    """Return the name of a node's layer for errors."""
    return f'layer "{node.name}"'


class Network:
    """Network of one hop under construction.

    ``moving`` and ``fixed`` have the new value of each value of the whole window: of the newest
    part, or of all elements. ``sizes`` are the lengths of ring buffers, known from a first pass.
    """

    def __init__(self, graph: Graph, causal: bool, sizes: dict[Any, int]) -> None:
        self.old, self.causal, self.sizes = graph, causal, sizes
        self.graph = Graph(graph.name)
        self.builder = Builder(self.graph)
        self.states = States(self.graph)
        self.moving: dict[Value, Moving] = {}
        self.fixed: dict[Value, Value] = {}
        self._rings: dict[Any, Value] = {}

    def window(self, value: Value | None) -> Value | None:
        """Return all elements of a value in the new network."""
        if value is None or value not in self.moving:
            return None if value is None else self.fixed.get(value, value)
        return self.newest(value, self.moving[value].extent)

    def newest(self, value: Value, count: int, fill: float = 0) -> Value:
        """Return the newest elements of a moving value; ``fill`` precedes the stream.

        Raise UnsupportedError if some of them do not move with the window.
        """
        x = self.moving[value]
        if x.edge > x.extent - count and not self.causal:
            raise UnsupportedError(
                f"{x.layer} pads the start of the streamed axis, and the results depend on this "
                f'padding in every run; leave the padding out, or add ",causal" to '
                f"{option('stream')}: the nearest causal form of the layer pads the start of the "
                f"stream once, instead of each window"
            )
        fill = fill if x.fill is None else x.fill
        if count <= x.hop:
            return self._tail(x.value, x.axis, count)
        key = (value, fill)
        self.sizes[key] = max(self.sizes.get(key, 0), count)
        ring = self._rings.get(key)
        if ring is None or ring.shape[x.axis] < count:  # too short: the next pass knows its size
            ring = self._rings[key] = self._ring(value, x, self.sizes[key], fill)
        return self._tail(ring, x.axis, count)

    def _ring(self, value: Value, x: Moving, count: int, fill: float) -> Value:
        """Return the newest elements from a state, which later holds them for the next run."""
        rank = len(x.value.shape)
        order = list(range(rank))
        if x.axis >= 2:  # as kernels read images and sequences: channels innermost
            order = [0, *range(2, rank), 1]
        back = [order.index(axis) for axis in range(rank)]
        shape = _with_extent(x.value.shape, x.axis, count - x.hop)
        stored = tuple(shape[axis] for axis in order)
        first = constant(
            np.full(stored, fill, x.value.dtype.numpy), f"{x.value.name}_{len(self._rings)}"
        )
        number = self.states.add(first)
        past = self.builder.emit("transpose", [self.states.current_value(number)], perm=back)
        ring = self.builder.emit("concat", [past, x.value], axis=x.axis)
        tail = self._tail(ring, x.axis, count - x.hop)
        self.states.set(number, self.builder.emit("transpose", [tail], perm=order))
        return ring

    def _tail(self, value: Value, axis: int, count: int) -> Value:
        start = value.shape[axis] - count
        return self.part(value, axis, start, 1, count) if start else value

    def part(self, value: Value, axis: int, start: int, step: int, count: int) -> Value:
        """Return elements along an axis."""
        rank = len(value.shape)
        starts = [start if d == axis else 0 for d in range(rank)]
        steps = [step if d == axis else 1 for d in range(rank)]
        sizes = _with_extent(value.shape, axis, count)
        return self.builder.emit("slice", [value], starts=starts, steps=steps, sizes=sizes)

    def emit(self, node: Node, inputs: list[Value | None], **changes: Any) -> list[Value]:
        """Add the node with other operands and some other attributes; return its results."""
        self.builder.sources = node.sources
        attrs = {**node.attrs, **changes}
        return self.builder.emit_many(node.op, inputs, node.name, **attrs)

    def compute_window(self, node: Node) -> None:
        """Add the node as it is, over whole windows of its operands."""
        inputs = [self.window(v) for v in node.inputs]
        self.fixed.update(zip(node.outputs, self.emit(node, inputs)))


def _with_extent(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    return tuple(extent if d == axis else n for d, n in enumerate(shape))
