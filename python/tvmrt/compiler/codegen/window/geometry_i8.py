"""Geometry of int8 layers: how windows are read and which tiles compute them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TypeVar

from tvmrt.compiler.ir.extent import Extent, upper_bound
from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.tuned import Choice

from ..geometry import Window
from .layer_f32 import MAX_THREADS
from .tiles_i8 import (
    FORMATS,
    WeightFormat,
    choose_tile,
    depthwise_widths,
    pad_im2col_segment,
    tile_options,
)
from .window_plan import WindowPlan, line_buffer_of, plan_row_pairs, plan_rows, plan_window

LINE = 64  # alignment of parts of scratch memory in bytes
L1_WEIGHT_BYTES = 24 * 1024  # bytes that fit into the L1 cache next to a tile's input

Layer = TypeVar("Layer", bound="LayerI8")


@dataclass(frozen=True)
class LayerI8:
    """Convolution of 8-bit channels-last tensors: windows and tiles.

    ``in_c`` and ``out_c`` count the channels of all groups. ``parts``, ``overflow_row`` and
    ``overflow_quads`` (overflow quads) come from ``ConvI8.fit``. ``widest`` is the format for which
    dense weights are packed if it differs from the tiles' format; ``widest_tile`` is the tile
    chosen there. ``tile``, ``at_once`` and ``pixels`` come from a :class:`Choice`; None and 0
    select the estimate. ``residual_type``: type of the residual that dense tiles add, ``u8`` or
    ``s8``; for AMX also ``u8_fused`` or ``s8_fused`` (:mod:`.fused_requant_add`). ``im2col_rows``:
    im2col, so that all pixels are one row of AMX tiles. ``padded_copy``: images are copied with
    their padding, so that each image is one such row. ``quad_padded``: runs are read to whole quads
    in the line buffer, with zero weights past the end of a run. ``row_pairs``: like
    ``quad_padded``, and rows are read in pairs.
    """

    fmt: WeightFormat
    window: Window
    in_c: int
    out_c: int
    groups: int = 1
    x_signed: bool = False
    x_zero: int = 0
    threads: int = 0
    parts: int = 1
    overflow_row: int = -1
    overflow_quads: tuple[tuple[int, int], ...] = ()
    tile: tuple[int, int] | None = None
    at_once: int = 0
    pixels: int = 0
    widest: WeightFormat | None = None
    widest_tile: tuple[int, int] | None = None
    residual_type: str = ""
    im2col_rows: bool = False
    padded_copy: bool = False
    quad_padded: bool = False
    row_pairs: bool = False

    @classmethod
    def matmul(
        cls: type[Layer],
        fmt: WeightFormat,
        m: int,
        k: int,
        n: int,
        *,
        lda: int | None = None,
        ldc: int | None = None,
        **more: object,
    ) -> Layer:
        """Return y[m, n] = x[m, k] * w[k, n] as a 1 x 1 convolution; pack the weights as [n, k]."""
        strides = (k if lda is None else lda, n if ldc is None else ldc)
        return cls(fmt, Window(1, (1, 1, m), (1, 1, m), *strides), k, n, **more)  # type: ignore[arg-type]

    @cached_property
    def plan(self) -> WindowPlan:
        """Plan for reading the windows."""
        window, fill = self.window, self.x_zero
        if self.im2col_rows:
            segment = pad_im2col_segment(window.taps * self.in_c // self.groups)
            return WindowPlan(window, 1, segment, segment, segment, 1, im2col=True, unit=LINE)
        if self.padded_copy:
            line_buffer = replace(line_buffer_of(window), slots=(1, window.padded_extent(1)))
            segment = window.kernel[2] * self.in_c
            return plan_rows(
                window, self.in_c, 1, copied=self.in_c, segment=segment, taps=1,
                line_buffer=line_buffer, unit=LINE,
                fill=fill,
            )  # fmt: skip
        if self.row_pairs:
            return plan_row_pairs(window, self.in_c, LINE, fill)
        if not self.depthwise:
            plan = plan_window(
                window, self.in_c // self.groups, element=1, copied=self.in_c, min_segment=4,
                contiguous_columns=True, unit=LINE, fill=fill,
            )  # fmt: skip
            return replace(plan, segment=round_up(plan.segment, 4)) if self.quad_padded else plan
        taps = window.kernel[2] if window.kernel[0] * window.kernel[1] == 1 else 1
        line_buffer = line_buffer_of(window) if window.overlaps_padding(2) else None
        return plan_rows(
            window,
            1,
            1,
            copied=self.in_c,
            segment=4,
            taps=taps,
            line_buffer=line_buffer,
            unit=LINE,
            fill=fill,
        )

    @cached_property
    def depthwise(self) -> bool:
        """Whether every channel has its own kernel, so that ``depthwise_i8.h`` applies."""
        return self.groups > 1 and self.groups == self.in_c == self.out_c

    @cached_property
    def depthwise_block(self) -> int:
        """Channels in a block of a depthwise convolution."""
        return min(self.fmt.depthwise, self.block_width(self.out_c))

    def block_width(self, channels: int) -> int:
        """Return the channels in the vectors that hold ``channels`` of the last block."""
        if not self.fmt.interleaves:
            return self.fmt.depthwise
        return 64 if channels > 32 else 32 if channels > 16 else 16

    @cached_property
    def depthwise_taps(self) -> tuple[int, int]:
        """(rows, columns) of a depthwise kernel; the taps of a single row count as rows."""
        kernel = self.window.kernel
        rows, columns = kernel[0] * kernel[1], kernel[2]
        return (columns, 1) if rows == 1 else (rows, columns)

    @cached_property
    def depthwise_rows(self) -> int:
        """Rows that a depthwise tile reads: those of the kernel and the spare one."""
        return self.depthwise_taps[0] + (self.overflow_row >= 0)

    @cached_property
    def offset(self) -> int:
        """Offset that the kernel adds to every activation before it multiplies."""
        if self.depthwise and not self.fmt.interleaves:
            return 0
        fmt = FORMATS[self.fmt.vector_format] if self.depthwise and self.fmt.uses_amx else self.fmt
        return fmt.offset(self.x_signed)

    @cached_property
    def order(self) -> LayerI8:
        """Layer whose tiles define the packing order: this one, or one of wider tiles."""
        if not self.shares:
            return self
        usual = {
            "im2col_rows": False,
            "padded_copy": False,
            "quad_padded": False,
            "row_pairs": False,
        }
        return replace(self, fmt=self.widest, widest=None, tile=self.widest_tile, **usual)

    @property
    def shares(self) -> bool:
        """Whether the tiles read parts of blocks that are packed for wider ones."""
        return self.widest is not None and not self.depthwise

    @property
    def width(self) -> Extent | int:
        """Output pixels of a row."""
        if self.padded_copy:
            return (self.window.out[1] - 1) * self.window.padded_extent(2) + self.window.out[2]
        return self.window.pixels if self.im2col_rows else self.window.out[2]

    @property
    def rows(self) -> Extent | int:
        """Rows of output pixels."""
        if self.padded_copy:
            return self.window.batch
        return 1 if self.im2col_rows else self.window.rows

    @cached_property
    def vectors(self) -> int:
        """Vectors of output channels in a group."""
        return ceil_div(self.out_c // self.groups, self.fmt.lanes)

    @cached_property
    def tiling(self) -> tuple[int, int]:
        """(nr, mr): vectors of channels and pixels of a tile; nr is 1 for depthwise tiles."""
        if self.tile is not None:
            return self.tile
        if self.depthwise:
            return 1, self._depthwise_widths()[0]
        return choose_tile(*self._tile_sizes)

    def _depthwise_widths(self) -> list[int]:
        return depthwise_widths(self.fmt, self.window, self.depthwise_taps, self.parts)

    @property
    def _tile_sizes(self) -> tuple[WeightFormat, int, int, int, bool]:
        """Inputs of tile selection."""
        unit = 0
        if self.shares and not self.fmt.uses_amx:
            wide = self.order
            unit = gcd(wide.tiling[0], wide.vectors) * (wide.fmt.lanes // self.fmt.lanes)
        l1_resident = 4 * self.fmt.lanes * self.channel_bytes <= L1_WEIGHT_BYTES
        return self.fmt, self.vectors, upper_bound(self.width), unit, l1_resident

    def options(self) -> list[Choice]:
        """Return the available tiles, the estimate's first."""
        if self.depthwise:
            tiles = [(1, width) for width in self._depthwise_widths()]
        else:
            tiles = tile_options(*self._tile_sizes)
        return [Choice((self.fmt.lanes, *tile)) for tile in tiles]

    def by(self: Layer, chosen: Choice) -> Layer:
        """Return the layer with the given choice, as far as such a tile exists."""
        threads = self.threads if chosen.threads is None else chosen.threads or MAX_THREADS
        layer = replace(self, threads=threads, at_once=chosen.at_once, pixels=chosen.pixels)
        is_available = chosen.tile and any(chosen.tile == each.tile for each in self.options())
        return replace(layer, tile=chosen.tile[1:]) if chosen.tile and is_available else layer

    @cached_property
    def block(self) -> int:
        """Output channels of a block."""
        return self.depthwise_block if self.depthwise else self.tiling[0] * self.fmt.lanes

    @cached_property
    def padded(self) -> int:
        """Output channels of a group, padded to its whole last vector or block."""
        if self.depthwise:
            return round_up(self.out_c, self.depthwise_block)
        return self.order.vectors * self.order.fmt.lanes

    @cached_property
    def rest(self) -> int:
        """Tile width for the tail of a row; 1 if the tail is known only at run time."""
        left = self.width % self.tiling[1]
        return 1 if isinstance(left, Extent) else left

    @property
    def segment_quads(self) -> int:
        """Quads of a run, rounded up."""
        return ceil_div(self.plan.segment, 4)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""
        return self.groups * self.padded * self.channel_bytes

    @cached_property
    def channel_bytes(self) -> int:
        """Bytes of the packed weights of an output channel."""
        size = 1 + self.fmt.wide
        if not self.depthwise:
            return (self.plan.segments * self.segment_quads + len(self.overflow_quads)) * 4 * size
        rows, columns = self.depthwise_rows, self.depthwise_taps[1]
        rows = round_up(rows, 4) * size if self.fmt.interleaves else rows
        return rows * columns * self.parts
