"""Random layers for every kernel variant, and the C code that runs them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tvmrt.compiler.codegen.c.formatting import break_lines, initializer
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.codegen.window.tile_definitions import merge_remainder_tiles

Pads = tuple[tuple[int, int], ...]
NO_PADS: Pads = ((0, 0), (0, 0), (0, 0))
ONES = (1, 1, 1)


@dataclass(frozen=True)
class Shape:
    """A convolution; triples are depth, height, width, pads (before, after)."""

    size: tuple[int, int, int]
    channels: tuple[int, int]
    kernel: tuple[int, int, int] = ONES
    stride: tuple[int, int, int] = ONES
    dilation: tuple[int, int, int] = ONES
    pads: Pads = NO_PADS
    batch: int = 1
    groups: int = 1
    slices: tuple[int, int] = (0, 0)  # extra elements between pixels of x and y
    planes: bool = False
    transposed: bool = False
    output_padding: tuple[int, int, int] = (0, 0, 0)

    @property
    def out(self) -> tuple[int, int, int]:
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation)]
        if self.transposed:
            return tuple(
                (n - 1) * s + span + extra - sum(pads)
                for n, s, span, extra, pads in zip(
                    self.size, self.stride, spans, self.output_padding, self.pads
                )
            )  # type: ignore[return-value]
        return tuple(
            (n + sum(pads) - span) // s + 1
            for n, s, span, pads in zip(self.size, self.stride, spans, self.pads)
        )  # type: ignore[return-value]

    @property
    def fits(self) -> bool:
        """Return True if the result is not empty and the work for doubles in plain C is small."""
        macs = np.prod(self.out) * self.batch * np.prod(self.kernel) * np.prod(self.channels)
        ends = all(sum(p) + n > 0 for p, n in zip(self.pads, self.size))
        return ends and min(self.out) > 0 and macs / self.groups < 3e6

    def initializer(self) -> str:
        """Return the initialiser of a ``ck_shape``."""
        fields = {
            "batch": self.batch, "in": self.size, "out": self.out, "kernel": self.kernel,
            "stride": self.stride, "dilation": self.dilation,
            "pad": tuple(pads[0] for pads in self.pads), "in_c": self.channels[0],
            "out_c": self.channels[1], "groups": self.groups,
            "x_stride": 1 if self.planes else self.channels[0] + self.slices[0],
            "y_stride": self.channels[1] + self.slices[1], "transposed": int(self.transposed),
            "planes": int(self.planes),
        }  # fmt: skip
        return initializer(fields)

    def __str__(self) -> str:
        parts = [f"{'x'.join(map(str, self.size))}", f"{self.channels[0]}to{self.channels[1]}"]
        for name in ("kernel", "stride", "dilation"):
            if getattr(self, name) != ONES:
                parts.append(f"{name[0]}{'x'.join(map(str, getattr(self, name)))}")
        if self.pads != NO_PADS:
            parts.append("p" + "_".join(f"{a}:{b}" for a, b in self.pads))
        for name in ("batch", "groups"):
            if getattr(self, name) != 1:
                parts.append(f"{name}{getattr(self, name)}")
        if self.slices != (0, 0):
            parts.append(f"slices{self.slices[0]}:{self.slices[1]}")
        return " ".join(parts + ["planes"] * self.planes)


class Random:
    """Random shapes, each kind in turn."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.turns = 0

    def turn(self) -> int:
        """Return a counter that increases with each call, for choices in turn."""
        self.turns += 1
        return self.turns

    def int(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def chance(self, part: float) -> bool:
        return bool(self.rng.random() < part)

    def one(self, *choices):
        return choices[self.int(0, len(choices) - 1)]

    def pair(self, least: int, most: int) -> tuple[int, int]:
        return self.int(least, most), self.int(least, most)

    def image(self, least: int = 1, most: int = 12) -> tuple[int, int, int]:
        return (1, *self.pair(least, most))

    def square(self, kernel: int, **more) -> Shape:
        """Return a window with this many rows and columns, and any padding up to half of it."""
        half = kernel // 2
        pads = ((0, 0), self.pair(0, half), self.pair(0, half))
        channels = (self.one(1, 3, 4, 8, self.int(1, 40)), self.int(1, 70))
        fields = {"size": self.image(kernel, 13), "channels": channels, "pads": pads}
        return Shape(**{**fields, "kernel": (1, kernel, kernel), **more})  # type: ignore[arg-type]

    def dense(self, number: int) -> Shape:
        """Return the layer with this number, kinds in turn; any of them may be sliced or
        batched."""
        kinds = [
            self.usual, self.first, self.pointwise, self.picked, self.far, self.line, self.solid,
            self.grouped, self.many_groups, self.deep, self.tall, self.beyond, self.lone,
        ]  # fmt: skip
        while True:
            shape = kinds[number % len(kinds)]()
            if self.chance(0.25):
                shape = replace(shape, slices=self.pair(0, 5))
            if self.chance(0.25) and shape.size[1] < 40:
                shape = replace(shape, batch=self.int(2, 3))
            if shape.fits:
                return shape

    def usual(self) -> Shape:
        return self.square(self.one(2, 3, 3, 5))

    def first(self) -> Shape:
        """Return the first layer of an image network."""
        channels = (self.int(1, 4), self.int(4, 40))
        size = (1, *self.pair(8, 24))
        return self.square(self.int(3, 7), size=size, channels=channels, stride=(1, 2, 2))

    def pointwise(self) -> Shape:
        size = self.one((1, 1, self.int(1, 200)), self.image())
        return Shape(size, (self.int(1, 150), self.int(1, 130)))

    def picked(self) -> Shape:
        """Return a layer with strided pixels, some of which may be padding."""
        pads = self.one(NO_PADS, ((0, 0), (1, 0), (1, 2)))
        stride = (1, *self.pair(1, 3))
        return Shape(
            self.image(3, 12), (self.int(1, 60), self.int(1, 40)), ONES, stride, ONES, pads
        )

    def far(self) -> Shape:
        """Return a layer with large column dilation: many columns are padding, and rows are split
        into segments."""
        dilation = (1, *self.pair(1, 13))
        kernel = (1, *self.pair(1, 4))
        reach = [(k - 1) * d for k, d in zip(kernel, dilation)]
        pads = ((0, 0), self.pair(0, reach[1] + 1), self.pair(reach[2] // 2, reach[2] + 3))
        stride = (1, self.int(1, 2), self.int(1, 2))
        channels = (self.one(2, 3, 5, self.int(1, 24)), self.int(1, 40))
        return Shape(self.image(3, 26), channels, kernel, stride, dilation, pads)

    def line(self) -> Shape:
        kernel, dilation, stride = self.int(2, 7), self.one(1, 2, 14), self.int(1, 3)
        pads = ((0, 0), (0, 0), self.pair(0, (kernel - 1) * dilation))
        return Shape((1, 1, self.int(20, 60)), (self.int(1, 12), self.int(1, 40)), (1, 1, kernel),
                     (1, 1, stride), (1, 1, dilation), pads)  # fmt: skip

    def solid(self) -> Shape:
        kernel = (self.int(2, 3), self.int(1, 3), self.int(1, 3))
        pads = tuple((self.int(0, k // 2), self.int(0, k // 2)) for k in kernel)
        strides = tuple(self.int(1, 2) for _ in range(3))
        dilations = (self.int(1, 2), 1, self.int(1, 2))
        size = (self.int(5, 6), self.int(5, 7), self.int(5, 7))
        return Shape(size, (self.int(1, 5), self.int(1, 22)), kernel, strides, dilations, pads)

    def grouped(self) -> Shape:
        groups = self.int(2, 6)
        channels = (groups * self.int(1, 16), groups * self.int(1, 16))
        kernel = self.one(1, 3)
        return self.square(kernel, channels=channels, groups=groups)

    def many_groups(self) -> Shape:
        """Return a layer of groups that threads may share; pixels are copied 32 and 64 bytes at a
        time."""
        groups = self.int(10, 25)
        channels = (groups * self.one(1, 2, 4, 8, 16), groups * self.one(1, 2, 8))
        return self.square(3, channels=channels, groups=groups, size=self.image(3, 7))

    def deep(self) -> Shape:
        """Return a layer with more weights than a cache, processed in blocks."""
        kernel = self.one(1, 1, 3)
        channels = (self.int(100, 500), self.int(100, 300))
        return self.square(kernel, channels=channels, size=self.image(kernel, 4))

    def tall(self) -> Shape:
        """Return a layer of a single column."""
        kernel, dilation = self.int(2, 5), self.int(1, 4)
        pads = ((0, 0), self.pair(0, 2), (0, 0))
        return Shape((self.int(1, 2), self.int(21, 40), 1), (self.int(1, 8), self.int(1, 20)),
                     (1, kernel, 1), (1, self.int(1, 2), 1), (1, dilation, 1), pads)  # fmt: skip

    def beyond(self) -> Shape:
        """Return a layer with windows entirely in padding, or with cropping."""
        pads = ((0, 0), self.pair(3, 5), self.pair(3, 5))
        if self.chance(0.5):
            return self.square(
                3, size=self.image(6, 9), pads=((0, 0), (1, 1), (-1, self.int(0, 2)))
            )
        return self.square(self.one(3, 5), size=self.image(1, 3), pads=pads)

    def lone(self) -> Shape:
        """Return a layer with a remainder of one pixel for tiles of 14."""
        return Shape((1, 1, 14 * self.int(2, 6) + 1), self.pair(10, 40))

    def pictures(self) -> Shape:
        """Return a layer with NCHW channels."""
        while True:
            channels = (self.int(2, 4), self.int(4, 30))
            shape = self.square(self.int(2, 5), channels=channels, size=(1, *self.pair(5, 30)))
            stride = self.int(1, 2)
            shape = replace(shape, stride=(1, stride, stride), planes=True)
            if shape.fits:
                return shape

    def depthwise(self, number: int, multiples: int = 1) -> Shape:
        """Return a depthwise layer."""
        while True:
            channels = self.one(self.int(1, 8), self.int(9, 40), self.int(40, 150)) * multiples
            kernel = (1, *self.pair(1, 7))
            stride, dilation = ONES, ONES
            if number % 3 != 0:
                kernel = (1, *self.one((3, 3), (3, 3), (5, 5), (7, 7)))
            if number % 4 == 1:
                stride = (1, self.int(1, 3), self.int(1, 3))
            if number % 5 == 4:
                dilation = (1, *self.pair(1, 3))
            if number % 7 == 5:
                kernel = self.one((3, 3, 3), (1, 1, 15), (1, 25, 3), (1, 9, 9))
            size = (kernel[0] + 1, self.int(kernel[1], 12 + kernel[1]), self.int(2, 30))
            pads = tuple(
                (self.int(0, k // 2 * d), self.int(0, k // 2 * d)) for k, d in zip(kernel, dilation)
            )
            shape = Shape(size if kernel[0] > 1 else (1, *size[1:]), (channels, channels), kernel,
                          stride, dilation, pads, self.one(1, 1, 2), channels)  # fmt: skip
            if self.chance(0.25):
                shape = replace(shape, slices=self.pair(0, 5))
            if shape.fits:
                return shape

    def transposed(self, number: int) -> Shape:
        while True:
            kernel = (1, *self.pair(1, 5))
            stride = (1, *self.pair(1, 3))
            dilation = (1, *self.one((1, 1), (1, 1), (2, 3)))
            size = (1, *self.pair(1, 9))
            if number % 5 == 4:
                kernel, stride, size = (2, 3, 3), (2, 1, 2), (3, 4, 5)
            groups = self.one(1, 1, 4)
            if number % 5 == 2:  # windows of whole strides
                kernel, groups = (1, kernel[1], stride[2] * self.int(1, 3)), 1
            channels = (groups * self.int(1, 16), groups * self.int(1, 24))
            pads = tuple((self.int(0, k // 2), self.int(0, k // 2)) for k in kernel)
            if number % 5 == 3:  # heavily cropped
                kernel, size, pads = (1, 5, 5), (1, 4, 4), ((0, 0), (4, 3), (4, 3))
            extra = tuple(self.int(0, s - 1) for s in stride)
            shape = Shape(size, channels, kernel, stride, dilation, pads, self.one(1, 2), groups,
                          transposed=True, output_padding=extra)  # fmt: skip
            if self.chance(0.25):
                shape = replace(shape, slices=self.pair(0, 5))
            if shape.fits:
                return shape

    def winograd(self) -> Shape:
        """Return a 3x3 layer of stride 1."""
        while True:
            shape = self.square(3, batch=self.one(1, 1, 3))
            if self.chance(0.3):
                shape = replace(shape, slices=self.pair(0, 5))
            if shape.fits:
                return shape

    def matrices(self, number: int) -> Shape:
        """Return a layer for AMX tiles in every second case, else any layer."""
        if number % 2:
            return self.dense(number // 2)
        while True:
            kind, channels = number // 2 % 4, (64 * self.int(1, 4), self.int(17, 150))
            if kind == 0:  # padded copies of images
                shape = self.square(self.one(3, 3, 5), size=self.image(3, 7), channels=channels)
            elif kind == 1:  # im2col
                shape = self.square(self.one(1, 3), size=self.image(5, 9), channels=channels,
                                    stride=(1, 2, 2))  # fmt: skip
            elif kind == 2:  # colours, in pairs of rows
                shape = self.square(self.int(3, 7), size=self.image(9, 40), stride=(1, 2, 2),
                                    channels=(self.int(1, 4), self.int(16, 70)))  # fmt: skip
            else:
                shape = Shape((1, self.int(1, 3), self.int(7, 45)),
                              (self.one(40, 64, 132, 512), self.int(17, 300)))  # fmt: skip
            if shape.fits:
                return shape

    def normal(self, *extents: int) -> np.ndarray:
        return self.rng.standard_normal(extents).astype(np.float32)


@dataclass
class Layers:
    """The layers of a program, as C and as arrays."""

    target: Target
    random: Random
    headers: dict[str, None] = field(default_factory=dict)
    definitions: dict[object, None] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    arrays: bytearray = field(default_factory=bytearray)

    def add(
        self, name: str, shape: Shape, body: str, fields: dict[str, object],
        arrays: list[np.ndarray | None],
    ) -> None:  # fmt: skip
        """Add a layer: the body of its function, members of its ``ck_layer``, and its arrays in the
        order of ``check_layers.c``."""
        run = f"run_{len(self.functions)}"
        self.functions.append(f"static int {run}(const ck_tensors* t) {{\n{body}\n}}")
        usual = {"scratch": -1, "loss": "1.0f", "low": "-INFINITY", "high": "INFINITY"}
        members = {"name": f'"{name} {shape}"', "run": run, **usual, **fields}
        members["shape"] = shape.initializer()
        self.entries.append(initializer(members))
        for array in arrays:
            data = b"" if array is None else np.ascontiguousarray(array).tobytes()
            self.arrays += np.uint32(len(data)).tobytes() + data

    def need(self, headers, definitions) -> None:
        self.headers.update(dict.fromkeys(headers))
        self.definitions.update(dict.fromkeys(definitions))

    def text(self, head: str, extra: str = "", calls: str = "", function: str = "ck_all") -> str:
        """Return the C file whose function runs all layers, with the functions in ``calls``."""
        lines = [
            head,
            '#include "checkasm.h"',
            "#include <math.h>",
            *(f"#include <tvm/runtime/kernels/{name}>" for name in self.headers),
            extra,
            *merge_remainder_tiles(self.definitions),
            *self.functions,
            "static const ck_layer layers[] = {",
            *(f"    {entry}," for entry in self.entries),
            "};",
            f"void {function}(void);",
            f"void {function}(void) {{",
            "  for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {",
            "    ck_check_layer(&layers[i]);",
            "  }",
            calls,
            "}",
        ]
        return break_lines("\n".join(lines)) + "\n"


def spread(full: int, part: float) -> list[int]:
    """Return the numbers of layers, spread evenly over ``full`` kinds in turn."""
    count = round(full * part)
    return [i * full // count for i in range(count)] if part < 1 else list(range(count))


def struct(kind: str, name: str, fields) -> str:
    return f"  static const {kind} {name} = {fields};"


def bounds(random: Random) -> dict[str, str]:
    """Return the bounds of results, as C."""
    low, high = random.one(("-INFINITY", "INFINITY"), ("0.0f", "INFINITY"), ("0.0f", "1.5f"),
                           ("-0.5f", "0.5f"))  # fmt: skip
    return {"low": low, "high": high}
