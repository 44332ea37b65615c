"""How many nodes loops and functions are written out to.

A few bytes of a file can ask for any number of nodes: a loop in a loop, a function that calls
another one twice, which calls a third one twice. It is counted before it is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx

from tvmrt.compiler.ir.limits import MAX_ROUNDS, MAX_WRITTEN_NODES
from tvmrt.error import UnsupportedError


class WrittenOut:
    """The nodes of one network beyond those of its file."""

    def __init__(self, functions: Mapping[tuple[str, str], onnx.FunctionProto]) -> None:
        self._functions = functions
        self._sizes: dict[tuple[str, str], int] = {}
        self._total = 0
        self._around = 1  # rounds of the loops that are open

    def add(self, count: int) -> None:
        """Raise ValueError where ``count`` further nodes are too many."""
        self._total += count
        most = max(self._total, self._around * count)
        if most > MAX_WRITTEN_NODES:
            raise ValueError(
                f"its loops and functions expand to {most} nodes; the maximum is "
                f"{MAX_WRITTEN_NODES}; use fewer iterations"
            )

    def rounds(self, what: str, count: int, body: onnx.GraphProto) -> Iterator[int]:
        """The numbers of a loop's rounds, of which each writes its body out."""
        if count > MAX_ROUNDS:
            raise UnsupportedError(
                f"a {what} of {count} iterations; at most {MAX_ROUNDS} are unrolled"
            )
        self.add(max(count, 0) * self.size(body.node))
        self._around *= max(count, 1)
        try:
            yield from range(count)
        finally:
            self._around //= max(count, 1)

    def size(self, nodes: Sequence[onnx.NodeProto]) -> int:
        """Nodes that these become: those of branches and functions among them count, too."""
        return sum(self._size_of(node) for node in nodes)

    def _size_of(self, node: onnx.NodeProto) -> int:
        key = (node.domain, node.op_type)
        inside = sum(self.size(a.g.node) for a in node.attribute if a.HasField("g"))
        if key not in self._functions:
            return 1 + inside
        if key not in self._sizes:
            self._sizes[key] = 1  # of a function that calls itself, which is refused elsewhere
            self._sizes[key] = self.size(self._functions[key].node)
        return self._sizes[key] + inside
