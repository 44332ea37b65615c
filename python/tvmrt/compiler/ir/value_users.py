"""Questions about graphs: readers of values, which are nodes and the caller; transposed constants,
such as an embedding table that is also the weights of a matmul; clamps; order comparisons."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import numpy as np

from .graph import Graph, Node, Value
from .mmap_constants import drop_pages
from .traits import Trait


class ValueUsers:
    """Readers in the graph at the time of construction; values made later have none."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.consumers()
        self._results = set(graph.outputs)

    def of(self, value: Value) -> list[Node]:
        """Return the nodes that read a value, in order, each once."""
        return self._nodes.get(value, [])

    def is_graph_output(self, value: Value) -> bool:
        """Return whether a value is a result of the graph."""
        return value in self._results

    def only(self, value: Value) -> Node | None:
        """Return the node that reads a value if it is the only reader."""
        nodes = self.of(value)
        return nodes[0] if len(nodes) == 1 and not self.is_graph_output(value) else None

    def has_many(self, value: Value) -> bool:
        """Return whether more than one node reads a value, or the caller does."""
        return self.is_graph_output(value) or len(self.of(value)) > 1

    def all_within(self, value: Value, nodes: Container[Node]) -> bool:
        """Return whether only the given nodes read a value."""
        return not self.is_graph_output(value) and all(node in nodes for node in self.of(value))

    def move(self, value: Value, to: Value) -> None:
        """Let the readers of one value read another value, which has no other readers."""
        self._nodes[to] = self.of(value)
        if self.is_graph_output(value):
            self._results.add(to)


_CHUNK = 1 << 20  # elements that are compared at a time, to limit memory


def is_transpose_of(table: Value, matrix: Value) -> bool:
    """Return whether the rows of one float32 constant are, bit for bit, the columns of another."""
    a, b = table.data, matrix.data
    if a is None or b is None or a.ndim != 2 or a.shape != b.shape[::-1] or not a.size:
        return False
    if a.dtype != np.float32 or b.dtype != np.float32:
        return False
    rows = max(1, _CHUNK // a.shape[1])
    for begin in range(0, len(a), rows):
        part, other = a[begin : begin + rows], b[:, begin : begin + rows].T
        if not np.array_equal(part.view(np.uint32), other.view(np.uint32)):
            return False
        drop_pages()
    return True


class Clamp(NamedTuple):
    """Clamped tensor with its constant scalar limit, which is not NaN."""

    x: Value
    limit: np.ndarray
    is_lower: bool


def clamp_of(node: Node) -> Clamp | None:
    """Return the clamp that a node computes; None if it computes anything else."""
    if not node.has(Trait.LOWER_LIMIT, Trait.UPPER_LIMIT):
        return None
    constants = [v for v in node.inputs if v.is_constant]
    computed = [v for v in node.inputs if not v.is_constant]
    if len(computed) != 1 or any(v.type.size != 1 for v in constants):
        return None
    limit = constants[0].data.reshape(()) if constants else computed[0].dtype.numpy.type(0)
    if np.isnan(limit):
        return None
    return Clamp(computed[0], np.asarray(limit), node.has(Trait.LOWER_LIMIT))


_OR_EQUAL = {"less": False, "less_equal": True}  # the others have swapped operands


class Comparison(NamedTuple):
    """Whether ``small`` is less than ``great``, or equal to it with ``or_equal``."""

    small: Value
    great: Value
    or_equal: bool


def comparison_of(node: Node | None) -> Comparison | None:
    """Return the comparison that a node computes; None if it computes anything else."""
    if node is None or not node.operator.swapped:
        return None
    a, b = node.inputs
    if node.op in _OR_EQUAL:
        return Comparison(a, b, _OR_EQUAL[node.op])
    return Comparison(b, a, _OR_EQUAL[node.operator.swapped])
