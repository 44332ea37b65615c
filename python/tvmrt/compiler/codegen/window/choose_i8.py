"""Choice of an int8 layer's variant and tile on a target, by estimated cycles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import symbols_of, upper_bound

from ..geometry import ONES
from .layer_i8 import LINE, ConstantsI8, LayerI8, Overflow, Reading, VariantI8
from .tiles_i8 import (
    AMX_ROWS,
    FORMATS,
    WeightFormat,
    choose_tile,
    depthwise_widths,
    pad_im2col_segment,
    quads_per_instruction,
    row_cycles,
    tile_options,
)

L1_WEIGHT_BYTES = 24 * 1024  # bytes that fit into the L1 cache next to a tile's input
RGB_CHANNELS = 3  # channels of a picture
MAX_REREAD_IMAGE = 104 * 1024  # bytes that are read again for each block of weights
MIN_PREFETCHED_WEIGHTS = 128 * 1024  # bytes from which weights are prefetched
L2_LOAD_CYCLES = 16.0  # to load a weight register from the L2 cache
AMX_SETUP_CYCLES = 2000.0  # for a task to configure the tile registers and release them
MAX_IM2COL_BYTES = 256 * 1024  # bytes of all windows, compared with which weights are many
MAX_IM2COL_WINDOW = 1024  # bytes of a window: those of a tile stay in the L1 cache
MAX_PADDED_COPY_BYTES = 96 * 1024
MAX_REPACKED_BYTES = 64 * 1024  # bytes that may be packed in a separate order


@dataclass(frozen=True)
class ChoiceI8:
    """How a layer is computed on a target.

    Parameters
    ----------
    tile
        (nr, mr): vectors of channels and pixels of a tile; nr is 1 for depthwise tiles.
    order_nr
        Vectors in a block of packed weights.
    shifted
        Whether weights are shifted, which needs the sums of the windows.
    requantizes
        Whether the kernel requantises the sums, so that no epilogue takes them.
    """

    variant: VariantI8
    tile: tuple[int, int]
    order_nr: int
    shifted: bool = False
    requantizes: bool = True


def choose(variant: VariantI8, constants: ConstantsI8, scale: np.ndarray | None = None) -> ChoiceI8:
    """Choose how a variant is computed with its constants.

    ``scale``: multipliers of the sums, None if an epilogue takes the sums.
    """
    shifts = variant.shifts(constants)
    bias = constants.folded_bias(variant.offset, 0 if shifts is None else shifts)
    requantizes = scale is not None and accumulators_fit(bias, scale, variant.layer.window_bytes)
    final = variant
    if variant.reading.pads_quads and shifts is not None:  # window sums cover exactly a segment
        final = replace(variant, reading=Reading.ROWS)
    elif variant.reading is Reading.PADDED_COPY and not requantizes:
        final = replace(variant, reading=Reading.ROWS)
    return replace(with_tile(final), shifted=shifts is not None, requantizes=requantizes)


def with_tile(variant: VariantI8, tile: tuple[int, int] | None = None) -> ChoiceI8:
    """Return the choice of a variant with this tile, or with the estimated best one."""
    order = best_tile(variant.order) if variant.shares else None
    tile = tile or best_tile(variant, order)
    return ChoiceI8(variant, tile, (order or tile)[0])


def accumulators_fit(bias: np.ndarray, scale: np.ndarray, window_bytes: int) -> bool:
    """Return whether every possible sum times ``scale`` stays below 2 ** 31, as the tiles require.

    Any sensible scale satisfies this. Otherwise use an epilogue that clamps the product
    (``tvmrt_i8_rows_requantize``).
    """
    largest = window_bytes * 255 * 255 + np.abs(bias.astype(np.float64)).max()
    return bool(min(largest, 2.0**31) * np.abs(scale.astype(np.float64)).max() < 2.0**31)


# ---- weights that exceed int8 ----


def find_overflow(variant: VariantI8, constants: ConstantsI8, allow_quads: bool = True) -> Overflow:
    """Find the weights that exceed int8 minus their zero point, if they are few.

    Without ``allow_quads`` all weights of a dense layer are shifted instead.
    """
    layer, fmt = variant.layer, variant.fmt
    if fmt.wide or not (allow_quads or layer.depthwise):
        return Overflow()
    excess = constants.centred - np.clip(constants.centred, -128, 127)
    if not excess.any():
        return Overflow()
    exceeds_two_summands = excess > 127  # a weight of 255 needs at least three int8 summands
    if not layer.depthwise:
        masks = (excess != 0, exceeds_two_summands)
        quads = [quad for mask in masks for quad in _quads_containing(variant, mask)]
        max_quads = min(max(2, variant.segment_quads * variant.windows.segments // 8), 16)
        return Overflow(quads=variant.quad_offsets(quads if len(quads) <= max_quads else []))
    if not fmt.interleaves:
        return Overflow(parts=2)
    if exceeds_two_summands.any():
        return Overflow(parts=3)
    taps = excess.reshape(layer.out_c, *layer.depthwise_taps)
    rows = np.argwhere(taps.any(axis=(0, 2)))[:, 0]
    if len(rows) == 1 and layer.depthwise_taps[0] % 4:
        return Overflow(row=int(rows[0]))
    return Overflow(parts=2)


def _quads_containing(variant: VariantI8, chosen: np.ndarray) -> np.ndarray:
    """Return the quads that hold a chosen weight of any channel."""
    return np.flatnonzero(variant.quads_of(chosen.astype(np.int64)).any(axis=(0, 2)))


# ---- tiles ----


def best_tile(variant: VariantI8, order: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return the tile with the fewest estimated cycles; ``order``: that of the packing order."""
    if variant.layer.depthwise:
        return 1, _depthwise_widths(variant)[0]
    return choose_tile(*_tile_inputs(variant, order))


def available_tiles(variant: VariantI8) -> list[tuple[int, int]]:
    """Return the tiles that the kernels have for a variant, the estimate's first."""
    if variant.layer.depthwise:
        return [(1, width) for width in _depthwise_widths(variant)]
    return tile_options(*_tile_inputs(variant))


def _tile_inputs(
    variant: VariantI8, order: tuple[int, int] | None = None
) -> tuple[WeightFormat, int, int, int, bool]:
    """Return the arguments of :func:`choose_tile`."""
    fmt, unit = variant.fmt, 0
    if variant.shares and not fmt.uses_amx:
        wide = variant.order
        nr, _ = order or best_tile(wide)
        unit = gcd(nr, wide.vectors) * (wide.fmt.lanes // fmt.lanes)
    l1_resident = 4 * fmt.lanes * variant.channel_bytes <= L1_WEIGHT_BYTES
    return fmt, variant.vectors, upper_bound(variant.width), unit, l1_resident


def _depthwise_widths(variant: VariantI8) -> list[int]:
    layer = variant.layer
    return depthwise_widths(variant.fmt, layer.window, layer.depthwise_taps, variant.overflow.parts)


# ---- variants ----


def choose_variant(
    layer: LayerI8,
    fmt: WeightFormat,
    widest: WeightFormat | None = None,
    constants: ConstantsI8 | None = None,
    packed_by_run: bool = False,
    requantizes: bool = False,
) -> VariantI8:
    """Return the fastest variant of a layer: vectors or AMX tiles, which read windows in the best
    of the possible ways.

    ``constants``: None if the weights are computed; ``packed_by_run``: the run packs the weights;
    ``requantizes``: the kernel is to requantise the sums.
    """
    variant = VariantI8(layer, fmt, widest)
    if constants is not None:
        overflow = find_overflow(variant, constants, not packed_by_run)
        variant = replace(variant, overflow=overflow)
    if not fmt.uses_amx:
        return variant
    vectors = replace(variant, fmt=FORMATS[fmt.vector_format], widest=None)
    candidates = [(amx_cycles(variant), variant), (vector_cycles(vectors), vectors)]
    for reading in amx_readings(variant, not packed_by_run, requantizes):
        candidate = replace(variant, reading=reading)
        candidates.append((amx_cycles(candidate) + _READING_CYCLES[reading](candidate), candidate))
    return min(candidates, key=lambda each: each[0])[1]


def amx_readings(
    variant: VariantI8, allow_own_order: bool = True, allow_padded_copy: bool = False
) -> list[Reading]:
    """Return in which ways except ROWS AMX tiles can read the windows. ``allow_own_order``: im2col
    and an own order of the weights."""
    possible = {
        Reading.IM2COL_ROWS: allow_own_order and _can_use_im2col(variant),
        Reading.PADDED_QUADS: allow_own_order and _can_pad_segments(variant),
        Reading.ROW_PAIRS: allow_own_order and _can_pair_rows(variant),
        Reading.PADDED_COPY: allow_padded_copy and _can_copy_padded(variant),
    }
    return [reading for reading, is_possible in possible.items() if is_possible]


def _is_static(variant: VariantI8) -> bool:
    window = variant.layer.window
    return not symbols_of(window.batch, *window.in_, *window.out) and not variant.overflow.quads


def _can_use_im2col(variant: VariantI8) -> bool:
    """Return whether im2col across rows is possible: with the packing of vectors or few weights."""
    layer, taps = variant.layer, variant.layer.window_bytes
    same = variant.windows.segment % 4 == 0 and pad_im2col_segment(taps) == taps
    few = taps * layer.out_c <= MAX_REPACKED_BYTES
    usual = _is_static(variant) and not layer.window.is_identity_window
    small = taps <= MAX_IM2COL_WINDOW or _has_few_windows(variant)
    return usual and small and (same or few)


def _has_few_windows(variant: VariantI8) -> bool:
    """Return whether all windows are much smaller than the weights, which are then read once."""
    windows = upper_bound(variant.layer.window.pixels) * variant.layer.window_bytes
    return windows <= MAX_IM2COL_BYTES and 4 * windows <= variant.weight_bytes


def _can_pad_segments(variant: VariantI8) -> bool:
    """Return whether segments can be read to whole quads: in kernel memory, with few weights."""
    windows = variant.windows
    copied = windows.line_buffer is not None
    return _has_few_weights(variant) and copied and windows.segment % 4 != 0


def _has_few_weights(variant: VariantI8) -> bool:
    """Return whether weights may be packed in a separate order."""
    few = variant.layer.window_bytes * variant.layer.out_c <= MAX_REPACKED_BYTES
    return few and not variant.overflow.quads


def _can_pair_rows(variant: VariantI8) -> bool:
    """Return whether windows have a row stride of 2, and two kernel rows fit an AMX product."""
    layer, window = variant.layer, variant.layer.window
    flat = window.flat and window.dilation[1:] == (1, 1) and window.stride[1] == 2
    dense = layer.groups == 1 and window.x_stride == layer.in_c and window.pad[2] >= 0
    padded_left = 0 <= window.pad[1] and window.kernel[1] > 1
    usual = flat and dense and padded_left and _has_few_weights(variant)
    # the columns of a row pair
    is_static = variant.windows.line_buffer is not None or _is_static(variant)
    return usual and is_static and 2 * window.kernel[2] * layer.in_c <= LINE


def _can_copy_padded(variant: VariantI8) -> bool:
    """Return whether all windows of an image can be equidistant in little memory."""
    layer, window = variant.layer, variant.layer.window
    dense = _is_static(variant) and layer.groups == 1 and layer.in_c % LINE == 0
    dense_columns = window.stride == ONES and window.dilation == ONES and window.pad[2] >= 0
    flat = window.in_[0] == window.kernel[0] == 1 and window.kernel[2] > 1
    if not (dense and dense_columns and flat):
        return False
    return window.padded_extent(1) * window.padded_extent(2) * layer.in_c <= MAX_PADDED_COPY_BYTES


def prefetches_weights(variant: VariantI8) -> bool:
    """Return whether AMX tiles process all pixels per block of weights and prefetch the next one:
    for many weights and a small image."""
    layer = variant.layer
    if not variant.fmt.uses_amx or layer.depthwise:
        return False
    is_im2col, image = variant.reading is Reading.IM2COL_ROWS, prod(layer.window.in_) * layer.in_c
    if is_im2col:
        image = variant.width * variant.windows.segment
    one = upper_bound(variant.rows) == 1 and layer.groups == 1
    small = upper_bound(image) <= MAX_REREAD_IMAGE or (is_im2col and _has_few_windows(variant))
    return one and small and variant.weight_bytes > MIN_PREFETCHED_WEIGHTS


def _im2col_cycles(variant: VariantI8) -> float:
    """Estimate the cycles of im2col."""
    kernel = variant.layer.window.kernel
    copies = kernel[0] * kernel[1]
    return upper_bound(variant.width) * (10.0 + copies * 15.0 + variant.windows.segment / 24)


def _row_pair_cycles(variant: VariantI8) -> float:
    """Estimate the cycles of interleaving two input rows per output row: three channels by
    shuffles, others one by one. Tiles of few products finish during the next one, given whole
    vectors."""
    layer = variant.layer
    each = 0.25 if layer.in_c == RGB_CHANNELS else 5.0
    fills_lanes = layer.out_c % variant.fmt.lanes == 0
    overlapped = 1.5 * variant.vectors * upper_bound(variant.width) if fills_lanes else 0.0
    columns = upper_bound(layer.window.in_[2])
    return upper_bound(variant.rows) * (50.0 + each * 2 * columns - overlapped)


# Estimated cycles in addition to those of tiles.
_READING_CYCLES = {
    **dict.fromkeys((Reading.ROWS, Reading.PADDED_COPY, Reading.PADDED_QUADS), lambda _: 0.0),
    Reading.IM2COL_ROWS: _im2col_cycles,
    Reading.ROW_PAIRS: _row_pair_cycles,
}
if set(_READING_CYCLES) != set(Reading):
    raise TypeError("a member of Reading has no cycles in _READING_CYCLES")


def amx_cycles(variant: VariantI8) -> float:
    """Estimate the cycles of the layer, as measured on one processor: tile products overlap with
    loads, then accumulators pass through memory."""
    segment, segments = variant.windows.segment, variant.windows.segments
    instruction_quads = quads_per_instruction(segment)
    steps = segments * (segment // 4 // instruction_quads)
    tail_quads = segments * ceil_div(segment, 4) - steps * instruction_quads
    tail_quads += len(variant.overflow.quads)
    size = best_tile(variant)
    reused_bytes = variant.weight_bytes
    if prefetches_weights(variant):
        reused_bytes = size[0] * variant.fmt.lanes * variant.channel_bytes
    load = L2_LOAD_CYCLES if reused_bytes > L1_WEIGHT_BYTES else 0.0

    def tile(o: int, t: int) -> float:
        products = steps * o * (AMX_ROWS * ceil_div(t, AMX_ROWS) * 1.4 + load)
        return products + 60.0 + o * t * (1.5 + 0.6 * tail_quads) if o and t else 0.0

    cycles = row_cycles(tile, size, variant.vectors, upper_bound(variant.width))
    return AMX_SETUP_CYCLES + upper_bound(variant.rows) * cycles


def vector_cycles(variant: VariantI8) -> float:
    """Estimate the cycles with vectors; processors with AMX issue nearly two dot products per
    cycle."""
    windows = variant.windows
    quads = windows.segments * ceil_div(windows.segment, 4) + len(variant.overflow.quads)

    def tile(o: int, t: int) -> float:
        return quads * (max(0.57 * o * t, 0.5 * (o + t), 4.0) + 0.5) if o and t else 0.0

    cycles = row_cycles(tile, best_tile(variant), variant.vectors, upper_bound(variant.width))
    return upper_bound(variant.rows) * cycles
