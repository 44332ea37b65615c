"""Shapes of layers for the kernels of microcontrollers (``kernels/board/shape.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import Extent, SymInt, lower_bound, symbols_of, upper_bound
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent

from ...geometry import Window

MAX_INT16 = (1 << 15) - 1  # of an extent
MAX_KERNEL_ROWS = 16  # of a depthwise kernel, TVMRT_MICRO_MAX_ROWS


def _pair(name: str) -> property:
    """Return a property with the (height, width) of a window's field."""
    return property(lambda shape: getattr(shape.window, name)[1:])


@dataclass(frozen=True)
class MicroShape:
    """Channels-last layer with a 2-D window, or a matmul; pairs are (height, width)."""

    window: Window
    in_c: int
    out_c: int
    depthwise: bool
    x_bytes: int = 1  # of an activation of an integer layer

    in_, out, pad = _pair("in_"), _pair("out"), _pair("pad")
    kernel, stride, dilation = _pair("kernel"), _pair("stride"), _pair("dilation")

    @property
    def is_supported(self) -> bool:
        """Whether the layer is 2-D and its sizes fit into the kernels' structs."""
        w = self.window
        pairs = (self.in_, self.out, self.kernel, self.stride, self.dilation, self.pad)
        extents = [*(n for pair in pairs for n in pair), self.in_c, self.out_c]
        if self.depthwise:
            extents += [w.batch, self.line_buffer_columns]
        rows = not self.depthwise or self.kernel[0] <= MAX_KERNEL_ROWS
        fit = all(-MAX_INT16 <= lower_bound(n) and upper_bound(n) <= MAX_INT16 for n in extents)
        return w.flat and rows and fit and min(map(lower_bound, self.in_ + self.out)) > 0

    @property
    def pointwise(self) -> bool:
        """Whether the window of an output pixel is the input pixel with the same index."""
        return self.window.is_identity_window and not self.depthwise

    @property
    def in_place(self) -> bool:
        """Whether the output may overwrite the input, pixel by pixel."""
        if self.in_ != self.out or self.stride != (1, 1) or self.in_c != self.out_c:
            return False
        if self.depthwise:
            return self.pad[0] < self.line_buffer_rows
        return self.pointwise

    @property
    def of_run(self) -> bool:
        """Whether it has dynamic sizes."""
        w = self.window
        return bool(symbols_of(w.batch, *w.in_, *w.out, w.x_stride, w.y_stride))

    @property
    def pixels(self) -> SymInt:
        """Output pixels of all images."""
        return self.window.pixels

    @property
    def elements(self) -> int:
        """Elements of an output pixel's window."""
        return self.window.taps * (1 if self.depthwise else self.in_c)

    @property
    def columns(self) -> int:
        """Columns of a window that are contiguous in memory: all of them, or one."""
        touch = self.window.x_stride == self.in_c and self.dilation[1] == 1
        return self.kernel[1] if touch else 1

    @property
    def line_buffer_rows(self) -> int:
        """Rows under a window."""
        return self.window.window_extent(1)

    @property
    def line_buffer_columns(self) -> SymInt:
        """Columns under all windows of a row, padding included."""
        return self.window.padded_extent(2)

    @property
    def padded_channels(self) -> int:
        """Input channels rounded up to a multiple of four."""
        return round_up(self.in_c, 4)

    def members(self, scratch: Im2colBuffer | LineBuffer) -> dict[str, object]:
        """Return the members of the ``tvmrt_micro_shape``."""
        union = scratch.members(self)
        pad = self.pad
        if self.depthwise:
            pad = (pad[0], minimum_text(pad[1], scratch.columns))
        pairs = {"in": self.in_, "out": self.out, "kernel": self.kernel, "stride": self.stride,
                 "dilation": self.dilation, "pad": pad}  # fmt: skip
        return {
            **{name: f"{{{as_int16(h)}, {as_int16(w)}}}" for name, (h, w) in pairs.items()},
            "in_c": self.in_c,
            "out_c": self.out_c,
            "x_stride": self.window.x_stride * self.x_bytes,
            "y_stride": self.window.y_stride,
            "scratch": scratch.bytes,
            "layout": union,
        }


def minimum_text(a: SymInt, b: SymInt) -> SymInt | str:
    """Return the minimum of both, as a C expression if it is dynamic."""
    try:
        return min(a, b)
    except UndecidedExtent:
        return f"({a} < {b} ? {a} : {b})"


@dataclass(frozen=True)
class Im2colBuffer:
    """Windows that a dense kernel copies into scratch: elements of one, bytes of all."""

    length: int
    bytes: int

    def members(self, shape: MicroShape) -> dict[str, dict[str, object]]:
        """Return the members of the shape's ``layout`` union."""
        return {
            "windows": {
                "pixels": shape.pixels,
                "length": self.length,
                "pointwise": int(shape.pointwise),
                "columns": shape.columns,
            }
        }


@dataclass(frozen=True)
class LineBuffer:
    """Line buffer of a depthwise kernel in scratch, see ``board/line_buffer.h``.

    ``slots``: rows or pairs of rows; ``columns``: of a row, padding included; ``plane``: elements
    of a channel; ``bytes``: of all scratch.
    """

    slots: int
    columns: SymInt
    plane: SymInt
    bytes: SymInt

    def members(self, shape: MicroShape) -> dict[str, dict[str, object]]:
        """Return the members of the shape's ``layout`` union."""
        left, skipped = max(0, shape.pad[1]), max(0, -shape.pad[1])
        read, capacity = shape.in_[1] - skipped, self.columns - left
        inside = minimum_text(read, capacity)
        if min(lower_bound(read), lower_bound(capacity)) < 0:
            inside = f"({inside} < 0 ? 0 : {inside})" if _is_dynamic(inside) else max(0, inside)
        return {
            "line_buffer": {
                "plane": self.plane,
                "images": as_int16(shape.window.batch),
                "slots": self.slots,
                "columns": as_int16(self.columns),
                "inside": as_int16(inside),
            }
        }


def _is_dynamic(value: SymInt | str) -> bool:
    return isinstance(value, (Extent, str))


def as_int16(value: SymInt | str) -> SymInt | str:
    """Return a value for a 16-bit member, cast if it is an expression."""
    return f"(int16_t){value}" if _is_dynamic(value) else value


def row_line_buffer(shape: MicroShape, element: int) -> LineBuffer:
    """Return a line buffer of all rows under a window; ``element``: bytes of an element."""
    plane = shape.line_buffer_rows * shape.line_buffer_columns
    return LineBuffer(
        shape.line_buffer_rows,
        shape.line_buffer_columns,
        plane,
        shape.padded_channels * plane * element,
    )
