"""Nest concatenations: replace inputs that an earlier concatenation joins, or that are all slices
of a tensor, by that result.

In a DenseNet each layer reads a concatenation of all previous results. Each result would be copied
once per layer. Nested concatenations share memory, and a result is written directly to its
location in the last of them (``codegen/zero_copy_concat.py``). A YOLO block splits a result in two
and concatenates both halves with results computed from one.
Contract: bit-equal, no additional copies, no longer lifetimes than readers need.
"""

from __future__ import annotations

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.view import slice_of

from .rewrite import at, rewrite

_Parts = tuple[Value, ...]
_Known = dict[tuple[int, Value], dict[_Parts, Value]]  # by the axis and the first part


def nest_concats(graph: Graph) -> None:
    """Nest in place, longest sequences of inputs first."""
    concats: _Known = {}

    @at("concat")
    def nest(b: Builder, node: Node) -> Value | None:
        if node.guard is not None:
            return None
        axis, parts = node.attrs["axis"], _replace_slices(tuple(node.inputs), node.attrs["axis"])
        remaining, run = parts, _longest(concats, axis, parts)
        if run is not None:
            begin, inner, value = run
            remaining = (*parts[:begin], value, *parts[begin + len(inner) :])
        result = None
        if len(remaining) < len(node.inputs):
            result = (
                remaining[0]
                if len(remaining) == 1
                else b.emit("concat", remaining, node.name, axis=axis)
            )
        concats.setdefault((axis, parts[0]), {})[parts] = node.output if result is None else result
        return result

    rewrite(graph, nest)


def _longest(concats: _Known, axis: int, parts: _Parts) -> tuple[int, _Parts, Value] | None:
    """Return the longest sequence of inputs that is already concatenated, the first of equal ones:
    its start, its parts and its value; None if there is none."""
    runs = [
        (begin, inner, value)
        for begin, part in enumerate(parts)
        for inner, value in concats.get((axis, part), {}).items()
        if parts[begin : begin + len(inner)] == inner
    ]
    return max(runs, key=lambda run: len(run[1]), default=None)


def _replace_slices(parts: tuple[Value, ...], axis: int) -> tuple[Value, ...]:
    """Return the parts with a tensor in place of all its slices, if these are in order."""
    remaining: list[Value] = []
    i = 0
    while i < len(parts):
        tensor = _sliced_tensor(parts[i:], axis)
        remaining.append(parts[i] if tensor is None else tensor[0])
        i += 1 if tensor is None else tensor[1]
    return tuple(remaining)


def _sliced_tensor(parts: tuple[Value, ...], axis: int) -> tuple[Value, int] | None:
    """Return the tensor whose slices are the first parts, and their number; None if none."""
    first, end = slice_of(parts[0]), 0
    if first is None:
        return None
    x = first.inputs[0]
    for count, part in enumerate(parts, 1):
        node = slice_of(part)
        if node is None or node.inputs[0] is not x or node.guard is not None:
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
