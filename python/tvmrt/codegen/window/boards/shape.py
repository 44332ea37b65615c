"""Shapes of the layers that the kernels of microcontrollers compute (``kernels/board/shape.h``)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvmrt.ir.rounding import round_up

from ...c.text import nested
from ..plan import Window

MOST = (1 << 15) - 1  # of an extent
MOST_ROWS = 16  # of a depthwise kernel, TVMRT_MICRO_MAX_ROWS


@dataclass(frozen=True)
class MicroShape:
    """A 2-D convolution or a matrix product, channels last; pairs are (height, width).

    ``pad`` is the padding at the start, the end follows from ``out``; strides are in elements.
    """

    batch: int
    in_: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    in_c: int
    out_c: int
    x_stride: int
    y_stride: int
    depthwise: bool

    @property
    def fits(self) -> bool:
        """Whether the numbers fit into the kernels' structures."""
        pairs = (self.in_, self.out, self.kernel, self.stride, self.dilation, self.pad)
        numbers = [*(abs(n) for pair in pairs for n in pair), self.in_c, self.out_c]
        rows = not self.depthwise or self.kernel[0] <= MOST_ROWS
        return rows and max(numbers) <= MOST and min(self.in_ + self.out) > 0

    @property
    def pointwise(self) -> bool:
        """Whether the window of an output pixel is the input pixel at its place."""
        still = self.in_ == self.out and self.stride == (1, 1) and self.pad == (0, 0)
        return still and self.kernel == (1, 1) and not self.depthwise

    @property
    def in_place(self) -> bool:
        """Whether the output may lie where the input lies, pixel on pixel."""
        if self.in_ != self.out or self.stride != (1, 1) or self.in_c != self.out_c:
            return False
        if self.depthwise:
            return self.pad[0] <= (self.kernel[0] - 1) * self.dilation[0]
        return self.pointwise

    @property
    def pixels(self) -> int:
        """Output pixels of all images."""
        return self.batch * prod(self.out)

    @property
    def window(self) -> int:
        """Elements of the window of an output pixel."""
        return prod(self.kernel) * (1 if self.depthwise else self.in_c)

    @property
    def columns(self) -> int:
        """Columns of a window that lie behind each other in memory: all of them, or one."""
        return self.kernel[1] if self.x_stride == self.in_c and self.dilation[1] == 1 else 1

    @property
    def ring_elements(self) -> int:
        """Elements of the rows that a depthwise layer keeps, in whole quads of channels."""
        rows, reach = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation))
        columns = (self.out[1] - 1) * self.stride[1] + reach
        return rows * columns * round_up(self.in_c, 4)

    def initializer(self, window: int, scratch: int) -> str:
        """The C initialiser of the ``tvmrt_micro_shape``.

        ``window``: elements of a copied window; ``scratch``: bytes that the kernel takes.
        """
        pairs = {"in": self.in_, "out": self.out, "kernel": self.kernel, "stride": self.stride,
                 "dilation": self.dilation, "pad": self.pad}  # fmt: skip
        fields = {
            "pixels": self.pixels,
            **{name: f"{{{height}, {width}}}" for name, (height, width) in pairs.items()},
            "in_c": self.in_c,
            "out_c": self.out_c,
            "x_stride": self.x_stride,
            "y_stride": self.y_stride,
            "window": window,
            "scratch": scratch,
            "pointwise": int(self.pointwise),
            "columns": self.columns,
        }
        return nested(fields)


def flat_shape(window: Window) -> tuple[tuple[int, int], ...] | None:
    """(in, out, kernel, stride, dilation, pad) without their depth, None where that is used."""
    flat = (window.in_[0], window.out[0], window.kernel[0], window.stride[0], window.pad[0])
    if flat != (1, 1, 1, 1, 0):
        return None
    extents = (
        window.in_, window.out, window.kernel, window.stride, window.dilation, window.pad
    )  # fmt: skip
    return tuple((extent[1], extent[2]) for extent in extents)
