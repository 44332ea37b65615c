"""Packing of weights and biases for the integer kernels (``kernels/*_i8.h``), in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir.rounding import ceil_div, round_up

from .layer_i8 import ConstantsI8, Reading, VariantI8
from .plan_i8 import PlanI8
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

    plan: PlanI8
    taps: int
    is_product: bool
    is_signed: bool

    @property
    def wide(self) -> bool:
        return self.plan.variant.fmt.wide

    @property
    def channels(self) -> int:
        """Output channels of a group."""
        return self.plan.layer.out_c // self.plan.layer.groups

    @property
    def segment(self) -> int:
        return self.plan.layer.window_bytes // self.plan.variant.windows.segments

    @property
    def elements(self) -> int:
        """Number of packed elements."""
        quads = self.plan.variant.windows.segments * ceil_div(self.segment, 4)
        return self.plan.layer.groups * self.plan.padded * quads * 4

    def members(self) -> dict[str, object]:
        """Return the members of a ``tvmrt_pack_i8``."""
        layer, order = self.plan.layer, self.plan.variant.order
        window = layer.window_bytes
        strides = (1, self.channels) if self.is_product else (window, self.taps)
        return {
            "groups": layer.groups,
            "channels": self.channels,
            "inputs": layer.in_c // layer.groups,
            "taps": self.taps,
            "run": self.segment,
            "gathered": int(self.plan.variant.windows.im2col),
            "vectors": order.vectors,
            "lanes": order.fmt.lanes,
            "block": self.plan.order_nr,
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


def pack(plan: PlanI8, constants: ConstantsI8) -> PackedI8:
    """Pack the weights and fold the bias of a layer."""
    variant, centred = plan.variant, constants.centred
    shifts = variant.shifts(constants)
    bias = constants.folded_bias(variant.offset, 0 if shifts is None else shifts)
    if plan.layer.depthwise:
        return PackedI8(_pack_depthwise(variant, centred), pad_channels(plan, bias), None)
    if shifts is not None:
        centred = centred - shifts.reshape(-1, 1, 1, 1, 1)
    quads = variant.quads_of(centred)
    if variant.reading is Reading.IM2COL_ROWS:
        more = variant.segment_quads - quads.shape[1]
        quads = np.pad(quads, ((0, 0), (0, more), (0, 0)))
    if variant.overflow.quads:
        quads = _with_overflow_quads(variant, quads)
    return PackedI8(
        _interleave(variant.order, plan.order_nr, quads),
        pad_channels(plan, bias),
        None if shifts is None else pad_channels(plan, shifts.astype(np.int32)),
    )


def _with_overflow_quads(variant: VariantI8, quads: np.ndarray) -> np.ndarray:
    """Clip quads to int8 and append the variant's overflow quads."""
    bounded = np.clip(quads, -128, 127)
    excess = quads - bounded
    offsets = variant.quad_offsets(np.arange(quads.shape[1]))
    overflow = []
    for place in variant.overflow.quads:
        at = offsets.index(place)
        overflow.append(np.clip(excess[:, at], -128, 127))
        excess[:, at] -= overflow[-1]
    if excess.any():
        raise ValueError("the overflow quads of the layer are those of other weights")
    return np.concatenate([bounded, np.stack(overflow, axis=1)], axis=1)


def pad_channels(plan: PlanI8, values: np.ndarray) -> np.ndarray:
    """Zero-pad values per channel (or one for all) to whole vectors in each group."""
    layer, variant = plan.layer, plan.variant
    full = np.broadcast_to(np.asarray(values).reshape(-1), (layer.out_c,))
    if layer.depthwise:
        return np.concatenate(
            [_depthwise_lanes(variant, part) for part in _depthwise_blocks(variant, full)]
        )
    full = full.reshape(layer.groups, -1)
    out = np.zeros((layer.groups, plan.padded), full.dtype)
    out[:, : full.shape[1]] = full
    return out.reshape(-1)


def _depthwise_blocks(variant: VariantI8, values: np.ndarray) -> list[np.ndarray]:
    """Split the first axis into blocks, each padded to the width of its vectors."""
    blocks = []
    for first in range(0, variant.layer.out_c, variant.depthwise_block):
        part = values[first : first + variant.depthwise_block]
        block = np.zeros((variant.block_width(len(part)), *values.shape[1:]), values.dtype)
        block[: len(part)] = part
        blocks.append(block)
    return blocks


def _depthwise_lanes(variant: VariantI8, block: np.ndarray) -> np.ndarray:
    """Return the channels of a block in the order of the kernel's accumulators."""
    if not variant.fmt.interleaves:
        return block
    return block.reshape(-1, 4, 4, *block.shape[1:]).swapaxes(0, 1).reshape(block.shape)


def _pack_depthwise(variant: VariantI8, centred: np.ndarray) -> np.ndarray:
    """Pack weights [channel, 1, kd, kh, kw] as ``depthwise_i8.h`` specifies."""
    rows, columns = variant.layer.depthwise_taps
    taps = centred.reshape(variant.layer.out_c, rows, columns)
    packed = [_pack_depthwise_block(variant, block) for block in _depthwise_blocks(variant, taps)]
    return np.concatenate(packed)


def _pack_depthwise_block(variant: VariantI8, block: np.ndarray) -> np.ndarray:
    channels, rows, columns = block.shape
    if not variant.fmt.interleaves:
        kind = np.int8 if variant.overflow.parts == 1 else np.int16
        return np.ascontiguousarray(block.transpose(1, 2, 0), kind).reshape(-1).view(np.int8)
    quads = np.zeros((channels, ceil_div(variant.depthwise_rows, 4) * 4, columns), np.int64)
    quads[:, :rows] = block
    if variant.overflow.row >= 0:
        bounded = np.clip(block, -128, 127)
        quads[:, :rows], quads[:, rows] = bounded, (block - bounded)[:, variant.overflow.row]
    count = variant.overflow.parts
    parts = np.stack([_depthwise_lanes(variant, part) for part in _split_to_int8(quads, count)])
    # [part, quarter, lane, row / 4, row % 4, column]
    # -> [row / 4, column, part, quarter, lane, row % 4]
    parts = parts.reshape(count, 4, channels // 4, -1, 4, columns).transpose(3, 5, 0, 1, 2, 4)
    return lane_order(variant.fmt, parts).reshape(-1)


def _split_to_int8(weights: np.ndarray, count: int) -> list[np.ndarray]:
    """Split weights into ``count`` arrays that sum to them, of int8 range if ``count`` > 1."""
    if count == 1:
        return [weights]
    parts = []
    for _ in range(count):
        parts.append(np.clip(weights, -128, 127))
        weights = weights - parts[-1]
    return parts


def _interleave(variant: VariantI8, nr: int, quads: np.ndarray) -> np.ndarray:
    """Interleave quads [out_c, n, 4] in blocks of ``nr`` vectors of channels, as bytes."""
    fmt, vectors, layer = variant.fmt, variant.vectors, variant.layer
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
