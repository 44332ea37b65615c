"""Concatenations that have an earlier one inside of them, or all parts of a tensor, as that one
beside the rest.

In a DenseNet each layer reads a concatenation of all results before it. Each of those would be
copied once a layer; nested, the copies lie in one another, and a result is written where the last
of them has it (``codegen/concatenations.py``). A YOLO's blocks cut a result in two and concatenate
both halves, and what was made of one.
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
        axis, parts = node.attrs["axis"], _uncut(tuple(node.inputs), node.attrs["axis"])
        left, run = parts, _run(known, axis, parts)
        if run is not None:
            begin, end = run
            left = (*parts[:begin], known[axis, parts[begin:end]], *parts[end:])
        result = None
        if len(left) < len(node.inputs):
            result = left[0] if len(left) == 1 else b.emit("concat", left, node.name, axis=axis)
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


def _uncut(parts: tuple[Value, ...], axis: int) -> tuple[Value, ...]:
    """The parts with a tensor in place of its slices, where all of them follow each other."""
    left: list[Value] = []
    i = 0
    while i < len(parts):
        whole = _whole(parts[i:], axis)
        left.append(parts[i] if whole is None else whole[0])
        i += 1 if whole is None else whole[1]
    return tuple(left)


def _whole(parts: tuple[Value, ...], axis: int) -> tuple[Value, int] | None:
    """The tensor that the first of the parts make up, and how many of them do; None if none."""
    first, end = parts[0].producer, 0
    if first is None or first.op != "slice":
        return None
    x = first.inputs[0]
    for count, part in enumerate(parts, 1):
        node = part.producer
        if node is None or node.op != "slice" or node.inputs[0] is not x or node.guard is not None:
            return None
        starts, sizes = list(node.attrs["starts"]), list(node.attrs["sizes"])
        if starts.pop(axis) != end or set(node.attrs["steps"]) != {1}:
            return None
        end += sizes.pop(axis)
        if any(starts) or sizes != [*x.shape[:axis], *x.shape[axis + 1 :]]:
            return None
        if end == x.shape[axis]:
            return x, count
    return None
