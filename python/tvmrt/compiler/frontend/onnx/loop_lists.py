"""Loops that append to sequences: what is appended is collected instead."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tvmrt.error import UnsupportedError

from .apart import names_read

FIXED = 2  # inputs of a body in front of what is carried: round and condition


def appending(
    body: onnx.GraphProto, outputs: Sequence[str], lists: Sequence[int]
) -> tuple[onnx.GraphProto, list[str]]:
    """The body of a Loop and the names of its results without the sequences that it carries, whose
    places ``lists`` has; what a round puts at the end of them is collected, behind all else.

    Raises UnsupportedError where a round does anything else with one.
    """
    if not lists:
        return body, list(outputs)
    found = onnx.GraphProto()
    found.CopyFrom(body)
    carried = [(found.input[FIXED + i].name, found.output[1 + i].name) for i in lists]
    appended = [_appended(found, *pair) for pair in carried]
    for i in reversed(lists):
        del found.input[FIXED + i], found.output[1 + i]
    for name in appended:
        found.output.add().name = name
    kept = [name for i, name in enumerate(outputs) if i not in lists]
    return found, [*kept, *(outputs[i] for i in lists)]


def _appended(body: onnx.GraphProto, before: str, after: str) -> str:
    """The tensor that a node of the body puts at the end of the sequence; the node, which alone
    knows the sequence, goes."""
    makers = [n for n in body.node if after in n.output]
    node = makers[0] if len(makers) == 1 else None
    if (
        node is None
        or node.op_type != "SequenceInsert"
        or node.input[0] != before
        or len([i for i in node.input if i]) != 2
    ):
        raise UnsupportedError(
            f"a Loop with a run-time trip count uses the sequence {before} other than to append "
            "to it"
        )
    name = node.input[1]
    body.node.remove(node)
    if {before, after} & set(names_read(body, results=False)):
        raise UnsupportedError(
            f"a Loop with a run-time trip count reads the sequence {before} in its body"
        )
    return name
