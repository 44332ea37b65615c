"""Layers of the integer kernels by tiles of matrices: which ones, and how they read windows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvmrt.compiler.ir.extent import most, symbols_of
from tvmrt.compiler.ir.rounding import ceil_div

from ..geometry import ONES
from .geometry_i8 import LINE, NEAR_WEIGHTS, Layer, LayerI8
from .tiles_i8 import FORMATS, MATRIX_ROWS, round_run, row_cycles, words_at_once

COLOURS = 3  # channels of a picture
SMALL_IMAGE = 104 * 1024  # bytes that are read again for each block of weights
MANY_WEIGHTS = 128 * 1024  # bytes that are fetched ahead
# Bytes by which weights are fetched before they are multiplied. Memory takes twice the time for the
# last layers of a network that their products take, so that those in front fetch for them; a
# second-level cache of 2 MiB holds them beside a layer's tensors.
FETCHED_AHEAD = 256 * 1024
SECOND_LEVEL_CYCLES = 16.0  # in which a register of weights comes from the second-level cache
FIRST_CYCLES = 2000.0  # in which a task makes the registers ready, and gives them back
GATHERED_IMAGE = 256 * 1024  # bytes of all windows, beside which weights are many
MOST_GATHERED = 1024  # bytes of a window: those of a tile stay in the first-level cache
PLANE_BYTES = 96 * 1024
FEW_WEIGHTS = 64 * 1024  # bytes, which may lie in an order of their own


def suited(layer: Layer, gathers: bool = True, plane: bool = False) -> Layer:
    """A layer as it is computed fastest: by tiles of matrices, for which windows may be gathered or
    images copied where these are so, or by vectors."""
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
    """Whether windows can be gathered across rows: by the same packed weights that vectors read, or
    few of them."""
    taps = layer.window.taps * layer.in_c // layer.groups
    same = layer.plan.run % 4 == 0 and round_run(taps) == taps
    few = taps * layer.out_c <= FEW_WEIGHTS
    usual = _is_fixed(layer) and not layer.window.is_pixels
    small = taps <= MOST_GATHERED or _has_few_windows(layer)
    return usual and small and (same or few)


def _has_few_windows(layer: LayerI8) -> bool:
    """Whether all windows of a layer are far less than its weights, which are read once then."""
    taps = layer.window.taps * layer.in_c // layer.groups
    windows = most(layer.window.pixels) * taps
    return windows <= GATHERED_IMAGE and 4 * windows <= layer.weight_bytes


def _can_be_rounded(layer: LayerI8) -> bool:
    """Whether runs can be read to whole quads: in memory of the kernel's own, by few weights."""
    plan = layer.plan
    return _has_few_weights(layer) and plan.ring is not None and plan.run % 4 != 0


def _has_few_weights(layer: LayerI8) -> bool:
    """Whether they may lie in an order of their own."""
    few = layer.window.taps * layer.in_c // layer.groups * layer.out_c <= FEW_WEIGHTS
    return few and not layer.extra


def _can_be_pairs(layer: LayerI8) -> bool:
    """Whether windows begin every other row, and of two rows are no more than one product."""
    window = layer.window
    flat = window.flat and window.dilation[1:] == (1, 1) and window.stride[1] == 2
    dense = layer.groups == 1 and window.x_stride == layer.in_c and window.pad[2] >= 0
    least = 0 <= window.pad[1] and window.kernel[1] > 1
    usual = flat and dense and least and _has_few_weights(layer)
    known = layer.plan.ring is not None or _is_fixed(layer)  # the columns that a row of pairs has
    return usual and known and 2 * window.kernel[2] * layer.in_c <= LINE


def _can_be_plane(layer: LayerI8) -> bool:
    """Whether all windows of an image can lie at equal distances, in little memory."""
    window = layer.window
    dense = _is_fixed(layer) and layer.groups == 1 and layer.in_c % LINE == 0
    still = window.stride == ONES and window.dilation == ONES and window.pad[2] >= 0
    if not (dense and still and window.in_[0] == window.kernel[0] == 1 and window.kernel[2] > 1):
        return False
    return window.reach(1) * window.reach(2) * layer.in_c <= PLANE_BYTES


def looks_ahead(layer: LayerI8) -> bool:
    """Whether tiles of matrices pass over all pixels for each block of weights, of which the next
    one's are fetched meanwhile: those of layers with many of them, and a small image."""
    if not layer.fmt.matrices or layer.depthwise or layer.pixels or layer.at_once:
        return False
    image = layer.width * layer.plan.run if layer.flat else prod(layer.window.in_) * layer.in_c
    one = most(layer.rows) == 1 and layer.groups == 1
    small = most(image) <= SMALL_IMAGE or (layer.flat and _has_few_windows(layer))
    return one and small and layer.weight_bytes > MANY_WEIGHTS


def is_far(layer: LayerI8) -> bool:
    """Whether weights are too many for the first-level cache."""
    return layer.weight_bytes > NEAR_WEIGHTS


def bytes_ahead(layer: LayerI8) -> int:
    """By how many bytes tiles fetch weights before they are multiplied: past the layer's end those
    of the layers behind, which lie there in a library; not where a run has packed them."""
    if layer.shares:
        return FETCHED_AHEAD
    return layer.block * layer.channel_bytes if looks_ahead(layer) else 0


def members_of_matrices(layer: LayerI8) -> dict[str, object]:
    """The members of a layer's ``tvmrt_conv_i8`` for tiles of matrices."""
    if layer.depthwise or not layer.fmt.matrices:
        return {}
    return {
        "flat": int(layer.flat),
        "ahead": bytes_ahead(layer),
        "plane": layer.window.reach(2) if layer.plane else 0,
        "pairs": int(layer.pairs),
        "words": words_at_once(layer.plan.run),
        "end": "tvmrt_amx_i8_end",
    }


def cycles_of_gathering(layer: LayerI8) -> float:
    """Estimated cycles in which the windows of a row are copied."""
    window = layer.window
    copies = window.kernel[0] * window.kernel[1]
    return most(layer.width) * (10.0 + copies * 15.0 + layer.plan.run / 24)


def cycles_of_pairing(layer: LayerI8) -> float:
    """The same of two rows of input for each of the output, whose pixels come side by side: three
    channels by shuffles, others one by one. Tiles of so few products are finished beside the next
    one's, where they have whole vectors."""
    each = 0.25 if layer.in_c == COLOURS else 5.0
    whole = layer.out_c % layer.fmt.lanes == 0
    beside = 1.5 * layer.vectors * most(layer.width) if whole else 0.0
    return most(layer.rows) * (50.0 + each * 2 * most(layer.window.in_[2]) - beside)


def cycles_of_matrices(layer: LayerI8) -> float:
    """Estimated cycles of the layer, as they were measured on one processor: products of
    registers beside their loads, then sums that go through memory."""
    run, segments = layer.plan.run, layer.plan.segments
    words = words_at_once(run)
    steps = segments * (run // 4 // words)
    left = segments * (ceil_div(run, 4) - run // 4 // words * words) + len(layer.extra)
    at_hand = layer.block * layer.channel_bytes if looks_ahead(layer) else layer.weight_bytes
    load = SECOND_LEVEL_CYCLES if at_hand > NEAR_WEIGHTS else 0.0

    def tile(o: int, t: int) -> float:
        products = steps * o * (MATRIX_ROWS * ceil_div(t, MATRIX_ROWS) * 1.4 + load)
        return products + 60.0 + o * t * (1.5 + 0.6 * left) if o and t else 0.0

    return FIRST_CYCLES + most(layer.rows) * row_cycles(
        tile, layer.tiling, layer.vectors, most(layer.width)
    )


def cycles_of_vectors(layer: LayerI8) -> float:
    """The same by vectors, of which processors with matrices multiply nearly two in a cycle."""
    quads = layer.plan.segments * ceil_div(layer.plan.run, 4) + len(layer.extra)

    def tile(o: int, t: int) -> float:
        return quads * (max(0.57 * o * t, 0.5 * (o + t), 4.0) + 0.5) if o and t else 0.0

    return most(layer.rows) * row_cycles(tile, layer.tiling, layer.vectors, most(layer.width))
