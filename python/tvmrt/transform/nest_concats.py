"""Concatenations that have an earlier one inside of them, as that one beside the rest.

In a DenseNet each layer reads a concatenation of all results before it. Each of those would be
copied once a layer; nested, the copies lie in one another, and a result is written where the last
of them has it (``codegen/concatenations.py``).
Contract: bit-equal, no more is copied, and each value lives as long as its readers ask for.
"""

from __future__ import annotations

from tvmrt.ir import Builder, Graph, Node, Value

from .rewrite import rewrite


def nest_concats(graph: Graph) -> None:
    """Longest runs of inputs first."""
    known: dict[tuple[int, tuple[Value, ...]], Value] = {}

    def nested(b: Builder, node: Node) -> Value | None:
        if node.op != "concat" or node.guard is not None:
            return None
        axis, parts = node.attrs["axis"], tuple(node.inputs)
        run = _run(known, axis, parts)
        result = None
        if run is not None:
            begin, end = run
            inside = known[axis, parts[begin:end]]
            left = [*parts[:begin], inside, *parts[end:]]
            result = inside if len(left) == 1 else b.emit("concat", left, node.name, axis=axis)
        known[axis, parts] = node.output if result is None else result
        return result

    rewrite(graph, nested)


def _run(
    known: dict[tuple[int, tuple[Value, ...]], Value], axis: int, parts: tuple[Value, ...]
) -> tuple[int, int] | None:
    """Where the longest run of inputs lies that are concatenated already; None without one."""
    lengths = sorted({len(inputs) for a, inputs in known if a == axis}, reverse=True)
    for length in lengths:
        for begin in range(len(parts) - length + 1):
            if (axis, parts[begin : begin + length]) in known:
                return begin, begin + length
    return None
