"""Float layers with windows (``kernels/layer_f32.h``): plan, scratch and C text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import SymInt, symbols_of, upper_bound

from ..c.initializers import PARALLEL_WORK
from ..geometry import FLOAT, Window
from .tile_kinds import F32, TileKind
from .window_plan import WindowPlan, plan_bf16, plan_nchw, plan_transposed, plan_window

SEGMENT_BYTES = 16  # tvmrt_segment_f32
SEGMENTS_ON_STACK = 9  # TVMRT_SEGMENTS_F32
WEIGHT_BYTES = 512 << 10  # of a group in bfloat16; above it channel blocks take turns
# Work of small layers is scaled by fifths: weights used once are bound by the cache, and layers of
# few pixels occur in networks that take microseconds.
FEW_PIXELS = 4
ONE_PIXEL_FIFTHS = 16
FEW_PIXELS_FIFTHS = 2
MOVED_WORK = 36  # multiply-adds in the time to move half of a float to another core, twice
MAX_MOVED_WORK = 5 * PARALLEL_WORK  # TVMRT_PARALLEL_MIN_PRODUCT


def joined_pixels(window: Window) -> SymInt:
    """Return the pixels of a transposed layer's row if all phases of a column are one pixel."""
    return ceil_div(window.out[2] + window.pad[2] % window.stride[2], window.stride[2])


@dataclass(frozen=True)
class LayerF32:
    """Float layer; ``tvmrt_layer_f32`` in C.

    ``in_channels`` and ``out_channels`` count per group, the former in pairs for bfloat16. ``work``
    decides the number of threads, in multiply-adds. ``phases`` of a transposed
    convolution are computed together, with output channels for each, by tiles of ``kind``.
    """

    plan: WindowPlan
    groups: int
    in_channels: int
    out_channels: int
    work: int
    phases: int = 1
    kind: TileKind = F32

    @classmethod
    def conv(
        cls, window: Window, in_channels: int, out_channels: int, groups: int, kind: TileKind = F32
    ) -> LayerF32:
        """Return a convolution by tiles of ``kind``; channel arguments count all groups."""
        ins, outs = in_channels // groups, out_channels // groups
        if kind.words_per_pair:
            rows, rereads = window.in_longest_rows(), 2 * window.taps * ins * outs > WEIGHT_BYTES
            plan = plan_bf16(rows, ins, kind.words_per_pair, kind.overread_pixels, rereads=rereads)
        else:
            if groups == 1:
                taps, window = window.kernel[2], window.with_joined_columns(ins)
                ins *= taps // window.kernel[2]
            plan = plan_window(window.in_longest_rows(), ins, element=FLOAT)
        uses = window.pixels
        work = uses * out_channels * window.taps * plan.channels
        if not kind.words_per_pair and not symbols_of(uses) and uses <= FEW_PIXELS:
            work = work * (ONE_PIXEL_FIFTHS if uses == 1 else FEW_PIXELS_FIFTHS) // 5
        return cls(plan, groups, plan.channels, outs, work)

    @classmethod
    def conv_nchw(
        cls, window: Window, in_channels: int, out_channels: int, kind: TileKind = F32
    ) -> LayerF32:
        """Return a convolution over one NCHW image by tiles of ``kind``."""
        if kind.words_per_pair:
            stride = window.in_[1] * window.in_[2]
            plan = plan_bf16(window, in_channels, kind.words_per_pair, kind.overread_pixels, stride)
        else:
            plan = plan_nchw(window, in_channels)
        work = window.pixels * out_channels * window.taps * plan.channels
        return cls(plan, 1, plan.channels, out_channels, work)

    @classmethod
    def depthwise(cls, window: Window, channels: int) -> LayerF32:
        """Return a depthwise convolution; its tile handles columns in the padding."""
        window = window.in_longest_rows()
        plan = WindowPlan(window, FLOAT, channels, channels, channels, window.kernel[2])
        # a multiply-add takes about twice the time of one of a dense layer
        return cls(plan, 1, 1, channels, 2 * window.pixels * channels * window.taps)

    @classmethod
    def transposed(
        cls,
        window: Window,
        in_channels: int,
        out_channels: int,
        groups: int,
        kind: TileKind = F32,
        phases: int = 1,
    ) -> LayerF32:
        """Return a transposed convolution; ``window.pad`` is cropped from the full output."""
        ins, outs = in_channels // groups, out_channels // groups
        plan = plan_transposed(window, ins, kind.words_per_pair, kind.overread_pixels)
        inputs = window.batch * prod(window.in_)
        work = inputs * window.taps * plan.channels * groups * outs
        return cls(plan, groups, plan.channels, outs * phases, work, phases, kind)

    def as_matmul(self) -> LayerF32:
        """Return the layer of a matmul. Threads share it only if half of it takes longer than
        moving its operands to another core, because adjacent steps partition data differently.
        """
        rows = self.window.pixels
        moved = MOVED_WORK * upper_bound(rows) * (self.in_channels + self.out_channels)
        if upper_bound(self.work) >= PARALLEL_WORK + min(moved, MAX_MOVED_WORK):
            return self
        return replace(self, work=0)

    @property
    def window(self) -> Window:
        return self.plan.window

    @property
    def weights(self) -> int:
        """Weights per output channel."""
        return self.window.taps // self.phases * self.in_channels

    @property
    def row_pixels(self) -> SymInt | tuple[SymInt, ...]:
        """Pixels of a row as tiles cover them; with runs, each run's once per kernel column."""
        rows = (pixels for pixels, columns in self.plan.sections for _ in range(max(columns, 1)))
        return tuple(rows) if self.plan.sections else self.window.out[2]

    @property
    def row_weights(self) -> int:
        """Weights per output channel that are read for such a row."""
        return self.weights // self.window.kernel[2] if self.plan.sections else self.weights

    @property
    def pixel_step(self) -> int:
        """Elements between windows if they differ from ``weights``: for chunked pixels and runs;
        else 0."""
        return self.plan.x_step if self.plan.chunk or self.plan.sections else 0

    @property
    def _segments(self) -> int:
        """Bytes of segment descriptors that do not fit on the stack."""
        count = self.plan.segments
        return count * SEGMENT_BYTES if count > SEGMENTS_ON_STACK else 0

    @property
    def scratch_bytes(self) -> int:
        """Bytes that a task requests from ``tvmrt_scratch_alloc``."""
        joined = joined_pixels(self.window) * self.out_channels * FLOAT if self.phases > 1 else 0
        return self.plan.scratch_offsets(self._segments)[2] + joined

    def members(self, residual_stride: int, low: str, high: str) -> dict[str, object]:
        """Return the members of the ``tvmrt_layer_f32``; ``low`` and ``high`` are clamp bounds as C
        text."""
        return {
            "window": self.window.members(),
            "rows": self.plan.members(self._segments, self.scratch_bytes),
            "groups": self.groups,
            "in_channels": self.in_channels,
            "out_channels": self.out_channels,
            "weights": self.weights,
            "residual_stride": residual_stride,
            "lo": low,
            "hi": high,
            "work": self.work,
        }
