"""Axis uses of operators with windows, states and attention, for ``axis_uses.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import onnx

from .axis_uses import FIXED, Axes, Axis, AxisUses, constant, operand, rule, set_axes

_WEIGHTS = {"QLinearConv": 3}  # operand index of the weights; default: 1


def _spatial_rank(axes: Sequence[Axis], kernel: Sequence[int] = ()) -> int:
    """Return the number of axes along which a window really moves. A single row does not count.
    Neither do features with window extent 1, if the window is wider along other axes."""
    has_extent = max(kernel, default=1) > 1
    lengths = kernel if has_extent else [2] * len(axes)
    moved = (a for a, n in zip(axes, lengths) if a.dims or (a.size != 1 and n > 1))
    return max(sum(1 for _ in moved), 1)


def _list(attributes: dict[str, Any], name: str, rank: int, default: int) -> list[int]:
    return list(attributes.get(name) or [default] * rank)


def _after_windows(
    state: AxisUses, spatial: Axes, kernel: Sequence[int], attributes: dict[str, Any]
) -> Axes:
    """Note a window that moves along spatial axes, and return the axes of its result."""
    rank = len(spatial)
    strides = _list(attributes, "strides", rank, 1)
    dilations = _list(attributes, "dilations", rank, 1)
    pads = _list(attributes, "pads", 2 * rank, 0)
    same = attributes.get("auto_pad", b"NOTSET").startswith(b"SAME")
    found = []
    for i, axis in enumerate(spatial):
        reach = (kernel[i] - 1) * dilations[i] + 1
        padded = reach - 1 if same else pads[i] + pads[i + rank]
        size = None
        if not axis.dims and axis.size is not None:
            size = (
                -(-axis.size // strides[i])
                if same
                else (axis.size + padded - reach) // strides[i] + 1
            )
        moved = axis.after_window(reach, strides[i], padded)
        found.append(replace(moved, size=size) if axis.dims else constant(size))
    state.note_window(found, _spatial_rank(spatial, kernel))
    return tuple(found)


@rule("Conv", "ConvInteger", "QLinearConv", "FusedConv", "NhwcFusedConv", "DeformConv")
def _conv(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    weights = state.axes_of(operand(node, _WEIGHTS.get(node.op_type, 1)))
    if axes is None or len(axes) < 3:
        return
    kernel = attributes.get("kernel_shape") or [axis.size or 1 for axis in (weights or axes)[2:]]
    spatial = _after_windows(state, axes[2:], kernel, attributes)
    state.note(axes[:1], batch=True)
    strides = attributes.get("strides") or [1]
    if _spatial_rank(axes[2:]) == 1 and max(strides) > 1 and axes[1].size == 1:
        state.note(axes[2:], signal=True)
    channels = weights[0].size if weights else None
    set_axes(state, node, (axes[0], constant(channels), *spatial))


@rule("ConvTranspose")
def _conv_transpose(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes, weights = state.axes_of(node.input[0]), state.axes_of(operand(node, 1))
    if axes is None or len(axes) < 3:
        return
    rank = len(axes) - 2
    strides = _list(attributes, "strides", rank, 1)
    state.note_window(axes[2:], _spatial_rank(axes[2:]))
    state.note(axes[:1], batch=True)
    grown = tuple(_scale_axis(axis, Fraction(by)) for axis, by in zip(axes[2:], strides))
    channels = weights[1].size if weights and attributes.get("group", 1) == 1 else None
    set_axes(state, node, (axes[0], constant(channels), *grown))


def _scale_axis(axis: Axis, by: Fraction) -> Axis:
    """Return an axis with ``by`` times as many elements."""
    return replace(axis, step=axis.step / by, size=None)


@rule("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool", "MaxRoiPool")
def _pool(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is None or len(axes) < 3 or "kernel_shape" not in attributes:
        return
    state.note(axes[:1], batch=True)
    spatial = _after_windows(state, axes[2:], attributes["kernel_shape"], attributes)
    for index in range(len(node.output)):
        set_axes(state, node, (*axes[:2], *spatial), index)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "QLinearGlobalAveragePool")
def _global_pool(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is None or len(axes) < 3:
        return
    state.note(axes[:1], batch=True)
    state.note_window(axes[2:], _spatial_rank(axes[2:]))
    set_axes(state, node, (*axes[:2], *[constant(1)] * (len(axes) - 2)))


@rule("InstanceNormalization", "GroupNormalization", "LRN", "BatchNormalization")
def _normalization(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes and len(axes) > 2:
        state.note(axes[:1], batch=True)
    set_axes(state, node, axes)


@rule("Resize", "Upsample")
def _resize(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is None:
        return
    names = [name for name in node.input[1:] if name]
    chosen = attributes.get("axes")
    axis_indices = [index % len(axes) for index in chosen] if chosen else list(range(len(axes)))
    scales = next((s for s in map(state.read, names) if s is not None and s.dtype.kind == "f"
                   and s.size == len(axis_indices)), None)  # fmt: skip
    if "scales" in attributes:
        scales = np.asarray(attributes["scales"])
    sizes = state.elements(node.input[3]) if operand(node, 3) else None
    found, moved = list(axes), []
    for i, index in enumerate(axis_indices):
        axis = axes[index]
        if scales is not None:
            scale = Fraction(float(scales[i])).limit_denominator(1 << 12)
            found[index] = axis if scale == 1 else _scale_axis(axis, scale)
            moved += [axis] if scale != 1 else []
        elif sizes is not None and i < len(sizes):
            size = sizes[i]
            found[index] = size if isinstance(size, Axis) else constant(size)
            moved += [axis] if size != axis else []
        elif index > 1:
            found[index], moved = axis.inexact(), [*moved, axis]
    spatial = [axis for axis in moved if axis.dims]
    # only axes after the batch and the channels can be axes of a picture
    if spatial and len(axes) > 2:
        state.note_window(spatial, max(_spatial_rank(axes[2:]), 1))
    set_axes(state, node, tuple(found))


@rule("DepthToSpace", "SpaceToDepth")
def _blocks(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is None or len(axes) != 4:
        return
    by = Fraction(attributes["blocksize"])
    by = by if node.op_type == "DepthToSpace" else 1 / by
    spatial = tuple(_scale_axis(axis, by) for axis in axes[2:])
    state.note(axes[:1], batch=True)
    state.note_window(spatial if by < 1 else axes[2:], 2)
    channels = None if axes[1].size is None else int(axes[1].size / by / by)
    set_axes(state, node, (axes[0], constant(channels), *spatial))


@rule("GridSample", "RoiAlign", "MaxRoiPool")
def _sample(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes, other = state.axes_of(node.input[0]), state.axes_of(node.input[1])
    if axes is None or len(axes) < 4:
        return
    state.note_window(axes[2:], len(axes) - 2)
    if node.op_type == "GridSample" and other is not None:
        state.note_window(other[1:-1], len(other) - 2)
        set_axes(state, node, (*axes[:2], *other[1:-1]))
    elif other is not None:
        state.note(other[:1], mixed=True)  # boxes: any number of them
        set_axes(state, node, (other[0], axes[1], FIXED, FIXED))


@rule("STFT", "DFT")
def _spectrum(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is not None and len(axes) > 1:
        state.note(axes[1:2], signal=True)
        if node.op_type == "STFT":
            set_axes(state, node, (axes[0], axes[1].inexact(), FIXED, constant(2)))


@rule("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
def _recurrent(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is None or len(axes) != 3:
        return
    rows_first = attributes.get("layout", 0) == 1
    batch, sequence = (axes[0], axes[1]) if rows_first else (axes[1], axes[0])
    state.note([sequence], sequence=True)
    state.note([batch], batch=True)
    for index in (4, 5, 6):
        other = state.axes_of(operand(node, index)) or ()
        if index == 4 and len(other) == 1:
            state.broadcast_axis(batch, other[0])
        elif index > 4 and len(other) == 3:
            state.note([state.broadcast_axis(batch, other[0 if rows_first else 1])], batch=True)
    hidden = constant(attributes.get("hidden_size"))
    directions = constant(2 if attributes.get("direction") == b"bidirectional" else 1)
    if rows_first:
        made = (batch, sequence, directions, hidden), (batch, directions, hidden)
    else:
        made = (sequence, directions, batch, hidden), (directions, batch, hidden)
    for index, result in enumerate((made[0], made[1], made[1])):
        set_axes(state, node, result, index)


@rule("Attention", "MultiHeadAttention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention",
      "QAttention")  # fmt: skip
def _attention(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    for name in node.input[:3]:
        axes = state.axes_of(name) if name else None
        if axes is not None and len(axes) > 2:
            state.note(axes[:1], batch=True)
            state.note(axes[-2:-1] if len(axes) > 3 else axes[1:2], sequence=True)
    axes = state.axes_of(node.input[0])
    set_axes(state, node, axes and (*axes[:-1], FIXED))


@rule("EmbedLayerNormalization")
def _embedding(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes, positions = state.axes_of(node.input[0]), state.axes_of(operand(node, 3))
    if axes is None or len(axes) != 2:
        return
    state.note(axes[1:], sequence=True)
    if positions and positions[0].size:
        state.note_limit(axes[1], positions[0].size)
    set_axes(state, node, (*axes, FIXED))


@rule("LayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization",
      "SkipSimplifiedLayerNormalization", "RMSNormalization")  # fmt: skip
def _layer_normalization(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    for index in range(len(node.output)):
        if index in (0, 3):
            set_axes(state, node, axes, index)


@rule("If")
def _branches(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    for name in ("then_branch", "else_branch"):
        body = attributes[name]
        for tensor in body.initializer:
            state.tensors[tensor.name] = tensor
            state.axes[tensor.name] = tuple(map(constant, tensor.dims))
        state.propagate(body.node)
        for index, info in enumerate(body.output):
            set_axes(state, node, state.axes_of(info.name), index)


@rule("Scan")
def _scan(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    count = attributes["num_scan_inputs"]
    for name in node.input[len(node.input) - count :]:
        axes = state.axes_of(name)
        if axes:
            state.note(axes[:1], sequence=True)
