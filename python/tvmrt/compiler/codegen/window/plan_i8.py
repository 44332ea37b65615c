"""Plans of int8 layers: every number that packing and printing use, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import Extent, SymInt, upper_bound

from .choose_i8 import L1_WEIGHT_BYTES, ChoiceI8, prefetches_weights
from .layer_i8 import LINE, LayerI8, Reading, VariantI8
from .tiles_i8 import quads_per_instruction

# Bytes of input or int32 accumulators that a sweep over the channels reuses from the L1 cache.
CHUNK_BYTES = 16 * 1024
# Bytes of packed weights that stay in the L2 cache while the image streams past.
WEIGHTS_IN_CACHE = 512 * 1024
CHUNK_MULTIPLE = 4  # chunks of a one-row layer are a multiple of it, for equal thread loads
MAX_CHUNKS = 32  # enough to balance over any number of threads
STACK_BYTES = 64  # of scratch that are on the stack of a task: a few segments
# Prefetch distance of weights in bytes. The last layers of a network take twice as long for memory
# as for arithmetic, so earlier layers prefetch for them. An L2 cache of 2 MiB holds these weights
# next to a layer's tensors.
PREFETCH_BYTES = 256 * 1024


@dataclass(frozen=True)
class ScratchI8:
    """Scratch layout of one task: offsets of the parts, total bytes.

    Parts: segments, line buffer, a row of padding, im2col windows, window sums, int32 accumulators.
    """

    rows: int
    padding_row: int
    im2col_buffer: int
    sums: int
    acc: int
    total: int


@dataclass(frozen=True)
class AmxPlan:
    """Plan for AMX tiles; ``tvmrt_conv_i8_amx`` in C. ``exceeds_l1``: the weights exceed the L1
    cache."""

    im2col_across_rows: bool
    prefetch_bytes: int
    padded_pitch: int
    row_pairs: bool
    words: int
    exceeds_l1: bool


@dataclass(frozen=True)
class PlanI8:
    """A layer as ``kernels/conv_i8.h`` computes it; ``tvmrt_conv_i8`` in C describes the fields.

    Parameters
    ----------
    tile, order_nr, shifted, requantizes
        See :class:`ChoiceI8`.
    tile_sizes
        Sizes of the four tile functions, with a 0 for unused tiles: (nr, mr), or (channels, mr) for
        depthwise tiles.
    tail
        Pixels of a tail tile of a row; 1 if the tail is known only at run time.
    residual_type
        Type of the residual that dense tiles add, ``u8`` or ``s8``; for AMX also ``u8_fused`` or
        ``s8_fused`` (:mod:`.fused_requant_add`); else empty.
    rounding
        Rounding of requantisation by fixed-point multipliers (``TVMRT_ROUND_*`` of
        ``tile/simd_i8.h``); empty for float scales.
    """

    variant: VariantI8
    tile: tuple[int, int]
    tile_sizes: tuple[tuple[tuple[int, int], ...], ...]
    order_nr: int
    groups: int
    out_c: int
    padded: int
    block: int
    blocks: int
    full_blocks: int
    blocks_at_once: int
    tail: int
    chunk: int
    chunks: SymInt
    scratch: ScratchI8
    work: SymInt
    by_blocks: bool
    shifted: bool
    requantizes: bool
    residual_type: str
    amx: AmxPlan | None
    rounding: str = ""

    @property
    def layer(self) -> LayerI8:
        return self.variant.layer


def make_plan(choice: ChoiceI8, residual_type: str = "", rounding: str = "") -> PlanI8:
    """Compute the plan of a layer."""
    variant, (nr, mr) = choice.variant, choice.tile
    layer, fmt = variant.layer, variant.fmt
    groups = 1 if layer.depthwise else layer.groups
    out_c, padded = layer.out_c // groups, variant.padded
    block = variant.depthwise_block if layer.depthwise else nr * fmt.lanes
    all_blocks = ceil_div(padded, block)
    blocks, full_blocks = all_blocks, (out_c if layer.depthwise else padded) // block
    if variant.shares and not fmt.uses_amx:
        blocks = full_blocks = ceil_div(out_c, block)
    prefetches = prefetches_weights(variant)
    in_cache = max(1, WEIGHTS_IN_CACHE // (variant.channel_bytes * block))
    chunk = _chunk(choice, prefetches)
    tail = variant.width % mr
    tail = 1 if isinstance(tail, Extent) else tail
    return PlanI8(
        variant, choice.tile, _tile_sizes(choice, tail), choice.order_nr, groups, out_c, padded,
        block, blocks, full_blocks,
        blocks_at_once=all_blocks if prefetches else in_cache,
        tail=tail,
        chunk=chunk,
        chunks=ceil_div(variant.width, chunk),
        scratch=_scratch(choice, chunk),
        work=_work(choice),
        by_blocks=_divides_blocks(choice, groups * all_blocks),
        shifted=choice.shifted,
        requantizes=choice.requantizes,
        residual_type=residual_type,
        amx=_amx_plan(variant, block, prefetches),
        rounding=rounding,
    )  # fmt: skip


def _amx_plan(variant: VariantI8, block: int, prefetches: bool) -> AmxPlan | None:
    layer = variant.layer
    if layer.depthwise or not variant.fmt.uses_amx:
        return None
    # at the layer's end, tiles prefetch the next layers' weights from the library, unless a run
    # has packed them
    own_bytes = block * variant.channel_bytes if prefetches else 0
    is_padded_copy = variant.reading is Reading.PADDED_COPY
    return AmxPlan(
        im2col_across_rows=variant.reading is Reading.IM2COL_ROWS,
        prefetch_bytes=PREFETCH_BYTES if variant.shares else own_bytes,
        padded_pitch=layer.window.padded_extent(2) if is_padded_copy else 0,
        row_pairs=variant.reading.pairs_rows,
        words=quads_per_instruction(variant.windows.segment),
        exceeds_l1=variant.weight_bytes > L1_WEIGHT_BYTES,
    )


def _tile_sizes(choice: ChoiceI8, tail: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    variant, (nr, mr) = choice.variant, choice.tile
    vectors, is_shared = variant.vectors, variant.shares and not variant.fmt.uses_amx
    blocks = (nr if vectors >= nr else 0, 0 if is_shared else vectors % nr)
    if variant.layer.depthwise:
        block, out_c = variant.depthwise_block, variant.layer.out_c
        blocks = (block if out_c >= block else 0, out_c % block)
    widths = (mr if upper_bound(variant.width) >= mr else 0, tail)
    return tuple(tuple((block, width) for width in widths) for block in blocks)


def _scratch(choice: ChoiceI8, chunk: int) -> ScratchI8:
    """Return the layout of the scratch that a task requests from ``TVMBackendAllocWorkspace``."""
    variant = choice.variant
    plan, window, line = variant.windows, variant.layer.window, LINE * variant.reading.pads_quads
    rows = round_up((plan.segments + (variant.overflow.row >= 0)) * 8, LINE)
    padding_row = plan.scratch_offsets(rows)[2] + line if plan.line_buffer else rows
    outside = not plan.im2col and (
        window.overlaps_padding(0) or window.overlaps_padding(1) or variant.reading.pairs_rows
    )
    row = plan.pitch if plan.line_buffer else window.in_[2] * window.x_stride
    im2col_buffer = padding_row + (round_up(row, LINE) + line if outside else 0)
    sums = im2col_buffer + (round_up(chunk * plan.segment, LINE) if plan.im2col else 0)
    acc = sums + (round_up(chunk * 4, LINE) if choice.shifted else 0)
    total = acc + (0 if choice.requantizes else chunk * _acc_bytes(variant))
    total = 0 if upper_bound(total) <= STACK_BYTES else total
    return ScratchI8(rows, padding_row, im2col_buffer, sums, acc, total)


def _acc_bytes(variant: VariantI8) -> int:
    """Return the bytes of the int32 accumulators of a pixel."""
    return 4 * variant.padded * (1 if variant.layer.depthwise else variant.layer.groups)


def _chunk(choice: ChoiceI8, prefetches: bool) -> int:
    """Return the pixels that the kernel finishes for all channels before it continues."""
    variant, mr = choice.variant, choice.tile[1]
    layer, plan, pixels = variant.layer, variant.windows, upper_bound(variant.width)
    if prefetches:
        return pixels
    if pixels == 0:  # of an empty tensor
        return mr
    kernel, stride = layer.window.kernel, layer.window.stride
    pixel_bytes = kernel[0] * kernel[1] * stride[2] * layer.in_c
    pixel_bytes = 1 if layer.depthwise else plan.segment if plan.im2col else pixel_bytes
    if not choice.requantizes:
        pixel_bytes = max(pixel_bytes, _acc_bytes(variant))
    min_chunk = mr if variant.fmt.uses_amx else 2 * mr
    chunk = min(max(CHUNK_BYTES // pixel_bytes // mr * mr, min_chunk), pixels)
    chunks = ceil_div(pixels, chunk)
    if layer.threads == 1 or upper_bound(variant.rows) > 1 or chunks >= MAX_CHUNKS:
        return chunk
    return min(round_up(ceil_div(pixels, round_up(chunks, CHUNK_MULTIPLE)), mr), chunk)


def _work(choice: ChoiceI8) -> SymInt:
    """Return the work of the layer in float multiply-adds."""
    layer, fmt = choice.variant.layer, choice.variant.fmt
    macs = layer.window.pixels * layer.out_c * layer.window_bytes
    return fmt.float_macs(macs, layer.groups > 1)


def _divides_blocks(choice: ChoiceI8, blocks: int) -> bool:
    """Return whether threads divide the blocks of channels instead of the pixels.

    Each thread reads the undivided operand completely, so that should be the smaller one.
    """
    variant, mr = choice.variant, choice.tile[1]
    layer, width = variant.layer, upper_bound(variant.width)
    few_rows = upper_bound(variant.rows) < 4 and width < 16 * mr
    image = upper_bound(layer.window.batch * prod(layer.window.in_)) * layer.in_c
    return blocks >= 4 and (layer.window_bytes * layer.out_c > image or few_rows)
