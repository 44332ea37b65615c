"""Dataflow analysis of channels: their sources, and which of them are constant.

A channel is one index along one axis of a tensor. Operators that treat each channel separately
link the channels of their operands to those of their results; matmul-like operators combine them. A
channel is constant if all of its elements are one number for any input of the network:
because all its weights are zero, or apply only to constant channels.

Contract: the constant is the result of every way to compute it, so results near a rounding tie
are not constant; run-time numbers are finite. Non-goal: grouped convolutions other than depthwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from tvmrt.compiler.ir import REDUCE, Node, Trait, Value, get_op
from tvmrt.compiler.ir.nn import may_have_pads
from tvmrt.compiler.ir.requantization import requantize, rounding_of

from .channel_constants import per_channel

# distance from a tie, in steps, within which implementations may round differently
TIE_DISTANCE = 1e-3


@dataclass
class Channels:
    """Channels of one tensor: their axis, a mask of the constant ones, and their values."""

    axis: int
    constant_mask: np.ndarray
    constant_values: np.ndarray


@dataclass
class Link:
    """Channel ``places[i]`` of the result depends on channel ``sources[i]`` of an input."""

    input: int
    sources: np.ndarray
    targets: np.ndarray


@dataclass
class Flow:
    """Effect of an operator on channels. Without ``links`` each result depends on all channels."""

    channels: Channels
    links: list[Link] = field(default_factory=list)


ChannelMap = Mapping[Value, Channels]


def flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    """Return the flow through a node; None if its channels cannot be followed."""
    if node.guard is not None or len(node.outputs) != 1:
        return None
    rule = _rule_of(node)
    channels = None if rule is None else rule(node, channels_of)
    if channels is None or not isinstance(node.output.shape[channels.channels.axis], int):
        return None
    return channels


def sums_channels(node: Node) -> bool:
    """Return whether channels of a node are sums over channels of its operand, by weights."""
    family = node.has(Trait.CONVOLUTION, Trait.MATRIX_PRODUCT)
    return family and node.operator.weights is not None


def is_depthwise(node: Node) -> bool:
    groups = node.attrs.get("groups", 1)
    return groups > 1 and groups == node.inputs[0].shape[1]


def channel_axis(node: Node, value: Value) -> int:
    """Return the axis of the channels in the first operand or the result of a node."""
    return node.operator.channel_axis % value.type.rank


def weights_minus_zero_point(node: Node) -> np.ndarray:
    """Return the weights minus their zero points: [outputs, inputs of each output, taps]."""
    operand, *axes = node.operator.weights
    w = np.moveaxis(node.inputs[operand].data, axes, (0, 1))
    w = w.reshape(*w.shape[:2], -1)
    if not node.operator.integer_of:
        return w
    w_zero = node.inputs[4]
    return w.astype(np.int32) - (0 if w_zero is None else w_zero.data.reshape(-1, 1, 1))


def constant_contribution(node: Node, x: Channels) -> np.ndarray:
    """Return the operand channels whose contribution to a sum is the same for each window.

    For floating-point sums only zeros count: others would change the order of rounding. Sums of
    int64 have no bias that others could be added to.
    """
    zero = node.attrs.get("x_zero", 0)
    zero_mask = x.constant_mask & (x.constant_values == zero)
    is_int32 = node.operator.integer_of and node.attrs["to"] != "int64"
    if may_have_pads(node.attrs) or not is_int32:
        return zero_mask
    return x.constant_mask


def channel_contribution(node: Node, w: np.ndarray, x: Channels, which: np.ndarray) -> np.ndarray:
    """Return the contribution of the channels ``which`` of an integer operand to each sum."""
    steps = np.where(which, x.constant_values.astype(np.int64) - node.attrs["x_zero"], 0)
    return w.sum(axis=2, dtype=np.int64) @ steps


def _channelwise_flow(axis: int, constant_mask: np.ndarray, constant_values: np.ndarray) -> Flow:
    """Return a flow that links each channel to the same channel of the first operand."""
    every = np.arange(len(constant_mask))
    return Flow(Channels(axis, constant_mask, constant_values), [Link(0, every, every)])


def unknown_channels(value: Value, axis: int) -> Channels:
    count = value.shape[axis]
    return Channels(axis, np.zeros(count, bool), np.zeros(count, value.dtype.numpy))


def _matmul_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    x, weights, y = node.inputs[0], node.inputs[1], node.output
    batched = node.has(Trait.MATRIX_PRODUCT) and weights.type.rank != 2
    if not sums_channels(node) or not weights.is_constant or batched:
        return None
    if any(v is not None and not v.is_constant for v in node.inputs[2:]):
        return None
    axis, in_axis = channel_axis(node, y), channel_axis(node, x)
    count = x.shape[in_axis]
    if not isinstance(count, int) or not count or not np.isfinite(weights.data).all():
        return None
    in_channels = channels_of.get(x)
    elsewhere = in_channels is not None and in_channels.axis != in_axis
    depthwise = is_depthwise(node)
    if node.attrs.get("groups", 1) > 1 and (elsewhere or not depthwise):
        return None  # each group would have to keep the same number of channels
    if in_channels is None or elsewhere:
        in_channels = unknown_channels(x, in_axis)
    w = weights_minus_zero_point(node)
    used, constant_inputs = w.any(axis=2), constant_contribution(node, in_channels)
    links = []
    if depthwise:
        sources = np.arange(len(w)) // (len(w) // count)
        links = [Link(0, sources, np.arange(len(w)))]
        constant_mask = ~used[:, 0] | constant_inputs[sources]
        mask, values = in_channels.constant_mask[sources], in_channels.constant_values[sources]
        in_channels = Channels(in_axis, mask, values)
        constant_inputs = constant_inputs[sources]
    else:
        constant_mask = ~(used & ~constant_inputs).any(axis=1)
    constant_values, certain = _constant_result(node, w, in_channels, constant_inputs, depthwise)
    return Flow(Channels(axis, constant_mask & certain, constant_values), links)


def _constant_result(
    node: Node, w: np.ndarray, x: Channels, constant_inputs: np.ndarray, depthwise: bool
):
    """Return the result if only steady channels are read, and a mask where it is certain."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    certain = np.ones(len(w), bool)
    if not node.operator.integer_of:
        row = np.zeros(1, np.float32)
        if bias is not None:
            one_axis = bias.type.rank == 1  # also of a convolution, whose channels are not last
            row = bias.data if one_axis else per_channel(node.output, bias.data, -1)
        if row is None:
            return np.zeros(len(w), np.float32), ~certain
        return np.broadcast_to(row, len(w)).astype(np.float32), certain
    if depthwise:
        steps = x.constant_values.astype(np.int64) - node.attrs["x_zero"]
        total = w.sum(axis=(1, 2), dtype=np.int64) * np.where(constant_inputs, steps, 0)
    else:
        total = channel_contribution(node, w, x, constant_inputs)
    bias = node.inputs[3]
    total = total + (0 if bias is None else bias.data.reshape(-1).astype(np.int64))
    if node.attrs["to"] in ("int32", "int64"):
        return total.astype(node.attrs["to"]), certain
    scale = node.inputs[2].data.reshape(-1)
    if node.attrs["to"] == "float32":
        return total.astype(np.float32) * scale, certain
    if rounding_of(node) == "even":
        steps, certain = _round_with_mask(total * scale.astype(np.float64))
    else:
        steps = requantize(total, scale, rounding_of(node))
    steps = np.clip(steps + node.attrs["y_zero"], node.attrs["low"], node.attrs["high"])
    return steps.astype(node.output.dtype.numpy), certain


def _round_with_mask(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rounded steps, and a mask of those that are not near a tie."""
    return np.rint(steps), np.abs(np.abs(steps - np.trunc(steps)) - 0.5) > TIE_DISTANCE


def _elementwise_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    """Return the flow of an elementwise operator."""
    y = node.output
    read = [i for i, v in enumerate(node.inputs) if v is not None and not v.is_constant]
    in_channels = [channels_of.get(node.inputs[i]) for i in read]
    if not read or any(g is None or g.axis != in_channels[0].axis for g in in_channels):
        return None
    if any(node.inputs[i].shape != y.shape for i in read):
        return None
    axis = in_channels[0].axis
    every = np.arange(y.shape[axis])
    channels = unknown_channels(y, axis)
    if node.has(Trait.EXACT):
        mask = np.all([g.constant_mask for g in in_channels], axis=0)
        channels = _evaluate_constants(node, channels_of, mask, channels)
    elif node.operator.integer_of:
        channels = _pair_constants(node, in_channels)
    return Flow(channels, [Link(i, every, every) for i in read])


def _pair_constants(node: Node, operands: list[Channels]) -> Channels:
    """Return the constant channels of an elementwise operator on two 8-bit tensors."""
    at = node.attrs
    constant_mask = np.all([g.constant_mask for g in operands], axis=0)
    sides = [
        (g.constant_values.astype(np.float64) - at[f"{side}_zero"]) * at[f"{side}_scale"]
        for g, side in zip((operands[0], operands[-1]), "ab")
    ]
    (numbers,) = get_op(node.operator.integer_of).evaluate(sides, {})
    steps, certain = _round_with_mask(numbers / at["y_scale"])
    values = np.clip(steps + at["y_zero"], at["low"], at["high"]).astype(node.output.dtype.numpy)
    return Channels(operands[0].axis, constant_mask & certain, values)


def _evaluate_constants(
    node: Node, channels_of: ChannelMap, constant_mask: np.ndarray, known: Channels
) -> Channels:
    rows = []
    for value in node.inputs:
        row = None
        if value is not None and value.is_constant:
            row = per_channel(node.output, value.data, known.axis)
            if row is None:
                return known
            row = row[constant_mask]
        elif value is not None:
            row = channels_of[value].constant_values[constant_mask]
        rows.append(row)
    with np.errstate(all="ignore"):
        results = node.operator.evaluate(rows, node.attrs)
    if results is None:
        return known
    known.constant_values[constant_mask] = results[0]
    known.constant_mask = constant_mask
    if node.op == "quantize":
        certain = np.zeros_like(constant_mask)
        with np.errstate(all="ignore"):
            certain[constant_mask] = _round_with_mask(rows[0].astype(np.float64) / rows[1])[1]
        known.constant_mask = constant_mask & certain
    return known


def _pool_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    """Return the flow of a pool, which treats each channel separately."""
    x = channels_of.get(node.inputs[0])
    if x is None or x.axis != 1:
        return None
    constant_mask, constant_values = x.constant_mask, x.constant_values
    if node.has(Trait.MEAN) and node.operator.integer_of:
        at = node.attrs
        steps = constant_values.astype(np.float64) - at["x_zero"]
        if at["count_pads"]:
            constant_mask = constant_mask & (steps == 0)
        steps, certain = _round_with_mask(steps * at["x_scale"] / at["y_scale"])
        constant_mask = constant_mask & certain
        constant_values = np.clip(steps + at["y_zero"], at["low"], at["high"])
    elif not node.has(Trait.EXTREMUM):
        constant_mask = constant_mask & (constant_values == 0)
    return _channelwise_flow(1, constant_mask, constant_values.astype(node.output.dtype.numpy))


def _reduction_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    """Return the flow of a reduction along other axes than that of the channels."""
    x = channels_of.get(node.inputs[0])
    axes = node.attrs["axes"]
    if x is None or x.axis in axes or 0 in node.inputs[0].shape:
        return None
    axis = x.axis if node.attrs["keepdims"] else x.axis - sum(a < x.axis for a in axes)
    extremum = node.has(Trait.EXTREMUM)
    constant_mask = x.constant_mask if extremum else x.constant_mask & (x.constant_values == 0)
    return _channelwise_flow(axis, constant_mask, x.constant_values)


def _pad_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    x, at = channels_of.get(node.inputs[0]), node.attrs
    if x is None or at["before"][x.axis] or at["after"][x.axis]:
        return None
    constant_mask = x.constant_mask
    if at["mode"] == "constant":
        value = node.inputs[1] if len(node.inputs) > 1 else None
        if value is not None and value.data is None:
            return None
        border = 0 if value is None else value.data.reshape(())
        constant_mask = constant_mask & (x.constant_values == border)
    return _channelwise_flow(x.axis, constant_mask, x.constant_values)


def _transpose_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    x = channels_of.get(node.inputs[0])
    if x is None:
        return None
    axis = node.attrs["perm"].index(x.axis)
    return _channelwise_flow(axis, x.constant_mask, x.constant_values)


def _reshape_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    """Return the flow of a reshape that keeps the channel axis, or merges it with others."""
    x, before, after = channels_of.get(node.inputs[0]), node.inputs[0].shape, node.output.shape
    if x is None or not all(isinstance(n, int) and n for n in (*before, *after)):
        return None
    count = len(x.constant_mask)
    outer, inner = prod(before[: x.axis]), prod(before[x.axis + 1 :])
    for axis, n in enumerate(after):
        first, last = prod(after[:axis]), prod(after[axis + 1 :])
        if n == count and (first, last) == (outer, inner):
            sources = np.arange(count)
        elif n == count * inner and n > count and (first, last) == (outer, 1):
            sources = np.repeat(np.arange(count), inner)
        elif inner == 1 and n > count and n % count == 0 and first * n == outer * count:
            sources = np.tile(np.arange(count), n // count)
        else:
            continue
        channels = Channels(axis, x.constant_mask[sources], x.constant_values[sources])
        return Flow(channels, [Link(0, sources, np.arange(len(sources)))])
    return None


def _concat_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    parts = [channels_of.get(v) for v in node.inputs]
    if any(p is None or p.axis != node.attrs["axis"] for p in parts):
        return None
    links, begin = [], 0
    for i, part in enumerate(parts):
        every = np.arange(len(part.constant_mask))
        links.append(Link(i, every, begin + every))
        begin += len(every)
    constant_mask = np.concatenate([p.constant_mask for p in parts])
    constant_values = np.concatenate([p.constant_values for p in parts])
    return Flow(Channels(node.attrs["axis"], constant_mask, constant_values), links)


def _table_flow(node: Node, channels_of: ChannelMap) -> Flow | None:
    x = channels_of.get(node.inputs[0])
    if x is None:
        return None
    (values,) = node.operator.evaluate([x.constant_values, node.inputs[1].data], node.attrs)
    return _channelwise_flow(x.axis, x.constant_mask, values)


_Rule = Callable[[Node, ChannelMap], "Flow | None"]
_RULES: dict[str, _Rule] = {
    "pad": _pad_flow,
    "transpose": _transpose_flow,
    "reshape": _reshape_flow,
    "concat": _concat_flow,
    "table": _table_flow,
}
_FAMILIES: dict[Trait, _Rule] = {
    Trait.CONVOLUTION: _matmul_flow,
    Trait.MATRIX_PRODUCT: _matmul_flow,
    Trait.POOL: _pool_flow,
    Trait.ELEMENTWISE: _elementwise_flow,
}


def _rule_of(node: Node) -> _Rule | None:
    if node.operator.kind == REDUCE:
        return _reduction_flow
    families = (rule for trait, rule in _FAMILIES.items() if node.has(trait))
    return _RULES.get(node.op) or next(families, None)
