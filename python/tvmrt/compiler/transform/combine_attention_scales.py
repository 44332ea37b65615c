"""Move scales of an attention's queries and keys to where they are cheapest.

A scalar that multiplies one operand of a matmul of two computed tensors is moved through reshapes
and transposes to a convolution or matmul with constant weights, where :func:`fold_scale` absorbs
it. If neither operand has such a node, one of them is multiplied by the product of both scalars.
Contract: equal up to rounding; numbers near the ends of the range may overflow or underflow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value, constant
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.compiler.ir.value_users import ValueUsers

from .channel_constants import find_absorber, is_float_matmul, scaled_side
from .rewrite import rewrite


class _Scaled(NamedTuple):
    """Scaled operand of a matmul: the node that scales it, and the scale."""

    node: Node
    side: int  # which input is scaled
    scale: Value

    @property
    def source(self) -> Value:
        return self.node.inputs[self.side]


def combine_attention_scales(graph: Graph) -> None:
    readers = ValueUsers(graph)
    scales: dict[Node, _Scaled] = {}  # nodes that get another scale
    removed: dict[Node, int] = {}  # removed nodes, with the input that replaces each
    scale_before: dict[
        Node, _Scaled
    ] = {}  # first view of a chain, and the scale to insert before it
    for node in graph.nodes:
        if not is_float_matmul(node) or any(v is None or v.is_constant for v in node.inputs):
            continue
        scaled = [_find_scale(v, readers) for v in node.inputs[:2]]
        factors = [f for f in scaled if f is not None]
        firsts = [_first_view(f.source, readers) for f in factors]
        if len(factors) == 2 and not any(firsts) and factors[0].node is not factors[1].node:
            kept, other = sorted(factors, key=lambda f: upper_bound(f.source.type.size))
            combined = _combined_scale(kept.scale, other.scale)
            if combined is not None:
                scales[kept.node] = kept._replace(scale=combined)
                removed[other.node] = other.side
        for factor, first in zip(factors, firsts):
            if first is not None:
                removed[factor.node], scale_before[first] = factor.side, factor
    if removed:
        rewrite(graph, lambda b, node: _rewrite_node(b, node, scales, removed, scale_before))


def _rewrite_node(
    b: Builder,
    node: Node,
    scales: dict[Node, _Scaled],
    removed: dict[Node, int],
    scale_before: dict[Node, _Scaled],
) -> Value | None:
    if node in removed:
        return node.inputs[removed[node]]
    if node in scales:
        scaled = scales[node]
        return b.emit("mul", [node.inputs[scaled.side], scaled.scale], node.name)
    if node in scale_before:
        factor, sources = scale_before[node].node, b.sources
        b.sources = factor.sources
        product = b.emit("mul", [node.inputs[0], scale_before[node].scale], factor.name)
        b.sources = sources
        return b.emit(node.op, [product], node.name, **node.attrs)
    return None


def _find_scale(value: Value, readers: ValueUsers) -> _Scaled | None:
    """Return the constant scalar multiplication of a value, if the value has one reader."""
    side = scaled_side(value.producer)
    if side is None or not value.dtype.is_float or readers.only(value) is None:
        return None
    scale = value.producer.inputs[1 - side]
    return _Scaled(value.producer, side, scale) if np.isfinite(scale.data).all() else None


def _first_view(value: Value, readers: ValueUsers) -> Node | None:
    """Return the first view between a matmul-like node with constant weights and the value, if each
    view has one reader."""
    first: Node | None = None
    while (
        (node := value.producer) is not None and node.has(Trait.REARRANGES) and node.guard is None
    ):
        if readers.only(value) is None:
            return None
        first, value = node, node.inputs[0]
    product = find_absorber(value, readers)
    if first is None or product is None or product.guard is not None:
        return None
    return first if product.inputs[1].is_constant else None


def _combined_scale(one: Value, other: Value) -> Value | None:
    """Return the product of two scalars, if it is a normal number."""
    dtype = one.data.dtype
    scale = (one.data.reshape(()).astype(np.float64) * other.data.reshape(())).astype(dtype)
    if not np.isfinite(scale) or abs(scale) < np.finfo(dtype).tiny:
        return None
    return constant(scale, one.name)
