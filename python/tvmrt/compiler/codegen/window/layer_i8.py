"""Int8 layers (``kernels/conv_i8.h``): requirements of their weights, and C text.

Describe a convolution or a matmul by :class:`ConvI8`, ``fit`` it to its weights, print its
``definitions()`` once per file and its ``initializer()`` once per layer. ``tiles_i8`` has the
tiles, ``geometry_i8`` the geometry, ``amx`` the selection of AMX; ``packing_i8`` packs the
weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from tvmrt.compiler.ir.extent import Extent, upper_bound
from tvmrt.compiler.ir.rounding import ceil_div, round_up

from ..c.formatting import braces, initializer, wrap
from .amx import amx_members, exceeds_l1, prefetches_weights
from .dot4_packing import split_into_quads, split_into_segments, weights_minus_zero_point
from .geometry_i8 import LINE, LayerI8
from .layer_f32 import parallel_work

# Bytes of input or int32 accumulators that a sweep over the channels reuses from the L1 cache.
CHUNK_BYTES = 16 * 1024
# Bytes of packed weights that stay in the L2 cache while the image streams past.
WEIGHTS_IN_CACHE = 512 * 1024
CHUNK_MULTIPLE = 4  # chunks of a one-row layer are a multiple of it, for equal thread loads
MAX_CHUNKS = 32  # enough to balance over any number of threads
STACK_BYTES = 64  # of scratch that are on the stack of a task: a few segments


@dataclass(frozen=True)
class ConvI8(LayerI8):
    """A layer that can be fitted to its weights and printed; ``tvmrt_conv_i8`` in C."""

    def fit(
        self, weights: np.ndarray, w_zero: np.ndarray | int = 0, allow_overflow_quads: bool = True
    ) -> ConvI8:
        """Return this layer in long rows, prepared for weights that exceed int8 minus their zero
        point.

        Call it before anything is printed or packed. Without ``allow_overflow_quads`` all weights
        of a dense layer are shifted instead.
        """
        layer = replace(self, window=self.window.in_longest_rows())
        if layer.fmt.wide or not (allow_overflow_quads or layer.depthwise):
            return layer
        return layer._with_overflow_groups(weights_minus_zero_point(layer, weights, w_zero))

    def _with_overflow_groups(self, centred: np.ndarray) -> ConvI8:
        """Return this layer with overflow quads, parts or a spare row for weights beyond int8."""
        excess = centred - np.clip(centred, -128, 127)
        if not excess.any():
            return self
        exceeds_two_summands = excess > 127  # a weight of 255 needs at least three int8 summands
        if not self.depthwise:
            overflow_quads = [
                *self._quads_containing(excess != 0),
                *self._quads_containing(exceeds_two_summands),
            ]
            max_quads = min(max(2, self.segment_quads * self.plan.segments // 8), 16)
            return (
                replace(self, overflow_quads=self.quad_offsets(overflow_quads))
                if len(overflow_quads) <= max_quads
                else self
            )
        if not self.fmt.interleaves:
            return replace(self, parts=2)
        if exceeds_two_summands.any():
            return replace(self, parts=3)
        rows = np.argwhere(excess.reshape(self.out_c, *self.depthwise_taps).any(axis=(0, 2)))[:, 0]
        if len(rows) == 1 and self.depthwise_taps[0] % 4:
            return replace(self, overflow_row=int(rows[0]))
        return replace(self, parts=2)

    def _quads_containing(self, chosen: np.ndarray) -> np.ndarray:
        """Return the quads that hold a chosen weight of any channel."""
        quads = split_into_quads(
            split_into_segments(self, chosen.astype(np.int64)), self.plan.im2col
        )
        return np.flatnonzero(quads.any(axis=(0, 2)))

    def quad_offsets(self, quads: np.ndarray | list) -> tuple[tuple[int, int], ...]:
        """Return (segment, first byte) of quads that are numbered over all segments."""
        per_run = self.segment_quads
        last = max(0, self.plan.segment - 4)
        return tuple((int(q) // per_run, min(int(q) % per_run * 4, last)) for q in quads)

    @cached_property
    def tile_sizes(self) -> list[list[tuple[int, int]]]:
        """Sizes of the four tile functions, with a 0 for unused tiles.

        (nr, mr), or (channels, mr) for depthwise tiles.
        """
        (nr, mr), width = self.tiling, self.width
        is_shared = self.shares and not self.fmt.uses_amx
        blocks = (nr if self.vectors >= nr else 0, 0 if is_shared else self.vectors % nr)
        if self.depthwise:
            block = self.depthwise_block
            blocks = (block if self.out_c >= block else 0, self.out_c % block)
        widths = (mr if upper_bound(width) >= mr else 0, self.rest)
        return [[(block, width) for width in widths] for block in blocks]

    @property
    def headers(self) -> tuple[str, ...]:
        """Headers of the tiles that the kernels do not include themselves."""
        return ("tile/gemm_i8_amx.h",) if self.fmt.uses_amx else ()

    def _tile_name(self, size: tuple[int, int]) -> str:
        kind = "s8" if self.x_signed else "u8"
        if not self.depthwise:
            part = "_shared" if self.shares else ""
            if self.fmt.uses_amx:
                part = f"_amx{'_padded' * self.padded_copy}{'_l2' * exceeds_l1(self)}"
            plus = f"_add_{self.residual_type}" if self.residual_type else ""
            return f"tvmrt_tile_i8_{size[0]}x{size[1]}_{kind}{part}{plus}"
        rows, columns = self.depthwise_rows, self.depthwise_taps[1]
        steps = f"s{self.window.stride[2]}d{self.window.dilation[2]}"
        parts = ("", "_wide", "_wider")[self.parts - 1]
        return f"tvmrt_depthwise_i8_{rows}x{columns}{steps}_{size[0]}x{size[1]}_{kind}{parts}"

    def _definition(self, size: tuple[int, int]) -> str:
        macro, numbers = self._macro(size)
        return "\n".join(wrap(macro, [self._tile_name(size), *numbers], ""))

    def _macro(self, size: tuple[int, int]) -> tuple[str, tuple[object, ...]]:
        """Return the macro that defines a tile, and its arguments after the tile's name."""
        signed, plus = int(self.x_signed), f"TVMRT_RESIDUAL_{self.residual_type.upper() or 'NONE'}"
        if self.depthwise:
            shape = (self.depthwise_rows, self.depthwise_taps[1])
            steps = (self.window.stride[2], self.window.dilation[2])
            sizes = (*shape, *steps, size[1], size[0], self.parts)
            return "TVMRT_DEFINE_DEPTHWISE_I8", (*sizes, signed)
        if self.fmt.uses_amx:
            kind = (signed, plus, int(self.padded_copy), int(exceeds_l1(self)))
            return "TVMRT_DEFINE_TILE_I8_AMX", (*size, *kind)
        if self.residual_type:
            return "TVMRT_DEFINE_TILE_I8_OF", (*size, signed, int(self.shares), plus)
        part = "_SHARED" if self.shares else ""
        return f"TVMRT_DEFINE_TILE_I8{part}", (*size, signed)

    def definitions(self) -> list[str]:
        """Return the C lines that define the tile functions; a file has each line once."""
        sizes = [size for row in self.tile_sizes for size in row if all(size)]
        return [self._definition(size) for size in sizes]

    def members(self, *, shifted: bool, epilogue: bool) -> dict[str, object]:
        """Return the members of the layer's ``tvmrt_conv_i8`` as C text; see :meth:`scratch`."""
        scratch = self.scratch(shifted=shifted, epilogue=epilogue)
        tiles = [
            braces([self._tile_name(size) if all(size) else "NULL" for size in row])
            for row in self.tile_sizes
        ]
        groups = 1 if self.depthwise else self.groups
        of_group, width = self.out_c // groups, self.width
        filled = of_group if self.depthwise else self.padded
        blocks, full_blocks = ceil_div(self.padded, self.block), filled // self.block
        if self.shares and not self.fmt.uses_amx:
            blocks = full_blocks = ceil_div(of_group, self.block)
        return {
            "window": self.window.members(),
            "rows": self.plan.members(scratch.rows, scratch.total),
            "groups": groups,
            "in_c": self.in_c // groups,
            "out_c": of_group,
            "padded": self.padded,
            "x_signed": int(self.x_signed),
            "x_zero": self.x_zero,
            "depthwise": int(self.depthwise),
            "overflow_row": "TVMRT_NO_ROW" if self.overflow_row < 0 else self.overflow_row,
            "overflow_quads": braces([braces(quad) for quad in self.overflow_quads or ((0, 0),)]),
            "num_overflow_quads": len(self.overflow_quads),
            "block": self.block,
            "blocks": blocks,
            "full_blocks": full_blocks,
            "blocks_at_once": self.at_once or self._blocks_in_cache(),
            "channel_bytes": self.channel_bytes,
            **({"packed": self.order.block} if self.shares else {}),
            "mr": self.tiling[1],
            **({"tail": self.rest} if isinstance(width, Extent) else {}),
            "chunk": scratch.chunk,
            "chunks": ceil_div(width, scratch.chunk),
            "tile": braces(tiles),
            "at_padding_row": scratch.padding_row,
            "at_im2col": scratch.im2col_buffer,
            "at_window_sums": scratch.sums,
            "at_acc": scratch.acc,
            "work": self._work,
            "by_blocks": int(self._by_blocks),
            "threads": self.threads,
            **amx_members(self),
        }

    def initializer(self, *, shifted: bool, epilogue: bool) -> str:
        """Return the C initialiser of the layer's ``tvmrt_conv_i8``."""
        return initializer(self.members(shifted=shifted, epilogue=epilogue))

    def scratch(self, *, shifted: bool, epilogue: bool) -> ScratchI8:
        """Return the layout of the scratch that a task requests from ``TVMBackendAllocWorkspace``.

        Parameters
        ----------
        shifted
            Whether :func:`pack_conv` returned a shift.
        epilogue
            Whether the sums go to an epilogue.
        """
        plan, window, chunk = self.plan, self.window, self._chunk(epilogue)
        rows = round_up((plan.segments + (self.overflow_row >= 0)) * 8, LINE)
        padding_row = (
            plan.scratch_offsets(rows)[2] + LINE * self.quad_padded if plan.line_buffer else rows
        )
        outside = not plan.im2col and (
            window.overlaps_padding(0) or window.overlaps_padding(1) or self.row_pairs
        )
        row = plan.pitch if plan.line_buffer else window.in_[2] * window.x_stride
        im2col_buffer = padding_row + (
            round_up(row, LINE) + LINE * self.quad_padded if outside else 0
        )
        sums = im2col_buffer + (round_up(chunk * plan.segment, LINE) if plan.im2col else 0)
        acc = sums + (round_up(chunk * 4, LINE) if shifted else 0)
        total = acc + (chunk * self._acc_stride * 4 if epilogue else 0)
        rest = 0 if upper_bound(total) <= STACK_BYTES else total
        return ScratchI8(chunk, rows, padding_row, im2col_buffer, sums, acc, rest)

    def _blocks_in_cache(self) -> int:
        """Return the blocks whose weights stay in the cache while the image streams past."""
        if prefetches_weights(self):
            return ceil_div(self.padded, self.block)
        return max(1, WEIGHTS_IN_CACHE // (self.channel_bytes * self.block))

    @property
    def _acc_stride(self) -> int:
        return self.padded * (1 if self.depthwise else self.groups)

    def _chunk(self, epilogue: bool) -> int:
        """Return the pixels that the kernel finishes for all channels before it continues."""
        window, mr = self.window, self.tiling[1]
        bytes_per_pixel = window.kernel[0] * window.kernel[1] * window.stride[2] * self.in_c
        bytes_per_pixel = (
            1 if self.depthwise else self.plan.segment if self.plan.im2col else bytes_per_pixel
        )
        bytes_per_pixel = (
            max(bytes_per_pixel, self._acc_stride * 4) if epilogue else bytes_per_pixel
        )
        if self.pixels:
            return min(round_up(self.pixels, mr), upper_bound(self.width))
        pixels = upper_bound(self.width)
        min_chunk = mr if self.fmt.uses_amx else 2 * mr
        if prefetches_weights(self):
            return pixels
        chunk = min(max(CHUNK_BYTES // bytes_per_pixel // mr * mr, min_chunk), pixels)
        chunks = ceil_div(pixels, chunk)
        if self.threads == 1 or upper_bound(self.rows) > 1 or chunks >= MAX_CHUNKS:
            return chunk
        return min(round_up(ceil_div(pixels, round_up(chunks, CHUNK_MULTIPLE)), mr), chunk)

    @property
    def _work(self) -> int:
        """Work of the layer in float multiply-adds."""
        of_group = self.in_c // self.groups
        macs = self.window.pixels * self.out_c * self.window.taps * of_group
        work = self.fmt.float_macs(macs, self.groups > 1)
        return work if self.threads < 2 else max(work, parallel_work(self.threads))

    @property
    def _by_blocks(self) -> bool:
        """Whether threads divide the blocks of channels instead of the pixels.

        Each thread reads the undivided operand completely, so that should be the smaller one.
        """
        window = self.window
        blocks = self._acc_stride // self.padded * ceil_div(self.padded, self.block)
        few_rows = upper_bound(self.rows) < 4 and upper_bound(self.width) < 16 * self.tiling[1]
        weights = window.taps * self.in_c // self.groups * self.out_c
        image = upper_bound(window.batch * prod(window.in_)) * self.in_c
        return blocks >= 4 and (weights > image or few_rows)


@dataclass(frozen=True)
class ScratchI8:
    """Scratch layout of one task: pixels of a chunk, offsets of the parts, total bytes.

    Parts: segments, line buffer, a row of padding, im2col windows, window sums, int32 accumulators.
    """

    chunk: int
    rows: int
    padding_row: int
    im2col_buffer: int
    sums: int
    acc: int
    total: int
