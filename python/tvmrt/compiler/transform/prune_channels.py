"""Channel pruning: remove dead channels.

A channel is removed if each reader either has only zero weights for it, or does not need it because
it is constant (see ``channel_dataflow``). Integer matmul-like operators add its contribution to
their int32 bias; in floating point, and with padding, only zeros are removed.

Contract: integer results are bit-equal. Floating-point sums lose terms that are zero, if numbers
are finite; if a kernel sums in several parts, the terms of a part may change. Networks without such
channels are not changed. Non-goal: removing inputs of the network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value, constant

from .channel_dataflow import (
    Channels,
    Flow,
    channel_axis,
    channel_contribution,
    constant_contribution,
    flow,
    sums_channels,
    unknown_channels,
    weights_minus_zero_point,
)
from .form_quantized_ops import form_quantized_ops
from .rewrite import rewrite

CHANNEL_MULTIPLE = 4  # channels that kernels process together; removing fewer saves nothing

RequiredChannels = dict[Value, np.ndarray]


def prune_channels(graph: Graph) -> None:
    flows, channels_of = _analyze_channels(graph)
    if not any(map(sums_channels, flows)):
        return
    required = _required_channels(graph, flows, channels_of)
    if all(need.all() for need in required.values()):
        return
    plans = {node: _plan_pruning(node, each, channels_of, required) for node, each in flows.items()}
    rewrite(graph, lambda b, node: _prune_node(b, node, plans[node]) if node in plans else None)
    form_quantized_ops(graph)  # biases that prevented it may be gone


def _analyze_channels(graph: Graph) -> tuple[dict[Node, Flow], dict[Value, Channels]]:
    flows: dict[Node, Flow] = {}
    channels_of: dict[Value, Channels] = {}
    for node in graph.nodes:
        channels = flow(node, channels_of)
        if channels is not None:
            flows[node] = channels
            channels_of[node.output] = channels.channels
    return flows, channels_of


def _required_channels(
    graph: Graph, flows: dict[Node, Flow], channels_of: dict[Value, Channels]
) -> RequiredChannels:
    """Return the channels to keep of every tensor that is followed."""
    required = {
        value: np.zeros(len(channels.constant_mask), bool)
        for value, channels in channels_of.items()
    }
    readers = {n: _Reader(n, f, channels_of) for n, f in flows.items()}
    for value in graph.outputs:
        _require_all(required, value)
    for node in graph.nodes:
        reached = {node.inputs[link.input] for link in flows[node].links} if node in flows else ()
        for value in node.operands():
            if value not in reached and not (node in flows and value is node.inputs[0]):
                _require_all(required, value)
    while True:
        before = sum(int(need.sum()) for need in required.values())
        for reader in [*readers.values(), *reversed(readers.values())]:
            reader.propagate(required)
        if before != sum(int(need.sum()) for need in required.values()):
            continue
        short = [need for need in required.values() if need.size and _padding_count(need)]
        if not short:
            return required
        for need in short:
            need[np.flatnonzero(~need)[: _padding_count(need)]] = True


def _padding_count(need: np.ndarray) -> int:
    """Return how many more channels to keep, for a nonzero multiple of ``CHANNEL_MULTIPLE``."""
    left = int(need.size - need.sum())
    more = -int(need.sum()) % CHANNEL_MULTIPLE if need.any() else CHANNEL_MULTIPLE
    return min(more, left)


def _require_all(required: RequiredChannels, value: Value) -> None:
    if value in required:
        required[value][:] = True


class _Reader:
    """Node with the dependence between needed channels of its results and of its operands."""

    def __init__(self, node: Node, flow: Flow, channels_of: dict[Value, Channels]) -> None:
        self.node = node
        self.flow = flow
        self.used: np.ndarray | None = None  # [outputs, inputs]
        x = node.inputs[0]
        if sums_channels(node) and not flow.links and x in channels_of:
            known, result = channels_of[x], flow.channels
            if node.attrs.get("groups", 1) > 1 or known.axis != channel_axis(node, x):
                self.used = np.ones((len(result.constant_mask), len(known.constant_mask)), bool)
            else:
                weights = weights_minus_zero_point(node).any(axis=2)
                self.used = weights & ~constant_contribution(node, known)

    def propagate(self, required: RequiredChannels) -> None:
        result = required[self.node.output]
        if self.used is not None:
            required[self.node.inputs[0]] |= self.used[result].any(axis=0)
        for link in self.flow.links:
            operand = required.get(self.node.inputs[link.input])
            if operand is None:  # an input of the network
                result[link.targets] = True
                continue
            np.logical_or.at(operand, link.sources, result[link.targets])
            result[link.targets] |= operand[link.sources]


@dataclass
class _PruningPlan:
    """Channels of a node's first operand and of its result to keep. ``known``: the original
    channels of the operand."""

    operand: np.ndarray
    result: np.ndarray
    known: Channels
    axis: int


def _plan_pruning(
    node: Node, flow: Flow, channels_of: dict[Value, Channels], required: RequiredChannels
) -> _PruningPlan:
    x, channels, result = node.inputs[0], flow.channels, required[node.output]
    sums, known = sums_channels(node), channels_of.get(x)
    if known is not None and (not sums or known.axis == channel_axis(node, x)):
        return _PruningPlan(required[x], result, known, channels.axis)
    if sums:
        known = unknown_channels(x, channel_axis(node, x))
        return _PruningPlan(np.ones(len(known.constant_mask), bool), result, known, channels.axis)
    return _PruningPlan(result, result, channels, channels.axis)


def _prune_node(b: Builder, node: Node, plan: _PruningPlan) -> Value | None:
    if sums_channels(node):
        keeps_all = plan.operand.all() and plan.result.all()
        return None if keeps_all else _prune_matmul(b, node, plan)
    if plan.result.all():
        return None
    attrs = dict(node.attrs)
    if node.op == "reshape":
        shape = list(attrs["shape"])
        shape[plan.axis] = int(plan.result.sum())
        attrs["shape"] = tuple(shape)
    after = node.output.type.rank - plan.axis
    inputs = [
        v if node.op == "table" else _prune_constant(v, after, plan.result) for v in node.inputs
    ]
    return b.emit(node.op, inputs, node.name, **attrs)


def _prune_constant(value: Value | None, after: int, kept_channels: np.ndarray) -> Value | None:
    """Cut a constant that broadcasts to a result with channels ``after`` axes from the end."""
    if value is None or not value.is_constant or value.type.rank < after:
        return value
    axis = value.type.rank - after
    if value.shape[axis] == 1:
        return value
    return constant(np.compress(kept_channels, value.data, axis), value.name)


def _prune_matmul(b: Builder, node: Node, plan: _PruningPlan) -> Value:
    attrs, w = dict(node.attrs), node.inputs[1].data
    inputs = list(node.inputs)
    if node.operator.integer_of:
        inputs[3] = _bias_with_removed(node, plan)
    if attrs.get("groups", 1) > 1:
        if attrs["groups"] == len(plan.operand):
            attrs["groups"] = int(plan.operand.sum())
        w = w[plan.result]
    else:
        _, output_axis, input_axis = node.operator.weights
        w = np.compress(plan.result, np.compress(plan.operand, w, input_axis), output_axis)
    inputs[1] = constant(np.ascontiguousarray(w), node.inputs[1].name)
    inputs[2:] = [_prune_constant(v, 1, plan.result) for v in inputs[2:]]
    return b.emit(node.op, inputs, node.name, **attrs)


def _bias_with_removed(node: Node, plan: _PruningPlan) -> Value | None:
    """Return the bias plus the contribution of the removed constant channels."""
    bias = node.inputs[3]
    removed = ~plan.operand & plan.known.constant_mask
    if node.attrs.get("groups", 1) > 1 or not removed.any():
        return bias
    row = channel_contribution(node, weights_minus_zero_point(node), plan.known, removed)
    if not row.any():
        return bias
    if bias is not None:
        row = row + bias.data.reshape(-1)
    return constant(row.astype(np.int32), f"{node.name}_bias")
