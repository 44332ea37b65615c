"""Limits for unrolling of loops, inlining of functions, and tables.

A few bytes of a file can expand to any number of nodes: nested loops, or a function that calls
another one twice, which calls a third one twice. The nodes are counted before expansion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import onnx

from tvmrt.compiler.ir import limits
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS
from tvmrt.compiler.operator_key import FunctionKey
from tvmrt.error import UnsupportedError


class TableBudget:
    """The number of elements of all tables that the importers of a network make."""

    def __init__(self) -> None:
        self._total = 0

    def add(self, count: int, what: str, width: int = 1) -> None:
        """Add a table of ``count`` rows. Raises ValueError, which names ``what``, if the table or
        all tables together are too large. ``width``: elements per row."""
        limits.check_table(count, what, width)
        self._total += count * width
        if self._total > limits.MAX_TABLES:
            raise ValueError(
                f"with {what} of {count} elements the network's tables have "
                f"{self._total} elements; the maximum is {limits.MAX_TABLES}"
            )


def _max_nodes(model: onnx.ModelProto) -> int:
    """Return how many nodes a network may have in addition to those of its file."""
    weights = sum(prod(tensor.dims) for tensor in model.graph.initializer)
    in_functions = sum(len(function.node) for function in model.functions)
    return limits.max_unrolled_nodes(model.ByteSize() + weights) + in_functions


class UnrollBudget:
    """The number of nodes of one network in addition to those of its file; at most ``limit``."""

    def __init__(
        self, functions: Mapping[FunctionKey, onnx.FunctionProto], model: onnx.ModelProto
    ) -> None:
        self.limit = _max_nodes(model)
        self._functions = functions
        self._sizes: dict[FunctionKey, int] = {}
        self._total = 0
        self._enclosing_trips = 1  # product of the trip counts of enclosing loops

    def add(self, count: int) -> None:
        """Add ``count`` nodes. Raises ValueError if this exceeds the limit."""
        self._total += count
        expanded = max(self._total, self._enclosing_trips * count)
        if expanded > self.limit:
            raise ValueError(
                f"the network's loops, functions and concatenations expand to {expanded} nodes; "
                f"the maximum for a network of this size is {self.limit}; use fewer iterations"
            )

    def iterations(self, what: str, count: int, body: onnx.GraphProto) -> Iterator[int]:
        """Yield the iteration numbers of a loop that is unrolled."""
        if count > MAX_UNROLLED_ITERATIONS:
            raise UnsupportedError(
                f"a {what} of {count} iterations; at most {MAX_UNROLLED_ITERATIONS} are unrolled"
            )
        self.add(max(count, 0) * self.size(body.node))
        self._enclosing_trips *= max(count, 1)
        try:
            yield from range(count)
        finally:
            self._enclosing_trips //= max(count, 1)

    def size(self, nodes: Sequence[onnx.NodeProto]) -> int:
        """Return the number of expanded nodes, including branches and functions."""
        return sum(self._size_of(node) for node in nodes)

    def _size_of(self, node: onnx.NodeProto) -> int:
        key = FunctionKey.called_by(node)
        inside = sum(self.size(a.g.node) for a in node.attribute if a.HasField("g"))
        if key not in self._functions:
            return 1 + inside
        if key not in self._sizes:
            self._sizes[key] = 1  # a recursive function, which the importer rejects
            self._sizes[key] = self.size(self._functions[key].node)
        return self._sizes[key] + inside
