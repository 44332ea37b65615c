"""Channel pruning: remove dead channels.

A channel is removed if each reader either has only zero weights for it, or does not need it because
it is still (see ``channel_flow``). Integer matmul-like operators add its contribution to their
int32 bias; in floating point, and with padding, only zeros are removed.

Contract: integer results are bit-equal. Floating-point sums lose terms that are zero, if numbers
are finite; if a kernel sums in several parts, the terms of a part may change. Networks without such
channels are not changed. Non-goal: removing inputs of the network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value, constant

from .channel_flow import (
    INTEGER_PRODUCTS,
    PRODUCTS,
    Channels,
    Flow,
    flow,
    nothing_known,
    quiet,
    summed,
    terms,
)
from .quantize import form_quantized
from .rewrite import rewrite

TOGETHER = 4  # channels that kernels process together; removing fewer saves nothing

Needs = dict[Value, np.ndarray]


def drop_channels(graph: Graph) -> None:
    flows, facts = _follow(graph)
    if not any(node.op in PRODUCTS for node in flows):
        return
    needs = _needed(graph, flows, facts)
    if all(need.all() for need in needs.values()):
        return
    plans = {node: _plan(node, each, facts, needs) for node, each in flows.items()}
    rewrite(graph, lambda b, node: _cut(b, node, plans[node]) if node in plans else None)
    form_quantized(graph)  # biases that prevented it may be gone


def _follow(graph: Graph) -> tuple[dict[Node, Flow], dict[Value, Channels]]:
    flows: dict[Node, Flow] = {}
    facts: dict[Value, Channels] = {}
    for node in graph.nodes:
        found = flow(node, facts)
        if found is not None:
            flows[node] = found
            facts[node.output] = found.channels
    return flows, facts


def _needed(graph: Graph, flows: dict[Node, Flow], facts: dict[Value, Channels]) -> Needs:
    """Return the channels to keep of every tensor that is followed."""
    needs = {value: np.zeros(len(known.still), bool) for value, known in facts.items()}
    readers = {n: _Reader(n, f, facts) for n, f in flows.items()}
    for value in graph.outputs:
        _require(needs, value)
    for node in graph.nodes:
        reached = {node.inputs[link.input] for link in flows[node].links} if node in flows else ()
        for value in node.operands():
            if value not in reached and not (node in flows and value is node.inputs[0]):
                _require(needs, value)
    while True:
        before = sum(int(need.sum()) for need in needs.values())
        for reader in [*readers.values(), *reversed(readers.values())]:
            reader.spread(needs)
        if before != sum(int(need.sum()) for need in needs.values()):
            continue
        short = [need for need in needs.values() if need.size and _missing(need)]
        if not short:
            return needs
        for need in short:
            need[np.flatnonzero(~need)[: _missing(need)]] = True


def _missing(need: np.ndarray) -> int:
    """Return how many more channels to keep, for a nonzero multiple of ``TOGETHER``."""
    left = int(need.size - need.sum())
    more = -int(need.sum()) % TOGETHER if need.any() else TOGETHER
    return min(more, left)


def _require(needs: Needs, value: Value) -> None:
    if value in needs:
        needs[value][:] = True


class _Reader:
    """Node with the dependence between needed channels of its results and of its operands."""

    def __init__(self, node: Node, flow: Flow, facts: dict[Value, Channels]) -> None:
        self.node = node
        self.flow = flow
        self.used: np.ndarray | None = None  # [outputs, inputs]
        x = node.inputs[0]
        if node.op in PRODUCTS and not flow.links and x in facts:
            known, weights = facts[x], terms_of(node)
            if weights is None or known.axis != _inner_axis(node):
                self.used = np.ones((len(flow.channels.still), len(known.still)), bool)
            else:
                self.used = weights & ~quiet(node, known)

    def spread(self, needs: Needs) -> None:
        result = needs[self.node.output]
        if self.used is not None:
            needs[self.node.inputs[0]] |= self.used[result].any(axis=0)
        for link in self.flow.links:
            operand = needs.get(self.node.inputs[link.input])
            if operand is None:  # an input of the network
                result[link.places] = True
                continue
            np.logical_or.at(operand, link.sources, result[link.places])
            result[link.places] |= operand[link.sources]


def terms_of(node: Node) -> np.ndarray | None:
    """Return which weights are not zero; None for grouped convolutions."""
    return None if node.attrs.get("groups", 1) > 1 else terms(node).any(axis=2)


def _inner_axis(node: Node) -> int:
    return 1 if node.op in ("conv", "qconv") else node.inputs[0].type.rank - 1


@dataclass
class _Plan:
    """Channels of a node's first operand and of its result to keep. ``known``: the original
    channels of the operand."""

    operand: np.ndarray
    result: np.ndarray
    known: Channels
    axis: int

    @property
    def whole(self) -> bool:
        return bool(self.operand.all() and self.result.all())


def _plan(node: Node, flow: Flow, facts: dict[Value, Channels], needs: Needs) -> _Plan:
    x, channels = node.inputs[0], flow.channels
    if x in facts and (node.op not in PRODUCTS or facts[x].axis == _inner_axis(node)):
        return _Plan(needs[x], needs[node.output], facts[x], channels.axis)
    if node.op in PRODUCTS:
        known = nothing_known(x, _inner_axis(node))
        return _Plan(np.ones(len(known.still), bool), needs[node.output], known, channels.axis)
    return _Plan(needs[node.output], needs[node.output], channels, channels.axis)


def _cut(b: Builder, node: Node, plan: _Plan) -> Value | None:
    if node.op in PRODUCTS:
        return None if plan.whole else _cut_product(b, node, plan)
    if plan.result.all():
        return None
    attrs = dict(node.attrs)
    if node.op == "reshape":
        shape = list(attrs["shape"])
        shape[plan.axis] = int(plan.result.sum())
        attrs["shape"] = tuple(shape)
    after = node.output.type.rank - plan.axis
    inputs = [v if node.op == "table" else _cut_row(v, after, plan.result) for v in node.inputs]
    return b.emit(node.op, inputs, node.name, **attrs)


def _cut_row(value: Value | None, after: int, kept: np.ndarray) -> Value | None:
    """Cut a constant that broadcasts to a result with channels ``after`` axes from the end."""
    if value is None or not value.is_constant or value.type.rank < after:
        return value
    axis = value.type.rank - after
    if value.shape[axis] == 1:
        return value
    return constant(np.compress(kept, value.data, axis), value.name)


def _cut_product(b: Builder, node: Node, plan: _Plan) -> Value:
    attrs, w = dict(node.attrs), node.inputs[1].data
    inputs = list(node.inputs)
    if node.op in INTEGER_PRODUCTS:
        inputs[3] = _with_still(node, plan)
    if attrs.get("groups", 1) > 1:
        if attrs["groups"] == len(plan.operand):
            attrs["groups"] = int(plan.operand.sum())
        w = w[plan.result]
    elif node.op in ("conv", "qconv"):
        w = w[plan.result][:, plan.operand]
    else:
        w = w[plan.operand][:, plan.result]
    inputs[1] = constant(np.ascontiguousarray(w), node.inputs[1].name)
    inputs[2:] = [_cut_row(v, 1, plan.result) for v in inputs[2:]]
    return b.emit(node.op, inputs, node.name, **attrs)


def _with_still(node: Node, plan: _Plan) -> Value | None:
    """Return the bias plus the contribution of the still channels that are removed."""
    bias = node.inputs[3]
    gone = ~plan.operand & plan.known.still
    if node.attrs.get("groups", 1) > 1 or not gone.any():
        return bias
    row = summed(node, terms(node), plan.known, gone)
    if not row.any():
        return bias
    if bias is not None:
        row = row + bias.data.reshape(-1)
    return constant(row.astype(np.int32), f"{node.name}_bias")
