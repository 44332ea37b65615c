"""Geometry of windows that move over images, for planning and printing layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from operator import le
from typing import Any

from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import SymInt, symbols_of, upper_bound
from tvmrt.compiler.ir.sizes.undecided import statically_known_true

from .c.initializers import triple

Triple = tuple[int, int, int]
ONES, ZEROS = (1, 1, 1), (0, 0, 0)
MAX_ROW_PIXELS = (1 << 31) - 1  # maximum pixels of a row
FLOAT = 4  # bytes of a float32, or of a pair of bfloat16


@dataclass(frozen=True)
class Window:
    """Window and the images that it moves over, channels last.

    Triples are (depth, height, width). ``pad`` is the padding at the start, negative for cropping;
    ``out`` determines the padding at the end. ``x_stride`` and ``y_stride`` are the elements from
    one pixel to the next.
    """

    batch: int
    in_: Triple
    out: Triple
    x_stride: int
    y_stride: int
    kernel: Triple = ONES
    stride: Triple = ONES
    dilation: Triple = ONES
    pad: Triple = ZEROS

    @classmethod
    def of(
        cls,
        in_: Sequence[SymInt],
        out: Sequence[SymInt],
        kernel: Sequence[int],
        attrs: Mapping[str, Any],
        x: SymInt,
        y: SymInt,
    ) -> Window:
        """Return the window of a node with strides, dilations and padding, from shapes in
        channels-first order; missing extents are 1. ``x`` and ``y`` are the pixel strides."""
        return cls(
            in_[0],
            triple(in_[2:], 1),
            triple(out[2:], 1),
            x,
            y,
            triple(kernel, 1),
            triple(attrs["strides"], 1),
            triple(attrs["dilations"], 1),
            triple(attrs["pads_before"], 0),
        )

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    @property
    def rows(self) -> int:
        """Number of output rows of all images."""
        return self.batch * self.out[0] * self.out[1]

    @property
    def pixels(self) -> int:
        """Number of output pixels of all images."""
        return self.rows * self.out[2]

    def window_extent(self, dim: int) -> int:
        """Return the input extent of one window."""
        return (self.kernel[dim] - 1) * self.dilation[dim] + 1

    def padded_extent(self, dim: int) -> int:
        """Return the input extent of all windows of an image, including padding."""
        return (self.out[dim] - 1) * self.stride[dim] + self.window_extent(dim)

    @property
    def is_identity_window(self) -> bool:
        """Whether each window covers exactly the pixel of its own index."""
        same_pixels = self.in_ == self.out and self.pad == ZEROS
        return same_pixels and self.kernel == ONES and self.stride == ONES

    @property
    def flat(self) -> bool:
        """Whether the window has no depth dimension."""
        depth = (self.in_[0], self.out[0], self.kernel[0], self.stride[0], self.pad[0])
        return depth == (1, 1, 1, 1, 0)

    @property
    def is_strided_1x1(self) -> bool:
        """Whether a 1x1 window moves over a single image, possibly skipping pixels."""
        alone = self.batch == 1 and self.in_[0] == 1 and not symbols_of(*self.in_, *self.out)
        return alone and self.kernel == ONES and self.pad == ZEROS

    @property
    def has_one_column(self) -> bool:
        """Whether images and windows have one column, without padding."""
        return (self.in_[2], self.out[2], self.kernel[2], self.pad[2]) == (1, 1, 1, 0)

    def as_contiguous_row(self) -> Window:
        """Return the picked pixels as one contiguous row."""
        row, step = (1, 1, self.pixels), self.x_stride * self.stride[2]
        return Window(1, row, row, step, self.y_stride)

    def overlaps_padding(self, dim: int) -> bool:
        """Return whether a window overlaps padding along an axis in some runs."""
        last = self.padded_extent(dim) - self.pad[dim]
        return self.pad[dim] > 0 or not statically_known_true(le, last, self.in_[dim])

    def column_segments(self) -> list[tuple[int, int]]:
        """Return (pixels, columns) for each segment of a row whose windows have the same kernel
        columns inside the image."""
        columns = range(0, self.kernel[2] * self.dilation[2], self.dilation[2])
        first = range(-self.pad[2], self.out[2] * self.stride[2] - self.pad[2], self.stride[2])
        is_inside = ([0 <= x + column < self.in_[2] for column in columns] for x in first)
        return [(len(list(pixels)), sum(inside)) for inside, pixels in groupby(is_inside)]

    def in_longest_rows(self) -> Window:
        """Return the same windows over the same memory in the longest possible rows.

        If each window is the pixel of its own index, all pixels of all images form one row. If the
        last axis is trivial, as in an image of one column, it is moved to the front.
        """
        if self.is_identity_window and upper_bound(self.pixels) <= MAX_ROW_PIXELS:
            row = (1, 1, self.pixels)
            return replace(self, batch=1, in_=row, out=row)
        window = self
        for _ in range(2):
            if window.has_one_column:
                window = window._rotated()
        return window

    def with_joined_columns(self, channels: int) -> Window:
        """Return the same windows with each row of a dense image as one pixel of more channels, if
        every window covers whole rows: their results form one row."""
        covers = self.kernel[2] == self.in_[2] and self.out[2] == self.dilation[2] == 1
        dense = self.x_stride == channels and self.pad[2] == 0
        if not covers or not dense or symbols_of(*self.in_, *self.out) or self.out[1] == 1:
            return self
        taken = {name: (*getattr(self, name)[:2], 1) for name in ("in_", "kernel", "stride")}
        return replace(self, x_stride=channels * self.in_[2], **taken)

    def _rotated(self) -> Window:
        names = ("in_", "out", "kernel", "stride", "dilation", "pad")
        turned = {name: getattr(self, name) for name in names}
        return replace(self, **{name: (v[2], v[0], v[1]) for name, v in turned.items()})

    def members(self) -> dict[str, object]:
        """Return the members of the ``tvmrt_window``."""
        return {
            "batch": self.batch,
            "in": tuple(self.in_),
            "out": tuple(self.out),
            "kernel": tuple(self.kernel),
            "stride": tuple(self.stride),
            "dilation": tuple(self.dilation),
            "pad": tuple(self.pad),
            "x_stride": self.x_stride,
            "y_stride": self.y_stride,
        }


@dataclass(frozen=True)
class DepthFirstLayer:
    """Layer of a depth-first chain that a host computes in tiles of rows."""

    window: Window
    weight_bytes: int = 0
    depthwise: bool = False

    @property
    def pixels(self) -> int:
        """Number of output pixels."""
        return self.window.pixels

    @property
    def pixel_bytes(self) -> int:
        return self.window.y_stride * FLOAT

    def tile_pixels(self, width: int) -> int:
        """Return how many pixels are computed together, with tiles of this width."""
        return width if self.window.out[1] == 1 else self.window.out[2]

    def needed(self, pixels: int) -> int:
        """Return the maximum input pixels for this many adjacent output pixels."""
        w = self.window
        if w.out[1] == 1:
            return pixels
        rows = (ceil_div(pixels, w.out[2]) - 1) * w.stride[1] + w.window_extent(1)
        return min(max(rows, 0), w.in_[1]) * w.in_[2]
