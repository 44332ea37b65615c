"""Fold a scalar that multiplies some channels of a result into the weights of these channels.

One matmul computes an attention's queries, keys and values, and views take a third each; the scale
of the queries is folded into their third of the weights. Contract: as :mod:`fold_scale`, but other
readers of the result may read other channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tvmrt.compiler.ir import VIEW, Graph, Node, Value, get_op
from tvmrt.compiler.ir.value_users import ValueUsers

from .channel_constants import is_float_matmul, scaled_side
from .fold_scale import absorb_scale, scale_tables

MAX_ELEMENTS = 1 << 24  # maximum elements of a result whose channels are followed
MAX_VIEWS = 64  # maximum views of a result that are followed to its readers


class _Reader(NamedTuple):
    """Reader of a result through views. ``node`` is None for the caller of the network."""

    node: Node | None
    value: Value
    views: tuple[Node, ...]


def fold_partial_scale(graph: Graph) -> None:
    users, tables = ValueUsers(graph), scale_tables(graph)
    replaced: dict[Value, Value] = {}
    for matmul in graph.nodes:
        if not _is_candidate(matmul):
            continue
        readers = list(_readers(matmul, users))
        for scaled_reader in readers if len(readers) > 1 else ():
            scale = _scale_of(scaled_reader)
            per_channel = (
                None if scale is None else _per_channel_scale(matmul, scaled_reader, scale, readers)
            )
            if per_channel is not None and absorb_scale(matmul, per_channel, tables):
                matmul.sources = tuple(
                    dict.fromkeys((*matmul.sources, *scaled_reader.node.sources))
                )
                replaced[scaled_reader.node.output] = scaled_reader.value
    graph.replace_many(replaced)
    graph.nodes = [n for n in graph.nodes if n.outputs[0] not in replaced]


def _is_candidate(node: Node) -> bool:
    """Return whether it is a float matmul or convolution with constant weights and fixed sizes."""
    if not is_float_matmul(node) or node.guard is not None or not node.output.dtype.is_float:
        return False
    is_static = all(isinstance(n, int) for n in node.output.shape)
    plain = all(v is None or v.is_constant for v in node.inputs[1:])
    return is_static and plain and node.output.type.size <= MAX_ELEMENTS


def _readers(matmul: Node, users: ValueUsers) -> Iterator[_Reader]:
    pending: list[tuple[Value, tuple[Node, ...]]] = [(matmul.output, ())]
    for _ in range(MAX_VIEWS):
        if not pending:
            return
        value, views = pending.pop()
        for node in users.of(value):
            if _is_view(node):
                pending.append((node.output, (*views, node)))
            else:
                yield _Reader(node, value, views)
        if users.is_graph_output(value):
            yield _Reader(None, value, views)
    yield _Reader(None, matmul.output, ())  # too many views: assume that the caller reads it


def _per_channel_scale(
    matmul: Node, scaled_reader: _Reader, scale: float, readers: list[_Reader]
) -> np.ndarray | None:
    """Return a scale for each channel; None if another reader reads the scaled channels."""
    channels = _channels(matmul, scaled_reader.views)
    others = (each for each in readers if each is not scaled_reader)
    if any(np.intersect1d(channels, _channels(matmul, each.views)).size for each in others):
        return None
    per_channel = np.ones(matmul.output.shape[matmul.operator.channel_axis])
    per_channel[channels] = scale
    return per_channel


def _channels(matmul: Node, views: tuple[Node, ...]) -> np.ndarray:
    """Return the channels of the result that are visible through views of it."""
    shape = matmul.output.shape
    axis = matmul.operator.channel_axis % len(shape)
    along = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    channels = np.broadcast_to(along, shape)
    for node in views:
        channels = get_op(node.op).evaluate([channels], node.attrs)[0]
    return np.unique(channels)


def _is_view(node: Node) -> bool:
    if get_op(node.op).kind != VIEW or len(node.inputs) != 1 or node.guard is not None:
        return False
    return all(isinstance(n, int) for n in node.output.shape)


def _scale_of(reader: _Reader) -> float | None:
    """Return the constant scalar that multiplies the value in a reader; None without one."""
    side = scaled_side(reader.node)
    if side is None or reader.node.inputs[side] is not reader.value:
        return None
    return float(reader.node.inputs[1 - side].data.reshape(()))
