"""Selection of int8 layers for AMX tiles, and how they read windows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvmrt.compiler.ir.extent import symbols_of, upper_bound
from tvmrt.compiler.ir.rounding import ceil_div

from ..geometry import ONES
from .geometry_i8 import LINE, NEAR_WEIGHTS, Layer, LayerI8
from .tiles_i8 import FORMATS, MATRIX_ROWS, round_run, row_cycles, words_at_once

COLOURS = 3  # channels of a picture
SMALL_IMAGE = 104 * 1024  # bytes that are read again for each block of weights
MANY_WEIGHTS = 128 * 1024  # bytes from which weights are prefetched
# Prefetch distance of weights in bytes. The last layers of a network take twice as long for memory
# as for arithmetic, so earlier layers prefetch for them. An L2 cache of 2 MiB holds these weights
# next to a layer's tensors.
FETCHED_AHEAD = 256 * 1024
SECOND_LEVEL_CYCLES = 16.0  # to load a weight register from the L2 cache
FIRST_CYCLES = 2000.0  # for a task to configure the tile registers and release them
GATHERED_IMAGE = 256 * 1024  # bytes of all windows, compared with which weights are many
MOST_GATHERED = 1024  # bytes of a window: those of a tile stay in the L1 cache
PLANE_BYTES = 96 * 1024
FEW_WEIGHTS = 64 * 1024  # bytes that may be packed in a separate order


def suited(layer: Layer, gathers: bool = True, plane: bool = False) -> Layer:
    """Return the fastest variant of a layer: vectors or AMX tiles, with im2col or image copies if
    allowed."""
    if not layer.fmt.matrices:
        return layer
    by_vectors = replace(layer, fmt=FORMATS[layer.fmt.by_vectors], widest=None)
    costs = {layer: cycles_of_matrices(layer), by_vectors: cycles_of_vectors(by_vectors)}
    if gathers and _can_be_flat(layer):
        flat = replace(layer, flat=True)
        costs[flat] = cycles_of_matrices(flat) + cycles_of_gathering(flat)
    if gathers and _can_be_rounded(layer):
        rounded = replace(layer, rounded=True)
        costs[rounded] = cycles_of_matrices(rounded)
    if gathers and _can_be_pairs(layer):
        pairs = replace(layer, rounded=True, pairs=True)
        costs[pairs] = cycles_of_matrices(pairs) + cycles_of_pairing(pairs)
    if plane and _can_be_plane(layer):
        copied = replace(layer, plane=True)
        costs[copied] = cycles_of_matrices(copied)
    return min(costs, key=costs.__getitem__)


def _is_fixed(layer: LayerI8) -> bool:
    window = layer.window
    return not symbols_of(window.batch, *window.in_, *window.out) and not layer.extra


def _can_be_flat(layer: LayerI8) -> bool:
    """Return whether im2col across rows is possible: with the packing of vectors or few weights."""
    taps = layer.window.taps * layer.in_c // layer.groups
    same = layer.plan.run % 4 == 0 and round_run(taps) == taps
    few = taps * layer.out_c <= FEW_WEIGHTS
    usual = _is_fixed(layer) and not layer.window.is_pixels
    small = taps <= MOST_GATHERED or _has_few_windows(layer)
    return usual and small and (same or few)


def _has_few_windows(layer: LayerI8) -> bool:
    """Return whether all windows are much smaller than the weights, which are then read once."""
    taps = layer.window.taps * layer.in_c // layer.groups
    windows = upper_bound(layer.window.pixels) * taps
    return windows <= GATHERED_IMAGE and 4 * windows <= layer.weight_bytes


def _can_be_rounded(layer: LayerI8) -> bool:
    """Return whether runs can be read to whole quads: in kernel memory, with few weights."""
    plan = layer.plan
    return _has_few_weights(layer) and plan.ring is not None and plan.run % 4 != 0


def _has_few_weights(layer: LayerI8) -> bool:
    """Return whether weights may be packed in a separate order."""
    few = layer.window.taps * layer.in_c // layer.groups * layer.out_c <= FEW_WEIGHTS
    return few and not layer.extra


def _can_be_pairs(layer: LayerI8) -> bool:
    """Return whether windows have a row stride of 2, and two kernel rows fit an AMX product."""
    window = layer.window
    flat = window.flat and window.dilation[1:] == (1, 1) and window.stride[1] == 2
    dense = layer.groups == 1 and window.x_stride == layer.in_c and window.pad[2] >= 0
    least = 0 <= window.pad[1] and window.kernel[1] > 1
    usual = flat and dense and least and _has_few_weights(layer)
    known = layer.plan.ring is not None or _is_fixed(layer)  # the columns of a row pair
    return usual and known and 2 * window.kernel[2] * layer.in_c <= LINE


def _can_be_plane(layer: LayerI8) -> bool:
    """Return whether all windows of an image can be equidistant in little memory."""
    window = layer.window
    dense = _is_fixed(layer) and layer.groups == 1 and layer.in_c % LINE == 0
    still = window.stride == ONES and window.dilation == ONES and window.pad[2] >= 0
    if not (dense and still and window.in_[0] == window.kernel[0] == 1 and window.kernel[2] > 1):
        return False
    return window.reach(1) * window.reach(2) * layer.in_c <= PLANE_BYTES


def looks_ahead(layer: LayerI8) -> bool:
    """Return whether AMX tiles process all pixels per block of weights and prefetch the next one:
    for many weights and a small image."""
    if not layer.fmt.matrices or layer.depthwise or layer.pixels or layer.at_once:
        return False
    image = layer.width * layer.plan.run if layer.flat else prod(layer.window.in_) * layer.in_c
    one = upper_bound(layer.rows) == 1 and layer.groups == 1
    small = upper_bound(image) <= SMALL_IMAGE or (layer.flat and _has_few_windows(layer))
    return one and small and layer.weight_bytes > MANY_WEIGHTS


def is_far(layer: LayerI8) -> bool:
    """Return whether weights exceed the L1 cache."""
    return layer.weight_bytes > NEAR_WEIGHTS


def bytes_ahead(layer: LayerI8) -> int:
    """Return the prefetch distance of weights in bytes. At the layer's end, tiles prefetch the next
    layers' weights from the library, unless a run has packed them."""
    if layer.shares:
        return FETCHED_AHEAD
    return layer.block * layer.channel_bytes if looks_ahead(layer) else 0


def members_of_matrices(layer: LayerI8) -> dict[str, object]:
    """Return the members of a layer's ``tvmrt_conv_i8`` for AMX tiles."""
    if layer.depthwise or not layer.fmt.matrices:
        return {}
    return {
        "im2col_across_rows": int(layer.flat),
        "ahead": bytes_ahead(layer),
        "padded_pitch": layer.window.reach(2) if layer.plane else 0,
        "pairs": int(layer.pairs),
        "words": words_at_once(layer.plan.run),
        "end": "tvmrt_amx_i8_end",
    }


def cycles_of_gathering(layer: LayerI8) -> float:
    """Estimate the cycles of im2col for a row."""
    window = layer.window
    copies = window.kernel[0] * window.kernel[1]
    return upper_bound(layer.width) * (10.0 + copies * 15.0 + layer.plan.run / 24)


def cycles_of_pairing(layer: LayerI8) -> float:
    """Estimate the cycles of interleaving two input rows per output row: three channels by
    shuffles, others one by one. Tiles of few products finish during the next one, given whole
    vectors."""
    each = 0.25 if layer.in_c == COLOURS else 5.0
    whole = layer.out_c % layer.fmt.lanes == 0
    beside = 1.5 * layer.vectors * upper_bound(layer.width) if whole else 0.0
    return upper_bound(layer.rows) * (50.0 + each * 2 * upper_bound(layer.window.in_[2]) - beside)


def cycles_of_matrices(layer: LayerI8) -> float:
    """Estimate the cycles of the layer, as measured on one processor: tile products overlap with
    loads, then accumulators pass through memory."""
    run, segments = layer.plan.run, layer.plan.segments
    words = words_at_once(run)
    steps = segments * (run // 4 // words)
    left = segments * (ceil_div(run, 4) - run // 4 // words * words) + len(layer.extra)
    at_hand = layer.block * layer.channel_bytes if looks_ahead(layer) else layer.weight_bytes
    load = SECOND_LEVEL_CYCLES if at_hand > NEAR_WEIGHTS else 0.0

    def tile(o: int, t: int) -> float:
        products = steps * o * (MATRIX_ROWS * ceil_div(t, MATRIX_ROWS) * 1.4 + load)
        return products + 60.0 + o * t * (1.5 + 0.6 * left) if o and t else 0.0

    return FIRST_CYCLES + upper_bound(layer.rows) * row_cycles(
        tile, layer.tiling, layer.vectors, upper_bound(layer.width)
    )


def cycles_of_vectors(layer: LayerI8) -> float:
    """Estimate the cycles with vectors; processors with AMX issue nearly two dot products per
    cycle."""
    quads = layer.plan.segments * ceil_div(layer.plan.run, 4) + len(layer.extra)

    def tile(o: int, t: int) -> float:
        return quads * (max(0.57 * o * t, 0.5 * (o + t), 4.0) + 0.5) if o and t else 0.0

    return upper_bound(layer.rows) * row_cycles(
        tile, layer.tiling, layer.vectors, upper_bound(layer.width)
    )
