"""Dataflow analysis of channels: their sources, and which of them are constant.

A channel is one index along one axis of a tensor. Operators that treat each channel separately
link the channels of their operands to those of their results; matmul-like operators combine them. A
channel is still (constant) if all of its elements are one number for any input of the network:
because all its weights are zero, or apply only to still channels.

Contract: a still number is the result of every way to compute it, so results near a rounding tie
are not still; run-time numbers are finite. Non-goal: grouped convolutions other than depthwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from tvmrt.compiler.ir import POINTWISE, Node, Value, get_op

from .channel_constants import by_channel

INTEGER_PRODUCTS = ("qconv", "qmatmul")
PRODUCTS = ("conv", "matmul", *INTEGER_PRODUCTS)
# Floating-point operators with bit-equal results in numpy and in C.
EXACT = frozenset(
    ("add", "sub", "mul", "max", "min", "relu", "neg", "abs", "cast", "quantize", "dequantize")
)
TIE = 1e-3  # distance from a tie, in steps, within which implementations may round differently


@dataclass
class Channels:
    """Channels of one tensor: their axis, a mask of the still ones, and their numbers."""

    axis: int
    still: np.ndarray
    number: np.ndarray


@dataclass
class Link:
    """Channel ``places[i]`` of the result depends on channel ``sources[i]`` of an input."""

    input: int
    sources: np.ndarray
    places: np.ndarray


@dataclass
class Flow:
    """Effect of an operator on channels. Without ``links`` each result depends on all channels."""

    channels: Channels
    links: list[Link] = field(default_factory=list)


Facts = Mapping[Value, Channels]


def flow(node: Node, facts: Facts) -> Flow | None:
    """Return the flow through a node; None if its channels cannot be followed."""
    if node.guard is not None or len(node.outputs) != 1:
        return None
    rule = _RULES.get(node.op)
    if rule is None:
        rule = _elements if get_op(node.op).kind == POINTWISE else None
    if rule is None:
        return None
    found = rule(node, facts)
    if found is None or not isinstance(node.output.shape[found.channels.axis], int):
        return None
    return found


def is_depthwise(node: Node) -> bool:
    groups = node.attrs.get("groups", 1)
    return groups > 1 and groups == node.inputs[0].shape[1]


def terms(node: Node) -> np.ndarray:
    """Return the weights minus their zero points: [outputs, inputs of each output, taps]."""
    w = node.inputs[1].data
    w = w.reshape(*w.shape[:2], -1) if node.op in ("conv", "qconv") else w.T[:, :, None]
    if node.op not in INTEGER_PRODUCTS:
        return w
    w_zero = node.inputs[4]
    return w.astype(np.int32) - (0 if w_zero is None else w_zero.data.reshape(-1, 1, 1))


def quiet(node: Node, x: Channels) -> np.ndarray:
    """Return the operand channels whose contribution to a sum is the same for each window.

    For floating-point sums only zeros count: others would change the order of rounding.
    """
    zero = node.attrs.get("x_zero", 0)
    nothing = x.still & (x.number == zero)
    padded = any((*node.attrs.get("pads_before", ()), *node.attrs.get("pads_after", ())))
    return nothing if padded or node.op not in INTEGER_PRODUCTS else x.still


def summed(node: Node, w: np.ndarray, x: Channels, which: np.ndarray) -> np.ndarray:
    """Return the contribution of the channels ``which`` of an integer operand to each sum."""
    steps = np.where(which, x.number.astype(np.int64) - node.attrs["x_zero"], 0)
    return w.sum(axis=2, dtype=np.int64) @ steps


def _each(axis: int, still: np.ndarray, number: np.ndarray) -> Flow:
    """Return a flow that links each channel to the same channel of the first operand."""
    every = np.arange(len(still))
    return Flow(Channels(axis, still, number), [Link(0, every, every)])


def nothing_known(value: Value, axis: int) -> Channels:
    count = value.shape[axis]
    return Channels(axis, np.zeros(count, bool), np.zeros(count, value.dtype.numpy))


def _product(node: Node, facts: Facts) -> Flow | None:
    x, weights, y = node.inputs[0], node.inputs[1], node.output
    convolves = node.op in ("conv", "qconv")
    if not weights.is_constant or (not convolves and weights.type.rank != 2):
        return None
    if any(v is not None and not v.is_constant for v in node.inputs[2:]):
        return None
    axis, in_axis = (1, 1) if convolves else (y.type.rank - 1, x.type.rank - 1)
    count = x.shape[in_axis]
    if not isinstance(count, int) or not count or not np.isfinite(weights.data).all():
        return None
    given = facts.get(x)
    elsewhere = given is not None and given.axis != in_axis
    depthwise = is_depthwise(node)
    if node.attrs.get("groups", 1) > 1 and (elsewhere or not depthwise):
        return None  # each group would have to keep the same number of channels
    if given is None or elsewhere:
        given = nothing_known(x, in_axis)
    w = terms(node)
    used, steady = w.any(axis=2), quiet(node, given)
    links = []
    if depthwise:
        sources = np.arange(len(w)) // (len(w) // count)
        links = [Link(0, sources, np.arange(len(w)))]
        still = ~used[:, 0] | steady[sources]
        given = Channels(in_axis, given.still[sources], given.number[sources])
        steady = steady[sources]
    else:
        still = ~(used & ~steady).any(axis=1)
    number, sure = _result(node, w, given, steady, depthwise)
    return Flow(Channels(axis, still & sure, number), links)


def _result(node: Node, w: np.ndarray, x: Channels, steady: np.ndarray, depthwise: bool):
    """Return the result if only steady channels are read, and a mask where it is certain."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    sure = np.ones(len(w), bool)
    if node.op not in INTEGER_PRODUCTS:
        row = np.zeros(1, np.float32)
        if bias is not None:
            row = bias.data if node.op == "conv" else by_channel(node.output, bias.data, -1)
        if row is None:
            return np.zeros(len(w), np.float32), ~sure
        return np.broadcast_to(row, len(w)).astype(np.float32), sure
    if depthwise:
        total = w.sum(axis=(1, 2), dtype=np.int64)
        total *= np.where(steady, x.number.astype(np.int64) - node.attrs["x_zero"], 0)
    else:
        total = summed(node, w, x, steady)
    bias = node.inputs[3]
    total = total + (0 if bias is None else bias.data.reshape(-1).astype(np.int64))
    if node.attrs["to"] == "int32":
        return total.astype(np.int32), sure
    scale = node.inputs[2].data.reshape(-1)
    if node.attrs["to"] == "float32":
        return total.astype(np.float32) * scale, sure
    steps, sure = _rounded(total * scale.astype(np.float64))
    steps = np.clip(steps + node.attrs["y_zero"], node.attrs["low"], node.attrs["high"])
    return steps.astype(node.output.dtype.numpy), sure


def _rounded(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rounded steps, and a mask of those that are not near a tie."""
    return np.rint(steps), np.abs(np.abs(steps - np.trunc(steps)) - 0.5) > TIE


def _elements(node: Node, facts: Facts) -> Flow | None:
    """Return the flow of an elementwise operator."""
    y = node.output
    read = [i for i, v in enumerate(node.inputs) if v is not None and not v.is_constant]
    given = [facts.get(node.inputs[i]) for i in read]
    if not read or any(g is None or g.axis != given[0].axis for g in given):
        return None
    if any(node.inputs[i].shape != y.shape for i in read):
        return None
    axis = given[0].axis
    every = np.arange(y.shape[axis])
    known = nothing_known(y, axis)
    integers = node.op == "table" or node.op.startswith("fixed_")
    if integers or node.op in EXACT:
        known = _evaluated(node, facts, np.all([g.still for g in given], axis=0), known)
    elif node.op in ("qadd", "qmul"):
        known = _pair(node, given)
    return Flow(known, [Link(i, every, every) for i in read])


def _pair(node: Node, given: list[Channels]) -> Channels:
    at = node.attrs
    still = np.all([g.still for g in given], axis=0)
    a, b = (
        (g.number.astype(np.float64) - at[f"{side}_zero"]) * at[f"{side}_scale"]
        for g, side in zip((given[0], given[-1]), "ab")
    )
    steps, sure = _rounded((a + b if node.op == "qadd" else a * b) / at["y_scale"])
    number = np.clip(steps + at["y_zero"], at["low"], at["high"])
    return Channels(given[0].axis, still & sure, number.astype(node.output.dtype.numpy))


def _evaluated(node: Node, facts: Facts, still: np.ndarray, known: Channels) -> Channels:
    rows = []
    for value in node.inputs:
        row = None
        if value is None or (node.op == "table" and value.is_constant):
            row = value if value is None else value.data
        elif value.is_constant:
            row = by_channel(node.output, value.data, known.axis)
            if row is None:
                return known
            row = row[still]
        else:
            row = facts[value].number[still]
        rows.append(row)
    with np.errstate(all="ignore"):
        made = get_op(node.op).evaluate(rows, node.attrs)
    if made is None:
        return known
    known.number[still] = made[0]
    known.still = still
    if node.op == "quantize":
        sure = np.zeros_like(still)
        with np.errstate(all="ignore"):
            sure[still] = _rounded(rows[0].astype(np.float64) / rows[1])[1]
        known.still = still & sure
    return known


def _window(node: Node, facts: Facts) -> Flow | None:
    """Return the flow of a pool, which treats each channel separately."""
    x = facts.get(node.inputs[0])
    if x is None or x.axis != 1:
        return None
    still, number = x.still, x.number
    if node.op == "avg_pool":
        still = still & (number == 0)
    elif node.op in ("qavg_pool", "qavg_pool_zero_first"):
        at = node.attrs
        steps = number.astype(np.float64) - at["x_zero"]
        if at["count_pads"] or node.op == "qavg_pool_zero_first":
            still = still & (steps == 0)
        steps, sure = _rounded(steps * at["x_scale"] / at["y_scale"])
        still = still & sure
        number = np.clip(steps + at["y_zero"], at["low"], at["high"])
    return _each(1, still, number.astype(node.output.dtype.numpy))


def _fold(node: Node, facts: Facts) -> Flow | None:
    """Return the flow of a reduction along other axes than that of the channels."""
    x = facts.get(node.inputs[0])
    axes = node.attrs["axes"]
    if x is None or x.axis in axes:
        return None
    axis = x.axis if node.attrs["keepdims"] else x.axis - sum(a < x.axis for a in axes)
    picks = node.op in ("reduce_max", "reduce_min")
    still = x.still if picks else x.still & (x.number == 0)
    return _each(axis, still, x.number)


def _pad(node: Node, facts: Facts) -> Flow | None:
    x, at = facts.get(node.inputs[0]), node.attrs
    if x is None or at["before"][x.axis] or at["after"][x.axis]:
        return None
    still = x.still
    if at["mode"] == "constant":
        value = node.inputs[1] if len(node.inputs) > 1 else None
        if value is not None and value.data is None:
            return None
        still = still & (x.number == (0 if value is None else value.data.reshape(())))
    return _each(x.axis, still, x.number)


def _transpose(node: Node, facts: Facts) -> Flow | None:
    x = facts.get(node.inputs[0])
    return None if x is None else _each(node.attrs["perm"].index(x.axis), x.still, x.number)


def _reshape(node: Node, facts: Facts) -> Flow | None:
    """Return the flow of a reshape that keeps the channel axis, or merges it with others."""
    x, before, after = facts.get(node.inputs[0]), node.inputs[0].shape, node.output.shape
    if x is None or not all(isinstance(n, int) and n for n in (*before, *after)):
        return None
    count = len(x.still)
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
        known = Channels(axis, x.still[sources], x.number[sources])
        return Flow(known, [Link(0, sources, np.arange(len(sources)))])
    return None


def _concat(node: Node, facts: Facts) -> Flow | None:
    parts = [facts.get(v) for v in node.inputs]
    if any(p is None or p.axis != node.attrs["axis"] for p in parts):
        return None
    links, begin = [], 0
    for i, part in enumerate(parts):
        every = np.arange(len(part.still))
        links.append(Link(i, every, begin + every))
        begin += len(every)
    still = np.concatenate([p.still for p in parts])
    number = np.concatenate([p.number for p in parts])
    return Flow(Channels(node.attrs["axis"], still, number), links)


_POOLS = "max_pool", "avg_pool", "qmax_pool", "qavg_pool", "qavg_pool_zero_first"

_RULES: dict[str, Callable[[Node, Facts], Flow | None]] = {
    **dict.fromkeys(PRODUCTS, _product),
    **dict.fromkeys(_POOLS, _window),
    **dict.fromkeys(("reduce_mean", "reduce_sum", "reduce_max", "reduce_min"), _fold),
    **dict.fromkeys(("table", "qadd", "qmul"), _elements),
    "pad": _pad,
    "transpose": _transpose,
    "reshape": _reshape,
    "concat": _concat,
}
