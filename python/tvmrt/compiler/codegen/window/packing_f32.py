"""Packing of weights and biases for the float kernels (``include/tvm/runtime/kernels``), in numpy.
The tiles come from ``tiles_f32`` and ``depthwise_tile_f32``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir.rounding import ceil_div, round_up

from .tiles_f32 import Tiles


def round_bf16(values: np.ndarray) -> np.ndarray:
    """Round to the nearest bfloat16, ties to even; return the 16 bits."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    quiet = bits >> np.uint32(16) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, nearest).astype(np.uint16)


def to_bf16_pairs(values: np.ndarray, axis: int) -> np.ndarray:
    """Pair adjacent numbers along an axis as bfloat16 in 32-bit words, the first in the lower half.
    An odd last one is paired with 0."""
    halves = np.moveaxis(round_bf16(values).astype(np.uint32), axis, 0)
    if len(halves) % 2:
        halves = np.concatenate([halves, np.zeros_like(halves[:1])])
    return np.moveaxis(halves[::2] | halves[1::2] << np.uint32(16), 0, axis)


def _packable(weight: np.ndarray) -> np.ndarray:
    """Return float32 weights, or bfloat16 pairs unchanged."""
    return weight if weight.dtype == np.uint32 else np.asarray(weight, np.float32)


def pack_conv(weight: np.ndarray, tiles: Tiles, groups: int = 1) -> np.ndarray:
    """Pack convolution weights ``[OC, IC / groups, *kernel]``.

    The order is ``[group][block][*kernel][ic][tiles.packed]``. Missing channels of the last block
    of each group are zeros. The result is one-dimensional; its type is float32, or uint32 for
    weights that are pairs.
    """
    weight = _packable(weight)
    out_channels, in_channels = weight.shape[0] // groups, weight.shape[1]
    blocks = ceil_div(out_channels, tiles.packed)
    packed = np.zeros(
        (groups, blocks * tiles.packed, in_channels, int(np.prod(weight.shape[2:]))), weight.dtype
    )
    packed[:, :out_channels] = weight.reshape(groups, out_channels, in_channels, -1)
    packed = packed.reshape(groups, blocks, tiles.packed, in_channels, -1)
    return np.ascontiguousarray(packed.transpose(0, 1, 4, 3, 2)).reshape(-1)


MAX_LANES = 16  # of a vector
MAX_PACKED_CHANNELS = 128  # channels of a block of packed weights: 8 vectors of 16


@dataclass(frozen=True)
class PackingOrder:
    """Layout of weights that a run packs: ``[groups, channels, inputs, taps]``, or ``[groups,
    inputs, channels, taps]`` if ``transposed``; see ``pack_f32.h``."""

    channels: int
    inputs: int
    taps: int
    groups: int = 1
    transposed: bool = False

    @property
    def max_bytes(self) -> int:
        """Maximum size of the packed weights, in blocks of up to all channels."""
        padded_channels = round_up(self.channels, MAX_LANES)
        channels = min(round_up(self.channels, MAX_PACKED_CHANNELS), 2 * padded_channels)
        return self.groups * channels * self.inputs * self.taps * 4

    def floats(self, block: int) -> int:
        """Return the number of packed floats in blocks of ``block`` channels."""
        return self.groups * round_up(self.channels, block) * self.inputs * self.taps

    def members(self, block: int) -> dict[str, object]:
        """Return the members of a ``tvmrt_pack_f32`` for blocks of ``block`` channels."""
        strides = (self.inputs * self.taps, self.taps)
        if self.transposed:
            strides = (self.taps, self.channels * self.taps)
        return {
            "groups": self.groups,
            "channels": self.channels,
            "inputs": self.inputs,
            "taps": self.taps,
            "block": block,
            "group_stride": self.channels * self.inputs * self.taps,
            "channel_stride": strides[0],
            "input_stride": strides[1],
        }


def pack_conv_transpose(
    weight: np.ndarray, tiles: Tiles, groups: int = 1, pairs: bool = False, phases: int = 1
) -> np.ndarray:
    """Pack weights ``[IC, OC / groups, *kernel]`` in the order of :func:`pack_conv`, optionally as
    bfloat16 pairs, with output channels for each of the ``phases`` of kernel columns."""
    weight = np.asarray(weight, np.float32)
    ins = weight.shape[0] // groups
    per_group = weight.reshape(groups, ins, weight.shape[1], -1, phases).transpose(0, 4, 2, 1, 3)
    turned = per_group.reshape(-1, ins, per_group.shape[4])
    return pack_conv(to_bf16_pairs(turned, 1) if pairs else turned, tiles, groups)


def pack_bias(bias: np.ndarray, tiles: Tiles, groups: int = 1) -> np.ndarray:
    """Zero-pad the bias of each group to whole blocks and flatten it."""
    bias = np.asarray(bias, np.float32).reshape(groups, -1)
    packed = np.zeros((groups, round_up(bias.shape[1], tiles.packed)), np.float32)
    packed[:, : bias.shape[1]] = bias
    return packed.reshape(-1)


def pack_matmul(b: np.ndarray, tiles: Tiles) -> np.ndarray:
    """Pack the right operand ``[..., K, N]`` to ``[...][block][K][tiles.packed]``, flat."""
    b = _packable(b)
    k, n = b.shape[-2:]
    count, unit, full = int(np.prod(b.shape[:-2])), tiles.packed, n // tiles.packed
    b = b.reshape(count, k, n)
    packed = np.zeros((count, ceil_div(n, unit), k, unit), b.dtype)
    full_panels = b[:, :, : full * unit].reshape(count, k, full, unit)
    packed[:, :full] = full_panels.transpose(0, 2, 1, 3)
    packed[:, full:, :, : n - full * unit] = b[:, None, :, full * unit :]
    return packed.reshape(-1)


@dataclass(frozen=True)
class PackedMatrix:
    """Matrix ``[K, N]`` in packed order: ``[block][K][packed]``, flat."""

    data: np.ndarray
    depth: int
    packed: int

    def column(self, n: str) -> str:
        """Return a C expression for the start of column ``n``; its elements are ``packed`` floats
        apart."""
        return f"{n} / {self.packed} * {self.depth * self.packed} + {n} % {self.packed}"


def pack_depthwise(weight: np.ndarray, lanes: int) -> np.ndarray:
    """Pack ``[C, 1, *kernel]`` to ``[C / lanes, rounded up][*kernel][lanes]``, flat."""
    weight = np.asarray(weight, np.float32)
    channels, taps = weight.shape[0], int(np.prod(weight.shape[2:]))
    packed = np.zeros((round_up(channels, lanes), taps), np.float32)
    packed[:channels] = weight.reshape(channels, taps)
    return np.ascontiguousarray(packed.reshape(-1, lanes, taps).transpose(0, 2, 1)).reshape(-1)


def pad_channels(values: np.ndarray, unit: int) -> np.ndarray:
    """Zero-pad one float per channel to a multiple of ``unit``."""
    values = np.asarray(values, np.float32).reshape(-1)
    return np.concatenate([values, np.zeros(-values.size % unit, np.float32)])
