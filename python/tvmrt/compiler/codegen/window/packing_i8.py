"""Packing of weights and biases for the integer kernels (``kernels/*_i8.h``), in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir.rounding import ceil_div, round_up

from .dot4_packing import split_into_quads, split_into_segments, weights_minus_zero_point
from .geometry_i8 import LayerI8
from .layer_i8 import ConvI8
from .tiles_i8 import WeightFormat


@dataclass(frozen=True)
class PackedI8:
    """Constants of one layer: packed weights as bytes, int32 bias and shift."""

    weights: np.ndarray
    bias: np.ndarray
    shift: np.ndarray | None


PAIRS = {None: 0, ((0, 1), (2, 3)): 1, ((0, 2), (1, 3)): 2}  # by the halves of a format
MAX_LANES = 16


@dataclass(frozen=True)
class PackingOrderI8:
    """Layout of weights that a run packs: ``[groups, channels, inputs, taps]`` of a dense layer, or
    ``[inputs, channels]`` of a matmul; see ``pack_i8.h``."""

    layer: ConvI8
    taps: int
    is_product: bool
    is_signed: bool

    @property
    def wide(self) -> bool:
        return self.layer.fmt.wide

    @property
    def channels(self) -> int:
        """Output channels of a group."""
        return self.layer.out_c // self.layer.groups

    @property
    def inputs(self) -> int:
        return self.layer.in_c // self.layer.groups

    @property
    def segment(self) -> int:
        return self.taps * self.inputs // self.layer.plan.segments

    @property
    def elements(self) -> int:
        """Number of packed elements."""
        quads = self.layer.plan.segments * ceil_div(self.segment, 4)
        return self.layer.groups * self.layer.padded * quads * 4

    def members(self) -> dict[str, object]:
        """Return the members of a ``tvmrt_pack_i8``."""
        order, window = self.layer.order, self.inputs * self.taps
        strides = (1, self.channels) if self.is_product else (window, self.taps)
        return {
            "groups": order.groups,
            "channels": self.channels,
            "inputs": self.inputs,
            "taps": self.taps,
            "run": self.segment,
            "gathered": int(self.layer.plan.im2col),
            "vectors": order.vectors,
            "lanes": order.fmt.lanes,
            "block": order.tiling[0],
            "pairs": PAIRS[order.fmt.split_pairs],
            "wide": int(order.fmt.wide),
            "is_signed": int(self.is_signed),
            "group_stride": self.channels * window,
            "channel_stride": strides[0],
            "input_stride": strides[1],
        }


def max_packed_bytes(channels: int, inputs: int, taps: int, groups: int) -> int:
    """Return the maximum size of such packed weights in any format."""
    return groups * round_up(channels, MAX_LANES) * taps * round_up(inputs, 4) * 2


def pack_conv(
    layer: ConvI8,
    weights: np.ndarray,
    w_zero: np.ndarray | int = 0,
    bias: np.ndarray | None = None,
) -> PackedI8:
    """Pack the weights and fold the bias of a convolution.

    Parameters
    ----------
    weights
        int8 or uint8 [out_c, in_c / groups, *kernel], 0 to 3 kernel extents.
    w_zero
        Zero point of the weights: one, or one per output channel.
    bias
        int32 [out_c], in units of x_scale * w_scale; None for none.
    """
    fmt = layer.fmt
    out_c = layer.out_c
    centred = weights_minus_zero_point(layer, weights, w_zero)
    taps = int(np.prod(centred.shape[1:]))
    folded = np.zeros(out_c, np.int64) if bias is None else np.asarray(bias, np.int64).reshape(-1)
    folded = folded - (layer.x_zero + layer.offset) * centred.reshape(out_c, -1).sum(axis=1)
    if layer.depthwise:
        return PackedI8(
            _pack_depthwise(layer, centred), pad_channels(layer, wrap_int32(folded)), None
        )
    segments = split_into_segments(layer, centred)
    plain = fmt.wide or len(layer.overflow_quads) > 0
    shift = np.zeros(out_c, np.int64) if plain else _shifts(segments.reshape(out_c, -1))
    folded = folded + shift * taps * layer.offset
    quads = split_into_quads(
        segments - shift.reshape(-1, 1, 1), layer.plan.im2col or layer.quad_padded
    )
    if layer.im2col_rows:
        more = layer.segment_quads - quads.shape[1]
        quads = np.pad(quads, ((0, 0), (0, more), (0, 0)))
    if layer.overflow_quads:
        quads = _with_overflow_quads(layer, quads)
    return PackedI8(
        _interleave(layer.order, quads),
        pad_channels(layer, wrap_int32(folded)),
        pad_channels(layer, shift.astype(np.int32)) if shift.any() else None,
    )


def _with_overflow_quads(layer: ConvI8, quads: np.ndarray) -> np.ndarray:
    """Clip quads to int8 and append the layer's overflow quads."""
    bounded = np.clip(quads, -128, 127)
    excess = quads - bounded
    offsets = layer.quad_offsets(np.arange(quads.shape[1]))
    overflow = []
    for place in layer.overflow_quads:
        at = offsets.index(place)
        overflow.append(np.clip(excess[:, at], -128, 127))
        excess[:, at] -= overflow[-1]
    if excess.any():
        raise ValueError("the layer was not fitted to these weights: call fit() before pack_conv()")
    return np.concatenate([bounded, np.stack(overflow, axis=1)], axis=1)


def accumulators_fit(packed: PackedI8, scale: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether every possible sum times ``scale`` stays below 2 ** 31, as the tiles require.

    Any sensible scale satisfies this. Otherwise use an epilogue that clamps the product
    (``tvmrt_i8_rows_requantize``).
    """
    taps = weights[0].size
    largest = taps * 255 * 255 + np.abs(packed.bias.astype(np.float64)).max()
    return bool(min(largest, 2.0**31) * np.abs(scale.astype(np.float64)).max() < 2.0**31)


def wrap_int32(values: np.ndarray) -> np.ndarray:
    """Convert int64 to int32 modulo 2 ** 32, as the kernels' accumulators wrap."""
    return values.astype(np.uint64).astype(np.uint32).view(np.int32)


def pad_channels(layer: ConvI8, values: np.ndarray) -> np.ndarray:
    """Zero-pad values per channel (or one for all) to whole vectors in each group."""
    full = np.broadcast_to(np.asarray(values).reshape(-1), (layer.out_c,))
    if layer.depthwise:
        return np.concatenate(
            [_depthwise_lanes(layer, part) for part in _depthwise_blocks(layer, full)]
        )
    full = full.reshape(layer.groups, -1)
    out = np.zeros((layer.groups, layer.padded), full.dtype)
    out[:, : full.shape[1]] = full
    return out.reshape(-1)


def _depthwise_blocks(layer: ConvI8, values: np.ndarray) -> list[np.ndarray]:
    """Split the first axis into blocks, each padded to the width of its vectors."""
    blocks = []
    for first in range(0, layer.out_c, layer.depthwise_block):
        part = values[first : first + layer.depthwise_block]
        block = np.zeros((layer.block_width(len(part)), *values.shape[1:]), values.dtype)
        block[: len(part)] = part
        blocks.append(block)
    return blocks


def _depthwise_lanes(layer: ConvI8, block: np.ndarray) -> np.ndarray:
    """Return the channels of a block in the order of the kernel's accumulators."""
    if not layer.fmt.interleaves:
        return block
    return block.reshape(-1, 4, 4, *block.shape[1:]).swapaxes(0, 1).reshape(block.shape)


def _pack_depthwise(layer: ConvI8, centred: np.ndarray) -> np.ndarray:
    """Pack weights [channel, 1, kd, kh, kw] as ``depthwise_i8.h`` specifies."""
    rows, columns = layer.depthwise_taps
    taps = centred.reshape(layer.out_c, rows, columns)
    packed = [_pack_depthwise_block(layer, block) for block in _depthwise_blocks(layer, taps)]
    return np.concatenate(packed)


def _pack_depthwise_block(layer: ConvI8, block: np.ndarray) -> np.ndarray:
    channels, rows, columns = block.shape
    if not layer.fmt.interleaves:
        kind = np.int8 if layer.parts == 1 else np.int16
        return np.ascontiguousarray(block.transpose(1, 2, 0), kind).reshape(-1).view(np.int8)
    quads = np.zeros((channels, ceil_div(layer.depthwise_rows, 4) * 4, columns), np.int64)
    quads[:, :rows] = block
    if layer.overflow_row >= 0:
        bounded = np.clip(block, -128, 127)
        quads[:, :rows], quads[:, rows] = bounded, (block - bounded)[:, layer.overflow_row]
    parts = np.stack([_depthwise_lanes(layer, part) for part in _split_to_int8(quads, layer.parts)])
    # [part, quarter, lane, row / 4, row % 4, column]
    # -> [row / 4, column, part, quarter, lane, row % 4]
    parts = parts.reshape(layer.parts, 4, channels // 4, -1, 4, columns).transpose(3, 5, 0, 1, 2, 4)
    return lane_order(layer.fmt, parts).reshape(-1)


def _split_to_int8(weights: np.ndarray, count: int) -> list[np.ndarray]:
    """Split weights into ``count`` arrays that sum to them, of int8 range if ``count`` > 1."""
    if count == 1:
        return [weights]
    parts = []
    for _ in range(count):
        parts.append(np.clip(weights, -128, 127))
        weights = weights - parts[-1]
    return parts


def _shifts(flat: np.ndarray) -> np.ndarray:
    """Return the smallest shift per channel that makes all weights fit into int8."""
    high = np.maximum(flat.max(axis=1) - 127, 0)
    low = np.minimum(flat.min(axis=1) + 128, 0)
    return np.where(high > 0, high, low)


def _interleave(layer: LayerI8, quads: np.ndarray) -> np.ndarray:
    """Interleave quads [out_c, n, 4] in blocks of channels, as bytes."""
    fmt, vectors, nr = layer.fmt, layer.vectors, layer.tiling[0]
    per_group = layer.out_c // layer.groups
    count = quads.shape[1]
    padded = np.zeros((layer.groups, vectors * fmt.lanes, count, 4), np.int64)
    padded[:, :per_group] = quads.reshape(layer.groups, per_group, count, 4)
    padded = padded.reshape(layer.groups, vectors, fmt.lanes, count, 4)
    blocks = []
    for group in padded:
        for first in range(0, vectors, nr):
            block = group[first : first + nr].transpose(2, 0, 1, 3)
            blocks.append(lane_order(fmt, block).reshape(-1))
    return np.concatenate(blocks)


def lane_order(fmt: WeightFormat, quads: np.ndarray) -> np.ndarray:
    """Return quads [..., lane, 4] in the memory order of the format: int8 [..., bytes]."""
    lead, kind = quads.shape[:-2], np.int16 if fmt.wide else np.int8
    if fmt.split_pairs is not None:
        quads = np.stack([quads[..., list(pair)] for pair in fmt.split_pairs], axis=-3)
    return np.ascontiguousarray(quads, kind).reshape(*lead, -1).view(np.int8)
