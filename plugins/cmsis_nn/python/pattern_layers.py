"""CMSIS-NN layers that consist of many nodes; see tvmrt.compiler.transform.patterns."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Node, PatternMatch, Value, valid_counts
from tvmrt.error import UnsupportedError
from tvmrt.plugins.cmsis_nn.layers import (
    INT8_MAX,
    INT8_MIN,
    Layer,
    Pool,
    Softmax,
    Window,
    softmax_by,
    window_of,
)
from tvmrt.plugins.cmsis_nn.softmax_table import recover_multiplier

POWER_SHIFT, PART_SHIFT = 12, 35  # shifts of a softmax's exponentials and quotients


def pattern_layer(match: PatternMatch) -> Layer:
    """Return the layer of a pattern's nodes. Raises UnsupportedError with what CMSIS-NN lacks."""
    values = match.values
    x, y = values["x"], match.nodes[0].output
    for value in (x, y):
        if value.dtype.name != "int8":
            raise UnsupportedError(f"CMSIS-NN needs int8 tensors, not {value.dtype}")
    _check(values, {"low": INT8_MIN, "high": INT8_MAX})
    return _softmax(match, x) if match.kind == "softmax" else _mean(match, x, y)


def _check(values: dict[str, Value], wanted: dict[str, int]) -> None:
    for name, number in wanted.items():
        data = values[name].data
        if data is None or data.size != 1 or int(data.reshape(-1)[0]) != number:
            raise UnsupportedError("CMSIS-NN needs other constants for these operators")


def _softmax(match: PatternMatch, x: Value) -> Softmax:
    _check(match.values, {"powers_shift": POWER_SHIFT, "shift": PART_SHIFT, "zero": INT8_MIN,
                          "mask": 2**31 - 1})  # fmt: skip
    axes = {tuple(match.node(op).attrs["axes"]) for op in ("reduce_max", "reduce_sum")}
    table = match.values["table"].data
    multiplier = None if table is None else recover_multiplier(table)
    if multiplier is None or len(axes) != 1 or len(next(iter(axes))) != 1:
        raise UnsupportedError("CMSIS-NN cannot reproduce its table of exponentials")
    return softmax_by(x, next(iter(axes))[0], *multiplier)


def _mean(match: PatternMatch, x: Value, y: Value) -> Pool:
    """Return an average pool, of windows summed by a convolution with ones or of whole images."""
    if match.kind == "mean":
        node = match.node("qconv")
        weights, plain = match.values["weights"].data, node.attrs["x_zero"] == 0
        if weights is None or np.any(weights != 1) or not plain or weights.shape[1] != 1:
            raise UnsupportedError("its sums are weighted")
        if any(step != 1 for step in node.attrs["dilations"]):
            raise UnsupportedError("CMSIS-NN has no pools of dilated windows")
        window = window_of(node, x, y, weights.shape[2:])
    else:
        window = _global_window(match.node("reduce_sum"), x)
    _check(match.values, {"nothing": 0})
    source, result = window.source[1:3], window.result[1:3]
    taps = valid_counts(source, window.kernel, window.strides, window.pads, result)
    expected = [("count", taps), ("half", taps // 2), ("less", -(taps // 2))]
    for name, numbers in expected:
        data = match.values[name].data
        if data is None or not np.array_equal(np.broadcast_to(data, y.shape), _over(numbers, y)):
            raise UnsupportedError("its sums are not divided by the size of their windows")
    return Pool(x, window, True)


def _global_window(node: Node, x: Value) -> Window:
    if x.type.rank != 4 or tuple(node.attrs["axes"]) != (2, 3) or not node.attrs["keepdims"]:
        raise UnsupportedError("CMSIS-NN averages images only")
    batch, channels, height, width = x.shape
    one = (1, 1)
    result = (batch, 1, 1, channels)
    return Window((batch, height, width, channels), result, (height, width), one, (0, 0), one)


def _over(numbers: np.ndarray, y: Value) -> np.ndarray:
    """Broadcast one number per pixel to all images and channels of a result."""
    spatial = y.shape[2:]
    return np.broadcast_to(numbers.reshape(spatial), y.shape)
