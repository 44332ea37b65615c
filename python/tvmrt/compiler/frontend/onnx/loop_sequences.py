"""Loops that append to sequences: appended tensors become scan outputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tvmrt.compiler.operator_key import operator_name
from tvmrt.error import UnsupportedError

from .outline_subgraph import captured_names

FIXED = 2  # leading inputs of a body: iteration number and condition


def convert_appends(
    body: onnx.GraphProto, outputs: Sequence[str], sequences: Sequence[int]
) -> tuple[onnx.GraphProto, list[str]]:
    """Return a Loop's body and output names without its loop-carried sequences, whose indices are
    ``sequences``. Tensors appended to them become scan outputs after all others.

    Raises UnsupportedError if the body uses a sequence in any other way.
    """
    if not sequences:
        return body, list(outputs)
    graph = onnx.GraphProto()
    graph.CopyFrom(body)
    carried = [(graph.input[FIXED + i].name, graph.output[1 + i].name) for i in sequences]
    appended = [_remove_append(graph, *pair) for pair in carried]
    for i in reversed(sequences):
        del graph.input[FIXED + i], graph.output[1 + i]
    for name in appended:
        graph.output.add().name = name
    names = [name for i, name in enumerate(outputs) if i not in sequences]
    return graph, [*names, *(outputs[i] for i in sequences)]


def _remove_append(body: onnx.GraphProto, before: str, after: str) -> str:
    """Return the tensor that the body appends to a sequence, and remove the appending node, which
    must be the only user of the sequence."""
    producers = [n for n in body.node if after in n.output]
    node = producers[0] if len(producers) == 1 else None
    if (
        node is None
        or operator_name(node) != "SequenceInsert"
        or node.input[0] != before
        or len([i for i in node.input if i]) != 2
    ):
        raise UnsupportedError(
            f"a Loop with a run-time trip count uses the sequence {before} other than to append "
            "to it"
        )
    name = node.input[1]
    body.node.remove(node)
    if {before, after} & set(captured_names(body, results=False)):
        raise UnsupportedError(
            f"a Loop with a run-time trip count reads the sequence {before} in its body"
        )
    return name
