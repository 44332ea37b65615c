"""Selection of int8 layers for AMX tiles, and how they read windows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvmrt.compiler.ir.extent import symbols_of, upper_bound
from tvmrt.compiler.ir.rounding import ceil_div

from ..geometry import ONES
from .geometry_i8 import L1_WEIGHT_BYTES, LINE, Layer, LayerI8
from .tiles_i8 import AMX_ROWS, FORMATS, pad_im2col_segment, quads_per_instruction, row_cycles

RGB_CHANNELS = 3  # channels of a picture
MAX_REREAD_IMAGE = 104 * 1024  # bytes that are read again for each block of weights
MIN_PREFETCHED_WEIGHTS = 128 * 1024  # bytes from which weights are prefetched
# Prefetch distance of weights in bytes. The last layers of a network take twice as long for memory
# as for arithmetic, so earlier layers prefetch for them. An L2 cache of 2 MiB holds these weights
# next to a layer's tensors.
PREFETCH_BYTES = 256 * 1024
L2_LOAD_CYCLES = 16.0  # to load a weight register from the L2 cache
AMX_SETUP_CYCLES = 2000.0  # for a task to configure the tile registers and release them
MAX_IM2COL_BYTES = 256 * 1024  # bytes of all windows, compared with which weights are many
MAX_IM2COL_WINDOW = 1024  # bytes of a window: those of a tile stay in the L1 cache
MAX_PADDED_COPY_BYTES = 96 * 1024
MAX_REPACKED_BYTES = 64 * 1024  # bytes that may be packed in a separate order


def choose_variant(
    layer: Layer, allow_im2col: bool = True, allow_padded_copy: bool = False
) -> Layer:
    """Return the fastest variant of a layer: vectors or AMX tiles, with im2col or image copies if
    allowed."""
    if not layer.fmt.uses_amx:
        return layer
    vector_layer = replace(layer, fmt=FORMATS[layer.fmt.vector_format], widest=None)
    costs = {layer: amx_cycles(layer), vector_layer: vector_cycles(vector_layer)}
    if allow_im2col and _can_use_im2col(layer):
        im2col = replace(layer, im2col_rows=True)
        costs[im2col] = amx_cycles(im2col) + im2col_cycles(im2col)
    if allow_im2col and _can_pad_segments(layer):
        quad_padded = replace(layer, quad_padded=True)
        costs[quad_padded] = amx_cycles(quad_padded)
    if allow_im2col and _can_pair_rows(layer):
        row_pairs = replace(layer, quad_padded=True, row_pairs=True)
        costs[row_pairs] = amx_cycles(row_pairs) + row_pair_cycles(row_pairs)
    if allow_padded_copy and _can_copy_padded(layer):
        copied = replace(layer, padded_copy=True)
        costs[copied] = amx_cycles(copied)
    return min(costs, key=costs.__getitem__)


def _is_static(layer: LayerI8) -> bool:
    window = layer.window
    return not symbols_of(window.batch, *window.in_, *window.out) and not layer.overflow_quads


def _can_use_im2col(layer: LayerI8) -> bool:
    """Return whether im2col across rows is possible: with the packing of vectors or few weights."""
    taps = layer.window.taps * layer.in_c // layer.groups
    same = layer.plan.segment % 4 == 0 and pad_im2col_segment(taps) == taps
    few = taps * layer.out_c <= MAX_REPACKED_BYTES
    usual = _is_static(layer) and not layer.window.is_identity_window
    small = taps <= MAX_IM2COL_WINDOW or _has_few_windows(layer)
    return usual and small and (same or few)


def _has_few_windows(layer: LayerI8) -> bool:
    """Return whether all windows are much smaller than the weights, which are then read once."""
    taps = layer.window.taps * layer.in_c // layer.groups
    windows = upper_bound(layer.window.pixels) * taps
    return windows <= MAX_IM2COL_BYTES and 4 * windows <= layer.weight_bytes


def _can_pad_segments(layer: LayerI8) -> bool:
    """Return whether runs can be read to whole quads: in kernel memory, with few weights."""
    plan = layer.plan
    return _has_few_weights(layer) and plan.line_buffer is not None and plan.segment % 4 != 0


def _has_few_weights(layer: LayerI8) -> bool:
    """Return whether weights may be packed in a separate order."""
    few = layer.window.taps * layer.in_c // layer.groups * layer.out_c <= MAX_REPACKED_BYTES
    return few and not layer.overflow_quads


def _can_pair_rows(layer: LayerI8) -> bool:
    """Return whether windows have a row stride of 2, and two kernel rows fit an AMX product."""
    window = layer.window
    flat = window.flat and window.dilation[1:] == (1, 1) and window.stride[1] == 2
    dense = layer.groups == 1 and window.x_stride == layer.in_c and window.pad[2] >= 0
    padded_left = 0 <= window.pad[1] and window.kernel[1] > 1
    usual = flat and dense and padded_left and _has_few_weights(layer)
    is_static = layer.plan.line_buffer is not None or _is_static(layer)  # the columns of a row pair
    return usual and is_static and 2 * window.kernel[2] * layer.in_c <= LINE


def _can_copy_padded(layer: LayerI8) -> bool:
    """Return whether all windows of an image can be equidistant in little memory."""
    window = layer.window
    dense = _is_static(layer) and layer.groups == 1 and layer.in_c % LINE == 0
    dense_columns = window.stride == ONES and window.dilation == ONES and window.pad[2] >= 0
    if not (
        dense and dense_columns and window.in_[0] == window.kernel[0] == 1 and window.kernel[2] > 1
    ):
        return False
    return window.padded_extent(1) * window.padded_extent(2) * layer.in_c <= MAX_PADDED_COPY_BYTES


def prefetches_weights(layer: LayerI8) -> bool:
    """Return whether AMX tiles process all pixels per block of weights and prefetch the next one:
    for many weights and a small image."""
    if not layer.fmt.uses_amx or layer.depthwise or layer.pixels or layer.at_once:
        return False
    image = (
        layer.width * layer.plan.segment
        if layer.im2col_rows
        else prod(layer.window.in_) * layer.in_c
    )
    one = upper_bound(layer.rows) == 1 and layer.groups == 1
    small = upper_bound(image) <= MAX_REREAD_IMAGE or (
        layer.im2col_rows and _has_few_windows(layer)
    )
    return one and small and layer.weight_bytes > MIN_PREFETCHED_WEIGHTS


def exceeds_l1(layer: LayerI8) -> bool:
    """Return whether weights exceed the L1 cache."""
    return layer.weight_bytes > L1_WEIGHT_BYTES


def prefetch_distance(layer: LayerI8) -> int:
    """Return the prefetch distance of weights in bytes. At the layer's end, tiles prefetch the next
    layers' weights from the library, unless a run has packed them."""
    if layer.shares:
        return PREFETCH_BYTES
    return layer.block * layer.channel_bytes if prefetches_weights(layer) else 0


def amx_members(layer: LayerI8) -> dict[str, object]:
    """Return the members of a layer's ``tvmrt_conv_i8`` for AMX tiles."""
    if layer.depthwise or not layer.fmt.uses_amx:
        return {}
    return {
        "im2col_across_rows": int(layer.im2col_rows),
        "ahead": prefetch_distance(layer),
        "padded_pitch": layer.window.padded_extent(2) if layer.padded_copy else 0,
        "pairs": int(layer.row_pairs),
        "words": quads_per_instruction(layer.plan.segment),
        "end": "tvmrt_amx_i8_end",
    }


def im2col_cycles(layer: LayerI8) -> float:
    """Estimate the cycles of im2col for a row."""
    window = layer.window
    copies = window.kernel[0] * window.kernel[1]
    return upper_bound(layer.width) * (10.0 + copies * 15.0 + layer.plan.segment / 24)


def row_pair_cycles(layer: LayerI8) -> float:
    """Estimate the cycles of interleaving two input rows per output row: three channels by
    shuffles, others one by one. Tiles of few products finish during the next one, given whole
    vectors."""
    each = 0.25 if layer.in_c == RGB_CHANNELS else 5.0
    fills_lanes = layer.out_c % layer.fmt.lanes == 0
    overlapped = 1.5 * layer.vectors * upper_bound(layer.width) if fills_lanes else 0.0
    return upper_bound(layer.rows) * (
        50.0 + each * 2 * upper_bound(layer.window.in_[2]) - overlapped
    )


def amx_cycles(layer: LayerI8) -> float:
    """Estimate the cycles of the layer, as measured on one processor: tile products overlap with
    loads, then accumulators pass through memory."""
    segment, segments = layer.plan.segment, layer.plan.segments
    instruction_quads = quads_per_instruction(segment)
    steps = segments * (segment // 4 // instruction_quads)
    tail_quads = segments * (
        ceil_div(segment, 4) - segment // 4 // instruction_quads * instruction_quads
    ) + len(layer.overflow_quads)
    reused_bytes = (
        layer.block * layer.channel_bytes if prefetches_weights(layer) else layer.weight_bytes
    )
    load = L2_LOAD_CYCLES if reused_bytes > L1_WEIGHT_BYTES else 0.0

    def tile(o: int, t: int) -> float:
        products = steps * o * (AMX_ROWS * ceil_div(t, AMX_ROWS) * 1.4 + load)
        return products + 60.0 + o * t * (1.5 + 0.6 * tail_quads) if o and t else 0.0

    return AMX_SETUP_CYCLES + upper_bound(layer.rows) * row_cycles(
        tile, layer.tiling, layer.vectors, upper_bound(layer.width)
    )


def vector_cycles(layer: LayerI8) -> float:
    """Estimate the cycles with vectors; processors with AMX issue nearly two dot products per
    cycle."""
    quads = layer.plan.segments * ceil_div(layer.plan.segment, 4) + len(layer.overflow_quads)

    def tile(o: int, t: int) -> float:
        return quads * (max(0.57 * o * t, 0.5 * (o + t), 4.0) + 0.5) if o and t else 0.0

    return upper_bound(layer.rows) * row_cycles(
        tile, layer.tiling, layer.vectors, upper_bound(layer.width)
    )
