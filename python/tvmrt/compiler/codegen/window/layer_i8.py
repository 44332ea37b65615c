"""Int8 layers (``kernels/conv_i8.h``): their facts, and the variants that tiles can compute.

Five modules turn a layer into C, in this order; each imports only modules before it:

1. ``layer_i8``: :class:`LayerI8` and :class:`ConstantsI8`, the facts of the network;
   :class:`VariantI8`, a layer in one weight format with its windows read in one way.
2. ``choose_i8``: choose the variant and the tile for a target.
3. ``plan_i8``: compute all numbers of the layer once, as a ``PlanI8``.
4. ``packing_i8``: pack the weights according to the plan.
5. ``print_i8``: print the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np

from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import Extent

from ..geometry import Window
from .tiles_i8 import FORMATS, WeightFormat, pad_im2col_segment
from .window_plan import WindowPlan, line_buffer_of, plan_row_pairs, plan_rows, plan_window

LINE = 64  # alignment of parts of scratch memory in bytes


@dataclass(frozen=True)
class LayerI8:
    """Convolution of 8-bit channels-last tensors, as the network has it.

    ``in_c`` and ``out_c`` count the channels of all groups.
    """

    window: Window
    in_c: int
    out_c: int
    groups: int = 1
    x_signed: bool = False
    x_zero: int = 0
    threads: int = 0
    x_bytes: int = 1  # of an activation; 2: int16, on boards

    @classmethod
    def matmul(
        cls, m: int, k: int, n: int, *, lda: int | None = None, ldc: int | None = None,
        **more: object,
    ) -> LayerI8:  # fmt: skip
        """Return y[m, n] = x[m, k] * w[k, n] as a 1 x 1 convolution; pack the weights as [n, k]."""
        strides = (k if lda is None else lda, n if ldc is None else ldc)
        return cls(Window(1, (1, 1, m), (1, 1, m), *strides), k, n, **more)  # type: ignore[arg-type]

    @cached_property
    def depthwise(self) -> bool:
        """Whether every channel has its own kernel, so that ``depthwise_i8.h`` applies."""
        return self.groups > 1 and self.groups == self.in_c == self.out_c

    @cached_property
    def depthwise_taps(self) -> tuple[int, int]:
        """(rows, columns) of a depthwise kernel; the taps of a single row count as rows."""
        kernel = self.window.kernel
        rows, columns = kernel[0] * kernel[1], kernel[2]
        return (columns, 1) if rows == 1 else (rows, columns)

    @cached_property
    def window_bytes(self) -> int:
        """Bytes of a window in a group."""
        return self.window.taps * self.in_c // self.groups


def wrap_int32(values: np.ndarray) -> np.ndarray:
    """Convert int64 to int32 modulo 2 ** 32, as the kernels' accumulators wrap."""
    return values.astype(np.uint64).astype(np.uint32).view(np.int32)


def shifts_into_int8(weights: np.ndarray) -> np.ndarray:
    """Return the smallest shift per channel [out_c, ...] that makes all weights fit into int8."""
    flat = weights.reshape(len(weights), -1)
    high = np.maximum(flat.max(axis=1) - 127, 0)
    return np.where(high > 0, high, np.minimum(flat.min(axis=1) + 128, 0))


@dataclass(frozen=True, eq=False)
class ConstantsI8:
    """Constants of a layer as the network has them.

    Parameters
    ----------
    weights
        int8 or uint8 [out_c, in_c / groups, *kernel], 0 to 3 kernel extents.
    w_zero
        Zero point of the weights: one, or one per output channel.
    bias
        int32 [out_c], in units of x_scale * w_scale; None for none.
    """

    layer: LayerI8
    weights: np.ndarray
    w_zero: np.ndarray | int = 0
    bias: np.ndarray | None = None

    @cached_property
    def centred(self) -> np.ndarray:
        """weights - w_zero as int64 [out_c, in_c / groups, kd, kh, kw]."""
        layer = self.layer
        values = self.weights.reshape(layer.out_c, -1, *layer.window.kernel).astype(np.int64)
        return values - np.asarray(self.w_zero, np.int64).reshape(-1, 1, 1, 1, 1)

    def folded_bias(self, offset: int, shift: np.ndarray | int = 0) -> np.ndarray:
        """Return the int32 biases minus the contribution of the input's zero point.

        ``offset``: the kernel adds it to activations before it multiplies them; ``shift``: of the
        weights of each channel.
        """
        flat = self.centred.reshape(self.layer.out_c, -1)
        bias = 0 if self.bias is None else np.asarray(self.bias, np.int64).reshape(-1)
        sums = (self.layer.x_zero + offset) * flat.sum(axis=1)
        return wrap_int32(bias - sums + shift * flat.shape[1] * offset)


class RowExtent(Enum):
    """Output pixels that tiles see as one row."""

    ROW = "a row of an image"
    IMAGE = "an image"
    ALL = "all images"


class Reading(Enum):
    """How AMX tiles read the windows of a layer; all other tiles read ROWS.

    Parameters
    ----------
    pads_quads
        Whether segments in the line buffer are read to whole quads, with zero weights past the end.
    pairs_rows
        Whether input rows are read in pairs.
    """

    ROWS = ("row by row", RowExtent.ROW, False, False)
    IM2COL_ROWS = ("im2col across rows", RowExtent.ALL, False, False)
    PADDED_COPY = ("images are copied with their padding", RowExtent.IMAGE, False, False)
    PADDED_QUADS = ("row by row, in whole quads", RowExtent.ROW, True, False)
    ROW_PAIRS = ("pairs of rows, in whole quads", RowExtent.ROW, True, True)

    def __init__(self, text: str, row: RowExtent, pads_quads: bool, pairs_rows: bool) -> None:
        self.text, self.row = text, row
        self.pads_quads, self.pairs_rows = pads_quads, pairs_rows


@dataclass(frozen=True)
class Overflow:
    """Weights of a layer that exceed int8: ``parts`` of each depthwise weight, the depthwise kernel
    row that is read twice (or -1), or (segment, first byte) of the overflow quads."""

    parts: int = 1
    row: int = -1
    quads: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class VariantI8:
    """A layer in one weight format, with its windows read in one way: everything but the tile.

    ``widest`` is the format for which dense weights are packed if it differs from the tiles'.
    """

    layer: LayerI8
    fmt: WeightFormat
    widest: WeightFormat | None = None
    reading: Reading = Reading.ROWS
    overflow: Overflow = field(default_factory=Overflow)

    @cached_property
    def windows(self) -> WindowPlan:
        """Plan for reading the windows."""
        plan = _plan_depthwise if self.layer.depthwise else _PLANS[self.reading]
        return plan(self.layer)

    @property
    def width(self) -> Extent | int:
        """Output pixels of a row."""
        window = self.layer.window
        return {
            RowExtent.ROW: window.out[2],
            RowExtent.IMAGE: (window.out[1] - 1) * window.padded_extent(2) + window.out[2],
            RowExtent.ALL: window.pixels,
        }[self.reading.row]

    @property
    def rows(self) -> Extent | int:
        """Rows of output pixels."""
        window = self.layer.window
        rows = {RowExtent.ROW: window.rows, RowExtent.IMAGE: window.batch, RowExtent.ALL: 1}
        return rows[self.reading.row]

    @cached_property
    def offset(self) -> int:
        """Offset that the kernel adds to every activation before it multiplies."""
        fmt, depthwise = self.fmt, self.layer.depthwise
        if depthwise and not fmt.interleaves:
            return 0
        fmt = FORMATS[fmt.vector_format] if depthwise and fmt.uses_amx else fmt
        return fmt.offset(self.layer.x_signed)

    @property
    def shares(self) -> bool:
        """Whether the tiles read parts of blocks that are packed for wider ones."""
        return self.widest is not None and not self.layer.depthwise

    @cached_property
    def order(self) -> VariantI8:
        """Variant whose tiles define the packing order: this one, or one of wider tiles."""
        if not self.shares:
            return self
        return replace(self, fmt=self.widest, widest=None, reading=Reading.ROWS)

    @cached_property
    def vectors(self) -> int:
        """Vectors of output channels in a group."""
        return ceil_div(self.layer.out_c // self.layer.groups, self.fmt.lanes)

    @cached_property
    def depthwise_block(self) -> int:
        """Channels in a block of a depthwise convolution."""
        return min(self.fmt.depthwise, self.block_width(self.layer.out_c))

    def block_width(self, channels: int) -> int:
        """Return the channels in the vectors that hold ``channels`` of the last block."""
        if not self.fmt.interleaves:
            return self.fmt.depthwise
        return 64 if channels > 32 else 32 if channels > 16 else 16

    @cached_property
    def depthwise_rows(self) -> int:
        """Rows that a depthwise tile reads: those of the kernel and the overflow row."""
        return self.layer.depthwise_taps[0] + (self.overflow.row >= 0)

    @cached_property
    def padded(self) -> int:
        """Output channels of a group, padded to its whole last vector or block."""
        if self.layer.depthwise:
            return round_up(self.layer.out_c, self.depthwise_block)
        return self.order.vectors * self.order.fmt.lanes

    @property
    def segment_quads(self) -> int:
        """Quads of a segment, rounded up."""
        return ceil_div(self.windows.segment, 4)

    @cached_property
    def channel_bytes(self) -> int:
        """Bytes of the packed weights of an output channel."""
        size = 1 + self.fmt.wide
        if not self.layer.depthwise:
            quads = self.windows.segments * self.segment_quads + len(self.overflow.quads)
            return quads * 4 * size
        rows, columns = self.depthwise_rows, self.layer.depthwise_taps[1]
        rows = round_up(rows, 4) * size if self.fmt.interleaves else rows
        return rows * columns * self.overflow.parts

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""
        return self.layer.groups * self.padded * self.channel_bytes

    def quads_of(self, weights: np.ndarray) -> np.ndarray:
        """Reorder weights [out_c, in_c / groups, kd, kh, kw] to [out_c, segment and quad, 4]. A
        partial last quad is aligned to the end of its segment; where the input is read to whole
        quads (im2col, padded quads), zeros follow it instead."""
        segments = self._segments_of(weights)
        tail = segments.shape[2] % 4
        if tail:
            whole, last = segments[:, :, :-tail], segments[:, :, -tail:]
            zeros = np.zeros((*segments.shape[:2], 4 - tail), segments.dtype)
            zeros_last = self.windows.im2col or self.reading.pads_quads
            parts = [whole, last, zeros] if zeros_last else [whole, zeros, last]
            segments = np.concatenate(parts, axis=2)
        return segments.reshape(segments.shape[0], -1, 4)

    def _segments_of(self, weights: np.ndarray) -> np.ndarray:
        """Reorder weights to [out_c, segment, byte of the segment]."""
        out_c = self.layer.out_c
        if self.reading.pairs_rows:
            rows, columns = self.layer.window.kernel[1:]
            even = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, rows % 2), (0, 0)))
            weights = even.reshape(out_c, self.layer.in_c, -1, 2, columns).transpose(0, 2, 4, 3, 1)
        else:
            weights = np.transpose(weights, (0, 2, 3, 4, 1))
        return weights.reshape(out_c, self.windows.segments, -1)

    def quad_offsets(self, quads: np.ndarray | list) -> tuple[tuple[int, int], ...]:
        """Return (segment, first byte) of quads that are numbered over all segments."""
        per_segment = self.segment_quads
        last = max(0, self.windows.segment - 4)
        return tuple((int(q) // per_segment, min(int(q) % per_segment * 4, last)) for q in quads)

    def shifts(self, constants: ConstantsI8) -> np.ndarray | None:
        """Return the shift of the weights of each channel; None if all are 0."""
        if self.layer.depthwise or self.fmt.wide or self.overflow.quads:
            return None
        shifts = shifts_into_int8(constants.centred)
        return shifts if shifts.any() else None


def _plan_depthwise(layer: LayerI8) -> WindowPlan:
    window = layer.window
    taps = window.kernel[2] if window.kernel[0] * window.kernel[1] == 1 else 1
    line_buffer = line_buffer_of(window) if window.overlaps_padding(2) else None
    return plan_rows(
        window, 1, 1, copied=layer.in_c, segment=4, taps=taps, line_buffer=line_buffer, unit=LINE,
        fill=layer.x_zero,
    )  # fmt: skip


def _plan_by_rows(layer: LayerI8) -> WindowPlan:
    return plan_window(
        layer.window, layer.in_c // layer.groups, element=1, copied=layer.in_c, min_segment=4,
        unit=LINE, fill=layer.x_zero,
    )  # fmt: skip


def _plan_padded_quads(layer: LayerI8) -> WindowPlan:
    plan = _plan_by_rows(layer)
    return replace(plan, segment=round_up(plan.segment, 4))


def _plan_im2col(layer: LayerI8) -> WindowPlan:
    segment = pad_im2col_segment(layer.window_bytes)
    return WindowPlan(layer.window, 1, segment, segment, segment, 1, im2col=True, unit=LINE)


def _plan_padded_copy(layer: LayerI8) -> WindowPlan:
    window, in_c = layer.window, layer.in_c
    line_buffer = replace(line_buffer_of(window), slots=(1, window.padded_extent(1)))
    return plan_rows(
        window, in_c, 1, copied=in_c, segment=window.kernel[2] * in_c, taps=1,
        line_buffer=line_buffer, unit=LINE, fill=layer.x_zero,
    )  # fmt: skip


def _plan_row_pairs(layer: LayerI8) -> WindowPlan:
    return plan_row_pairs(layer.window, layer.in_c, LINE, layer.x_zero)


_PLANS = {
    Reading.ROWS: _plan_by_rows,
    Reading.IM2COL_ROWS: _plan_im2col,
    Reading.PADDED_COPY: _plan_padded_copy,
    Reading.PADDED_QUADS: _plan_padded_quads,
    Reading.ROW_PAIRS: _plan_row_pairs,
}
if set(_PLANS) != set(Reading):
    raise TypeError("a member of Reading has no plan in _PLANS")
