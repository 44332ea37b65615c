"""A layer of the integer kernels (``kernels/conv_i8.h``): its sizes, its tiles, its C text.

Describe a convolution or a matrix product by :class:`ConvI8`, ``fit`` it to its weights, print its
``definitions()`` once a file and its ``initializer()`` once a layer; ``packing_i8`` lays out its
weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .tiles_i8 import Format, ceil_div, choose_depthwise_tile, choose_tile


@dataclass(frozen=True)
class ConvI8:
    """A convolution of 8-bit tensors, channels last; ``tvmrt_conv_i8`` in C.

    Extents of images are (depth, height, width); 1-D and 2-D layers have 1 in front. ``pad`` is
    the padding at the start, the end follows from ``out``. ``x_stride`` is the distance of input
    pixels in bytes, ``y_stride`` the distance of (batch, plane, row, pixel) in elements of the
    output; both default to dense tensors. ``parts``, ``spare_row`` and ``extra`` come from
    :meth:`fit`.
    """

    fmt: Format
    batch: int
    in_: tuple[int, int, int]
    in_c: int
    out: tuple[int, int, int]
    out_c: int
    kernel: tuple[int, int, int] = (1, 1, 1)
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    pad: tuple[int, int, int] = (0, 0, 0)
    groups: int = 1
    x_signed: bool = False
    x_zero: int = 0
    x_stride: int | None = None
    y_stride: tuple[int, int, int, int] | None = None
    y_pixel: int | None = None
    threads: int = 0
    parts: int = 1
    spare_row: int = -1
    extra: tuple[tuple[int, int], ...] = ()
    tile: tuple[int, int] | None = None

    @classmethod
    def matmul(
        cls,
        fmt: Format,
        m: int,
        k: int,
        n: int,
        *,
        lda: int | None = None,
        ldc: int | None = None,
        **more: object,
    ) -> ConvI8:
        """y[m, n] = x[m, k] * w[k, n]: a 1 x 1 convolution; pack the weights as [n, k]."""
        step = n if ldc is None else ldc
        return cls(
            fmt,
            1,
            (1, 1, m),
            k,
            (1, 1, m),
            n,
            x_stride=lda,
            y_stride=(m * step, m * step, m * step, step),
            **more,
        )  # type: ignore[arg-type]

    def fit(self, weights: np.ndarray, w_zero: np.ndarray | int = 0) -> ConvI8:
        """This layer, prepared for these weights.

        It differs where some do not fit into int8 once their zero point is taken off. To be called
        before anything is printed or packed.
        """
        layer = self._turned()
        if layer.fmt.wide:
            return layer
        return layer._with_room(centred_weights(layer, weights, w_zero))

    def _turned(self) -> ConvI8:
        """A single column as a row, which is the same memory and has longer tiles."""
        trivial = (self.kernel[2], self.stride[2], self.pad[2], self.in_[2], self.out[2])
        if trivial != (1, 1, 0, 1, 1) or self.in_[1] == 1:
            return self
        batch, plane, row, _ = self.y_steps

        def turn(extents: tuple[int, int, int], fill: int) -> tuple[int, int, int]:
            return (extents[0], fill, extents[1])

        return replace(
            self,
            in_=turn(self.in_, 1),
            out=turn(self.out, 1),
            kernel=turn(self.kernel, 1),
            stride=turn(self.stride, 1),
            dilation=turn(self.dilation, 1),
            pad=turn(self.pad, 0),
            y_stride=(batch, plane, plane, row),
            y_pixel=self.y_steps[3] if self.y_pixel is None else self.y_pixel,
        )

    def _with_room(self, centred: np.ndarray) -> ConvI8:
        """This layer with a place for what weights exceed int8 by."""
        excess = centred - np.clip(centred, -128, 127)
        if not excess.any():
            return self
        far = excess > 127  # a weight of 255 is the sum of no fewer than three numbers of int8
        if not self.depthwise:
            extra = [*self._quads_with(excess != 0), *self._quads_with(far)]
            enough = min(max(2, quads_of_run(self) * self.segments // 8), 16)
            return replace(self, extra=self._quad_places(extra)) if len(extra) <= enough else self
        if self.fmt.name != "vnni512":
            return replace(self, parts=2)
        if far.any():
            return replace(self, parts=3)
        rows = np.argwhere(excess.reshape(self.out_c, *self.depthwise_taps).any(axis=(0, 2)))[:, 0]
        if len(rows) == 1 and self.depthwise_taps[0] % 4:
            return replace(self, spare_row=int(rows[0]))
        return replace(self, parts=2)

    def _quads_with(self, chosen: np.ndarray) -> np.ndarray:
        """Which quads hold a chosen weight of any channel."""
        quads = quads_of(runs_of(self, chosen.astype(np.int64)), self.gathered)
        return np.flatnonzero(quads.any(axis=(0, 2)))

    def _quad_places(self, quads: np.ndarray) -> tuple[tuple[int, int], ...]:
        """(segment, first byte) of quads that are counted over all segments."""
        per_run = quads_of_run(self)
        last = max(0, self.run - 4)
        return tuple((int(q) // per_run, min(int(q) % per_run * 4, last)) for q in quads)

    @cached_property
    def run(self) -> int:
        """Bytes in a segment of a dense layer."""
        channels = self.in_c // self.groups
        if self.gathered:
            return ceil_div(int(np.prod(self.kernel)) * channels, 4) * 4
        return _natural_run(channels, self.kernel[2], self.per_tap)

    @cached_property
    def segments(self) -> int:
        """Segments of a dense layer."""
        taps = int(np.prod(self.kernel))
        return 1 if self.gathered else taps if self.per_tap else taps // self.kernel[2]

    @cached_property
    def x_step(self) -> int:
        return self.in_c if self.x_stride is None else self.x_stride

    @cached_property
    def y_steps(self) -> tuple[int, int, int, int]:
        if self.y_stride is not None:
            return self.y_stride
        pixel = self.out_c
        row = self.out[2] * pixel
        plane = self.out[1] * row
        return (self.out[0] * plane, plane, row, pixel)

    @cached_property
    def depthwise(self) -> bool:
        """Whether every channel has a kernel of its own, so that ``depthwise_i8.h`` serves."""
        return self.groups > 1 and self.groups == self.in_c == self.out_c

    @cached_property
    def depthwise_block(self) -> int:
        """Channels in a block of a depthwise convolution."""
        most = {"vnni512": 64, "avx2": 32, "plain": 4}.get(self.fmt.name, 16)
        return min(most, self._block_width(self.out_c))

    def _block_width(self, channels: int) -> int:
        """Channels in the vectors that hold ``channels`` of the last block."""
        if self.fmt.name not in ("vnni512", "avx2"):
            return 4 if self.fmt.lanes == 1 else 16
        return 64 if channels > 32 else 32 if channels > 16 else 16

    @cached_property
    def depthwise_taps(self) -> tuple[int, int]:
        """(rows, columns) of a depthwise kernel; the taps of a single row count as rows."""
        rows, columns = self.kernel[0] * self.kernel[1], self.kernel[2]
        return (columns, 1) if rows == 1 else (rows, columns)

    @cached_property
    def depthwise_rows(self) -> int:
        """Rows that a depthwise tile reads: those of the kernel and the spare one."""
        return self.depthwise_taps[0] + (self.spare_row >= 0)

    @cached_property
    def offset(self) -> int:
        """What the kernel adds to every activation before it multiplies."""
        if self.depthwise and self.fmt.name.startswith("neon"):
            return 0
        return self.fmt.offset(self.x_signed)

    @cached_property
    def per_tap(self) -> bool:
        """Whether every tap is a segment of its own."""
        return self.groups > 1 or (self.dilation[2] > 1 and self.kernel[2] > 1)

    @cached_property
    def gathered(self) -> bool:
        run = _natural_run(self.in_c // self.groups, self.kernel[2], self.per_tap)
        return not self.depthwise and run < 4

    @cached_property
    def flat(self) -> bool:
        """Whether all pixels form one long row."""
        if (
            self.gathered
            or max(self.kernel) > 1
            or max(self.stride) > 1
            or any(self.pad)
            or self.in_ != self.out
        ):
            return False
        y = self.y_steps
        rows = y[2] == self.out[2] * y[3] and y[1] == self.out[1] * y[2]
        return rows and (self.batch == 1 or y[0] == self.out[0] * y[1])

    @cached_property
    def width(self) -> int:
        """Pixels in the rows that are cut into tiles."""
        return self.batch * int(np.prod(self.out)) if self.flat else self.out[2]

    @cached_property
    def vectors(self) -> int:
        """Vectors of output channels in a group."""
        return ceil_div(self.out_c // self.groups, self.fmt.lanes)

    @cached_property
    def tiling(self) -> tuple[int, int]:
        """(ob, wt): vectors of channels and pixels in a tile; ob is 1 for depthwise ones."""
        if self.tile is not None:
            return self.tile
        if self.depthwise:
            return 1, choose_depthwise_tile(self.fmt, self)
        return choose_tile(self.fmt, self.vectors, self.width)

    @cached_property
    def tile_sizes(self) -> list[list[tuple[int, int]]]:
        """The sizes of the four tile functions, one of them 0 where a tile does not occur.

        (ob, wt), or (channels, wt) for depthwise ones.
        """
        ob, wt = self.tiling
        blocks = (ob if self.vectors >= ob else 0, self.vectors % ob)
        if self.depthwise:
            block = self.depthwise_block
            blocks = (block if self.out_c >= block else 0, self.out_c % block)
        widths = (wt if self.width >= wt else 0, self.width % wt)
        return [[(block, width) for width in widths] for block in blocks]

    def _tile_name(self, size: tuple[int, int]) -> str:
        kind = "s8" if self.x_signed else "u8"
        if not self.depthwise:
            return f"tvmrt_tile_i8_{size[0]}x{size[1]}_{kind}"
        rows, columns = self.depthwise_rows, self.depthwise_taps[1]
        steps = f"s{self.stride[2]}d{self.dilation[2]}"
        parts = ("", "_wide", "_wider")[self.parts - 1]
        return f"tvmrt_depthwise_i8_{rows}x{columns}{steps}_{size[0]}x{size[1]}_{kind}{parts}"

    def _definition(self, size: tuple[int, int]) -> str:
        name, signed = self._tile_name(size), int(self.x_signed)
        if not self.depthwise:
            return f"TVMRT_DEFINE_TILE_I8({name}, {size[0]}, {size[1]}, {signed})"
        rows, columns = self.depthwise_rows, self.depthwise_taps[1]
        numbers = (rows, columns, self.stride[2], self.dilation[2], size[1], size[0], self.parts)
        return f"TVMRT_DEFINE_DEPTHWISE_I8({name}, {', '.join(map(str, numbers))}, {signed})"

    def definitions(self) -> list[str]:
        """Lines of C that define the tile functions; a file holds each line once."""
        sizes = [size for row in self.tile_sizes for size in row if all(size)]
        return [self._definition(size) for size in sizes]

    def initializer(self) -> str:
        """The C initialiser of the layer's ``tvmrt_conv_i8``."""

        def array(values: tuple[int, ...]) -> str:
            return "{" + ", ".join(str(v) for v in values) + "}"

        tiles = ", ".join(
            "{" + ", ".join(self._tile_name(size) if all(size) else "NULL" for size in row) + "}"
            for row in self.tile_sizes
        )
        ob, wt = self.tiling
        fields = {
            "batch": self.batch,
            "in": array(self.in_),
            "in_c": self.in_c,
            "out": array(self.out),
            "out_c": self.out_c,
            "kernel": array(self.kernel),
            "stride": array(self.stride),
            "dilation": array(self.dilation),
            "pad": array(self.pad),
            "groups": 1 if self.depthwise else self.groups,
            "x_stride": self.x_step,
            "y_stride": array(self.y_steps),
            "y_pixel": self.y_steps[3] if self.y_pixel is None else self.y_pixel,
            "x_signed": int(self.x_signed),
            "x_zero": self.x_zero,
            "depthwise": self.depthwise_block if self.depthwise else 0,
            "weights_step": self.depthwise_bytes(self.depthwise_block) if self.depthwise else 0,
            "spare_row": self.spare_row,
            "extra": "{" + ", ".join(map(array, self.extra or ((0, 0),))) + "}",
            "extras": len(self.extra),
            "ob": ob,
            "wt": wt,
            "tile": f"{{{tiles}}}",
            "threads": self.threads,
        }
        return "{" + ", ".join(f".{name} = {value}" for name, value in fields.items()) + "}"

    def scratch_bytes(self, *, shifted: bool, epilogue: bool, pointer_bytes: int = 8) -> int:
        """What one task of the kernel asks of ``TVMBackendAllocWorkspace``.

        Parameters
        ----------
        shifted
            Whether :func:`pack_conv` returned a shift.
        epilogue
            Whether the sums go to an epilogue.
        """

        def whole(size: int) -> int:
            return ceil_div(size, 64) * 64

        columns = (self.out[2] - 1) * self.stride[2] + (self.kernel[2] - 1) * self.dilation[2] + 1
        strided = self.x_step != self.in_c and self.kernel[2] > 1 and not self.per_tap
        ring = self.pad[2] > 0 or columns - self.pad[2] > self.in_[2]
        ring = not self.gathered and (ring or (strided and not self.depthwise))
        rows = (self.kernel[1] - 1) * self.dilation[1] + 1
        rows = self.kernel[0] * self.kernel[1] if self.kernel[0] > 1 else rows
        pad_row = columns * self.in_c if ring else self.in_[2] * self.x_step
        pad_row = 0 if self.gathered or self.flat else pad_row
        segments = self.depthwise_rows if self.depthwise else self.segments
        chunk = self._chunk(epilogue)
        size = whole(segments * pointer_bytes) + whole(pad_row)
        size += rows * whole(columns * self.in_c) if ring else 0
        size += whole(chunk * self.run) if self.gathered else 0
        size += whole(chunk * 4) if shifted else 0
        size += chunk * self._padded * 4 if epilogue else 0
        return 0 if size <= 64 else size

    @cached_property
    def _padded(self) -> int:
        """Output channels with the padding of every group."""
        if self.depthwise:
            return ceil_div(self.out_c, self.depthwise_block) * self.depthwise_block
        return self.groups * self.vectors * self.fmt.lanes

    def _chunk(self, epilogue: bool) -> int:
        """Pixels that the kernel finishes for all channels before it goes on."""
        wide = self.kernel[0] * self.kernel[1] * self.stride[2] * self.in_c
        wide = 1 if self.depthwise else self.run if self.gathered else wide
        wide = max(wide, self._padded * 4) if epilogue else wide
        wt = self.tiling[1]
        return min(max(16384 // wide // wt * wt, 2 * wt), self.width)

    def depthwise_bytes(self, block: int) -> int:
        """Bytes of the packed weights of a block of that many channels."""
        rows, columns = self.depthwise_rows, self.depthwise_taps[1]
        if self.fmt.name in ("vnni512", "avx2"):
            return ceil_div(rows, 4) * 4 * columns * self.parts * block * (1 + self.fmt.wide)
        return rows * columns * block * self.parts


def _natural_run(channels: int, kernel_w: int, per_tap: bool) -> int:
    return channels if per_tap else channels * kernel_w


def centred_weights(layer: ConvI8, weights: np.ndarray, w_zero: np.ndarray | int) -> np.ndarray:
    """w - w_zero as int64 [out_c, in_c / groups, kd, kh, kw]."""
    values = weights.reshape(layer.out_c, -1, *layer.kernel).astype(np.int64)
    return values - np.asarray(w_zero, np.int64).reshape(-1, 1, 1, 1, 1)


def runs_of(layer: ConvI8, centred: np.ndarray) -> np.ndarray:
    """[out_c, segment, byte of the run] of weights [out_c, in_c / groups, kd, kh, kw]."""
    last = np.transpose(centred, (0, 2, 3, 4, 1))
    channels, kernel_w = last.shape[4], last.shape[3]
    if layer.gathered:
        return last.reshape(layer.out_c, 1, -1)
    return last.reshape(layer.out_c, -1, _natural_run(channels, kernel_w, layer.per_tap))


def quads_of(runs: np.ndarray, gathered: bool) -> np.ndarray:
    """[out_c, quads, 4]; a run that is no multiple of 4 ends with a quad that ends with the run.

    Gathered windows are padded to whole quads instead.
    """
    rest = runs.shape[2] % 4
    if rest:
        whole, last = runs[:, :, :-rest], runs[:, :, -rest:]
        zeros = np.zeros((*runs.shape[:2], 4 - rest), runs.dtype)
        runs = np.concatenate([whole, last, zeros] if gathered else [whole, zeros, last], axis=2)
    return runs.reshape(runs.shape[0], -1, 4)


def quads_of_run(layer: ConvI8) -> int:
    return ceil_div(layer.run, 4)
