"""Cards of float32 operators: each function draws one application of an operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx

from .case import Case
from .draw import TURNS, WIDTHS, Draw, single

Card = Callable[[Draw], Case]
CARDS: dict[str, tuple[Card, int]] = {}  # by operator, with the number of cases


def card(*operators: str, turns: int = 4) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Register a function as the card of operators; with several, it takes the operator."""

    def add(function: Callable[..., Case]) -> Callable[..., Case]:
        CARDS.update({op: (partial(function, op=op), turns) for op in operators})
        return function

    return add


def window(draw: Draw, rank: int, largest: int = 5) -> tuple[list[int], dict[str, Any]]:
    """Return the extents that a window covers, and its attributes. Axes differ."""
    kernel = [draw.small(1, largest) for _ in range(rank)]
    if draw.once_in(10):
        kernel = [7] * rank
    dilations = [draw.pick(1, 1, 2, 3) for _ in range(rank)]
    pads = [draw.small(0, k - 1) for k in kernel * 2]
    if draw.once_in(3):
        dilations, pads = [1] * rank, [k // 2 for k in kernel * 2]
    covered = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    attributes = {
        "kernel_shape": kernel, "dilations": dilations, "pads": pads,
        "strides": [draw.pick(1, 1, 2, 3) for _ in range(rank)],
    }  # fmt: skip
    return covered, attributes


def image(draw: Draw, covered: list[int], channels: int, batch: int, pixels: int) -> list[int]:
    """Return the shape of an image that a window fits in, with a last axis of ``pixels`` more."""
    more = [draw.small(0, 6) for _ in covered[1:]]
    return [batch, channels, *(n + m for n, m in zip(covered, [*more, pixels]))]


def convolution(draw: Draw) -> tuple[list[int], list[int], dict[str, Any]]:
    """Return the shapes of an image and of weights, and the attributes of a convolution."""
    rank = draw.pick(1, 3) if draw.once_in(8) else 2
    covered, attributes = window(draw, rank)
    channels, results, pixels = draw.extents(3)
    group = draw.pick(1, 1, 1, 2, channels)
    inner = channels if group == 1 else 1 if group == channels else draw.small(1, 5)
    results = group * (1 if group > 8 else draw.small(1, 3)) if group > 1 else results
    shape = image(draw, covered, inner * group, draw.pick(1, 1, 2), min(pixels, 140))
    return shape, [results, inner, *attributes["kernel_shape"]], {**attributes, "group": group}


@card("Conv", turns=TURNS)
def _conv(draw: Draw, op: str) -> Case:
    x, w, attributes = convolution(draw)
    weights = [draw.weights(*w, inner=int(np.prod(w[1:])))]
    if draw.small(0, 3):
        weights.append(draw.normal(w[0]))
    how = "depthwise" if w[1] == 1 and attributes["group"] > 1 else "window"
    covered = attributes["dilations"][0] * (attributes["kernel_shape"][0] - 1) + 1
    opens = (0, 2) if len(x) == 4 and covered <= 3 else (0,)
    return single(op, how, [draw.normal(*x)], weights, opens=opens, **attributes)


@card("ConvTranspose", turns=6)
def _conv_transpose(draw: Draw, op: str) -> Case:
    _, attributes = window(draw, 2, 4)
    group = draw.pick(1, 2)
    attributes["pads"] = [min(p, 1) if k > 2 else 0 for p, k in
                          zip(attributes["pads"], attributes["kernel_shape"] * 2)]  # fmt: skip
    channels, results = (group * min(n, 70) for n in draw.extents(2))
    weights = [draw.normal(channels, results // group, *attributes["kernel_shape"])]
    x = [draw.normal(draw.pick(1, 2), channels, draw.small(3), draw.small(3))]
    return single(op, "window", x, [*weights, draw.normal(results)], group=group, **attributes)


# Of two operands that are not constant.
BATCHES = (((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (3,)), ((1, 1), (3,)),
           ((), (3,)), ((2, 3), (2, 1)), ((3,), (1,)))  # fmt: skip


@card("MatMul", turns=TURNS)
def _matmul(draw: Draw, op: str) -> Case:
    rows, inner, columns = draw.extents(3)
    batch = draw.small(2, 4)
    a, b = draw.normal(rows, inner), draw.weights(inner, columns, inner=inner)
    how = (draw.turn + draw.turn // len(WIDTHS)) % 7  # each width has several
    if how == 1:
        return single(op, "two inputs", [a, b])
    if how == 2:
        return single(op, "batches", [draw.normal(batch, rows, inner)], [b], opens=(0,))
    if how in (4, 6):
        left, right = draw.pick(*BATCHES)
        pair = [draw.normal(*left, rows, inner), draw.normal(*right, inner, columns)]
        return single(op, "two batches", pair)
    if draw.turn % 4 == 3:  # products of infinity and 0 are NaN
        a.ravel()[draw.small(0, a.size - 1)] = np.inf
        b[:, :: draw.small(2, 3)] = 0
    return single(op, "weights", [a], [b], opens=(0,))


@card("Gemm", turns=12)
def _gemm(draw: Draw, op: str) -> Case:
    rows, inner, columns = draw.extents(3)
    a, b = draw.normal(rows, inner), draw.weights(inner, columns, inner=inner)
    attributes: dict[str, Any] = {"transA": draw.pick(0, 0, 1), "transB": draw.pick(0, 1)}
    if draw.once_in(2):
        attributes |= {"alpha": draw.pick(0.5, 1.0, 1.7), "beta": draw.pick(0.3, 1.0)}
    bias = [(columns,), (rows, 1), (1,), (rows, columns), (1, columns), (columns,), None]
    shape = draw.pick(*bias)
    more = [] if shape is None else [draw.normal(*shape)]
    a, b = (x.T.copy() if attributes[t] else x for x, t in ((a, "transA"), (b, "transB")))
    opens = (0,) if not attributes["transA"] and shape in (None, (columns,)) else ()
    return single(op, "weights", [a], [b, *more], opens=opens, **attributes)


@card("BatchNormalization", "InstanceNormalization", "LayerNormalization")
def _normalization(draw: Draw, op: str) -> Case:
    batch, channels, height = draw.extents(3)
    epsilon = {"epsilon": draw.pick(1e-5, 0.5)}
    if op == "LayerNormalization":
        weights = [draw.normal(channels + 1), draw.normal(channels + 1)]
        rows = [draw.normal(batch, height, channels + 1)]
        return single(op, "last axis", rows, weights, opens=(0,), **epsilon)
    x = [draw.normal(draw.small(1, 3), channels, min(height, 70) + 1, 3)]
    weights = [draw.positive(channels), draw.normal(channels)]
    if op == "BatchNormalization":
        weights += [draw.normal(channels)]
        return single(op, "planes", x, weights, [draw.positive(channels)], **epsilon)
    return single(op, "planes", x, weights, **epsilon)


@card("MaxPool", "AveragePool", turns=8)
def _pool(draw: Draw, op: str) -> Case:
    rank = draw.pick(1, 2, 2, 2)
    covered, attributes = window(draw, rank, 4)
    attributes["pads"] = [min(p, k - 1) for p, k in
                          zip(attributes["pads"], attributes["kernel_shape"] * 2)]  # fmt: skip
    if op == "AveragePool":
        del attributes["dilations"]  # not in this opset
        attributes["count_include_pad"] = draw.pick(0, 1)
    elif not any(attributes["pads"]):
        attributes["ceil_mode"] = draw.pick(0, 1)
    channels, pixels = draw.extents(2)
    x = draw.normal(*image(draw, covered, channels, draw.pick(1, 2), min(pixels, 140)))
    return single(op, "window", [x - np.float32(draw.pick(0, 3))], opens=(0,), **attributes)


@card("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(draw: Draw, op: str) -> Case:
    channels, pixels = draw.extents(2)
    x = draw.normal(draw.pick(1, 2), channels, draw.small(), pixels)
    return single(op, "planes", [x - np.float32(draw.pick(0, 3))], opens=(0,))


@card("Transpose", "Concat", "Softmax", "LogSoftmax", "Flatten", "Squeeze", "Gather", turns=4)
def _along_axis(draw: Draw, op: str) -> Case:
    shape = draw.extents(draw.small(2, 4))
    x, axis = draw.normal(*shape), draw.small(0, len(shape) - 1)
    if op == "Transpose":
        return single(op, "order", [x], perm=[*map(int, draw.rng.permutation(len(shape)))])
    if op == "Concat":
        count = draw.small(2, 3)
        parts = [draw.normal(*shape[:axis], n + 1, *shape[axis + 1 :]) for n in range(count)]
        return single(op, "parts", parts, axis=draw.pick(axis, axis - len(shape)))
    if op == "Flatten":
        return single(op, "axis", [x], axis=axis)
    if op == "Squeeze":
        return single(op, "axis", [np.expand_dims(x, axis)], [], [np.array([axis], np.int64)])
    if op == "Gather":
        places = draw.rng.integers(0, shape[axis], (draw.small(), 2)).astype(np.int64)
        return single(op, "places", [x], [], [places], axis=axis)
    opens = (0,) if axis else ()
    return single(op, "axis", [x * np.float32(draw.pick(1, 60))], opens=opens, axis=axis)


@card("Reshape", "Slice", "Pad", "Resize")
def _shape_operand(draw: Draw, op: str) -> Case:
    shape = draw.extents(draw.small(2, 3))
    x = [draw.normal(*shape)]
    if op == "Reshape":
        return single(op, "rows", x, [], [np.array([-1, shape[-1]], np.int64)])
    if op == "Pad":
        pads = np.array([draw.small(0, 3) for _ in shape * 2], np.int64)
        return single(op, "number", x, [], [pads, np.float32(draw.pick(0, 1.5))])
    if op == "Slice":
        starts = [draw.small(0, n - 1) for n in shape]
        steps = [draw.pick(1, 2, -1) for _ in shape]
        ends = [-n - 1 if step < 0 else n for n, step in zip(shape, steps)]
        parts = (starts, ends, [*range(len(shape))], steps)
        return single(op, "steps", x, [], [np.array(part, np.int64) for part in parts])
    scales = np.array([1, 1, *(draw.pick(1, 2, 3) for _ in range(2))], np.float32)
    planes = [draw.normal(1, draw.small(), draw.small(2), draw.small(2))]
    return single(op, "scales", planes, [], [np.array([], np.float32), scales])


@card("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum", "ArgMax", "ArgMin")
def _reduction(draw: Draw, op: str) -> Case:
    shape = draw.extents(draw.small(2, 4))
    x = [draw.normal(*shape) - np.float32(draw.pick(0, 3))]
    axes = sorted({draw.small(0, len(shape) - 1) for _ in range(2)})
    keep = {"keepdims": draw.pick(0, 1)}
    if op.startswith("Arg"):
        x = [np.round(x[0]) if draw.turn % 2 else x[0]]  # equal elements: the first is chosen
        return single(op, "axis", x, axis=axes[0], **keep)
    if op == "ReduceSum":
        return single(op, "axes", x, [], [np.array(axes, np.int64)], **keep)
    return single(op, "axes", x, axes=axes, **keep)


@card("Cast")
def _cast(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.extents(2)) * 10
    how = ((x, onnx.TensorProto.INT32), (x > 0, 1), (x.astype(np.int8), 1), (x.astype(int), 1))
    array, to = how[draw.turn % len(how)]
    return single(op, "type", [array], to=to)
