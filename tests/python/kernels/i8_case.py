"""Random 8-bit convolutions: numpy's answer, and the kernel's by a small C file."""

from __future__ import annotations

import ctypes
import zlib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from kernel_build import OPTIMISE, build, pointer

from tvmrt import processor
from tvmrt.codegen.window.layer_i8 import ConvI8
from tvmrt.codegen.window.packing_i8 import PackedI8, pack_conv, pad_channels
from tvmrt.codegen.window.plan import Window
from tvmrt.codegen.window.tiles_i8 import FORMATS, Format

AMX = "amx_int8" in processor.flags()
FLAGS = {
    # where the processor has none, by a model of the registers
    "amx": [
        *[*OPTIMISE, "-march=native"],
        *([] if AMX else ["-include", str(Path(__file__).parent / "amx_model.h")]),
    ],
    "vnni512": [*OPTIMISE, "-march=native"],
    # as AVX-512 encodes the instructions: no processor with the others is at hand
    "avxvnni": [*OPTIMISE, "-mavx2", "-mfma", "-mavx512vl", "-mavx512vnni"],
    "avx2": [*OPTIMISE, "-mavx2", "-mfma", "-mno-avx512f"],
    "plain": ["-O2"],
}


@lru_cache(maxsize=1)
def usable_formats() -> tuple[str, ...]:
    """The formats that this processor can run."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        flags = []
    names = ["plain"]
    if "avx2" in flags and "fma" in flags:
        names.append("avx2")
    if "avx512_vnni" in flags and "avx512bw" in flags and "avx512vl" in flags:
        names += ["vnni512", "avxvnni", "amx"]
    if (
        AMX
    ):  # arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA): the system gives the registers to who asks
        assert ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0
    return tuple(names)


@dataclass(frozen=True)
class Quantised:
    """Scale, zero point and type of an 8-bit tensor."""

    scale: float
    zero: int
    signed: bool

    def quantise(self, real: np.ndarray) -> np.ndarray:
        """QuantizeLinear in single precision."""
        steps = np.rint(real.astype(np.float32) / np.float32(self.scale)) + self.zero
        low, high, kind = (-128, 127, np.int8) if self.signed else (0, 255, np.uint8)
        return np.clip(steps, low, high).astype(kind)


@dataclass(frozen=True)
class Shape:
    """A convolution as ONNX describes it; pads are (start, end) per axis."""

    batch: int = 1
    in_c: int = 8
    out_c: int = 8
    size: tuple[int, ...] = (7, 7)
    kernel: tuple[int, ...] = (3, 3)
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    pad: tuple[tuple[int, int], ...] = ((1, 1), (1, 1))
    groups: int = 1

    @property
    def out(self) -> tuple[int, ...]:
        return tuple(
            (s + sum(p) - (k - 1) * d - 1) // st + 1
            for s, p, k, d, st in zip(self.size, self.pad, self.kernel, self.dilation, self.stride)
        )


def three(values: tuple[int, ...], fill: int) -> tuple[int, int, int]:
    """The last three extents, with `fill` in front."""
    return (*([fill] * (3 - len(values))), *values)  # type: ignore[return-value]


def layer(fmt: Format, s: Shape, x_signed: bool, x_zero: int, **more: object) -> ConvI8:
    pads = tuple(p[0] for p in s.pad)
    window = Window(
        s.batch,
        three(s.size, 1),
        three(s.out, 1),
        s.in_c,
        s.out_c,
        three(s.kernel, 1),
        three(s.stride, 1),
        three(s.dilation, 1),
        three(pads, 0),
    )
    return ConvI8(fmt, window, s.in_c, s.out_c, s.groups, x_signed, x_zero, **more)  # type: ignore[arg-type]


def random_bytes(rng: np.random.Generator, signed: bool, shape: tuple[int, ...]) -> np.ndarray:
    low = -128 if signed else 0
    return rng.integers(low, low + 256, shape).astype(np.int8 if signed else np.uint8)


def integer_conv(
    x: np.ndarray, w: np.ndarray, s: Shape, x_zero: int, w_zero: np.ndarray | int
) -> np.ndarray:
    """sum((x - x_zero) * (w - w_zero)) in int64; x [N, *size, C], w [OC, IC / groups, *kernel]; y
    [N, *out, OC].
    """
    pads = [(0, 0), *s.pad, (0, 0)]
    centred = np.pad(x.astype(np.int64) - x_zero, pads)
    weights = w.astype(np.int64) - np.asarray(w_zero, np.int64).reshape(-1, *[1] * (w.ndim - 1))
    y = np.zeros((s.batch, *s.out, s.out_c), np.int64)
    of_in, of_out = s.in_c // s.groups, s.out_c // s.groups
    for tap in np.ndindex(*s.kernel):
        window = tuple(
            slice(t * d, t * d + (o - 1) * st + 1, st)
            for t, d, o, st in zip(tap, s.dilation, s.out, s.stride)
        )
        part = centred[(slice(None), *window)]
        for g in range(s.groups):
            ins, outs = slice(g * of_in, (g + 1) * of_in), slice(g * of_out, (g + 1) * of_out)
            y[..., outs] += part[..., ins] @ weights[(outs, slice(None), *tap)].T
    return y


def requantise(acc: np.ndarray, scale: np.ndarray, zero: int, low: int, high: int) -> np.ndarray:
    """clamp(round_half_even(float32(acc) * scale) + zero)."""
    q = np.rint(acc.astype(np.float32) * scale.astype(np.float32)).astype(np.int64) + zero
    return np.clip(q, low, high)


ARGUMENTS = """const void* x, const int8_t* weights, const int32_t* bias, const float* scale,
        const int32_t* shift, void* y, const tvmrt_i8_range* range, const void* ctx"""
HEAD = """
#define TVMRT_I8_FORMAT {macro}
#include <tvm/runtime/kernels/depthwise_i8.h>
#include <tvm/runtime/kernels/tile/requantize.h>
{headers}
"""
FUNCTION = """
int {name}({arguments});
int {name}({arguments}) {{
  static const tvmrt_conv_i8 conv = {conv};
  const tvmrt_conv_i8_data data = {{
      x, weights, bias, scale, shift, y, range, {epilogue}, ctx, {y_bytes}, NULL, NULL, NULL, 0}};
  return tvmrt_conv_i8_run(&conv, &data);
}}
"""


def includes(fmt: Format) -> str:
    """Lines of C: the headers of the format's tiles."""
    return "#include <tvm/runtime/kernels/tile/amx_i8.h>" if fmt.matrices else ""


def source(layers: dict[str, ConvI8], epilogue: str = "NULL", y_bytes: int = 1) -> str:
    """C with a function for each layer."""
    tiles = dict.fromkeys(line for conv in layers.values() for line in conv.definitions())
    functions = [
        FUNCTION.format(
            name=name,
            arguments=ARGUMENTS,
            conv=conv.initializer(shifted=True, epilogue=epilogue != "NULL"),
            epilogue=epilogue,
            y_bytes=y_bytes,
        )
        for name, conv in layers.items()
    ]
    first = next(iter(layers.values()))
    head = HEAD.format(macro=first.fmt.macro, headers=includes(first.fmt))
    return "\n".join([head, *tiles, *functions])


def int8_range(
    zero: int, signed: bool, low: int | None = None, high: int | None = None
) -> np.ndarray:
    """A tvmrt_i8_range."""
    least = -128 if signed else 0
    return np.array(
        [zero, least if low is None else low, least + 255 if high is None else high, signed],
        np.int32,
    )


def exact(array: np.ndarray) -> np.ndarray:
    """A copy in a buffer of its own, so that an address sanitiser sees its ends."""
    return np.array(array, copy=True, order="C")


def run_conv(
    folder: Path,
    conv: ConvI8,
    x: np.ndarray,
    w: np.ndarray,
    w_zero: np.ndarray | int,
    bias: np.ndarray,
    scale: np.ndarray,
    y: np.ndarray,
    out_range: np.ndarray,
    *,
    cc: str = "gcc",
    flags: list[str] | None = None,
    epilogue: str = "NULL",
    ctx: object = None,
) -> np.ndarray:
    """Runs the kernel into `y` and returns it."""
    packed = pack_conv(conv, w, w_zero, bias)
    library = build(
        folder,
        source({"run": conv}, epilogue, y.itemsize),
        FLAGS[conv.fmt.name] if flags is None else flags,
        cc,
    )
    padded = pad_channels(conv, scale.astype(np.float32))
    status = library.run(
        pointer(x),
        pointer(packed.weights),
        pointer(packed.bias),
        pointer(padded),
        pointer(packed.shift),
        pointer(y),
        pointer(out_range),
        pointer(ctx)
        if isinstance(ctx, np.ndarray)
        else ctypes.byref(ctx)
        if ctx is not None
        else None,
    )
    assert status == 0
    return y


# x signed, x zero, w signed, w zero (a number, or "channel" for one per channel), y signed, y zero
TYPES = {
    "u8-s8-u8": (False, 128, True, 0, False, 7),
    "s8-s8-s8": (True, -5, True, 0, True, 11),
    "u8-u8-u8": (False, 3, False, 121, False, 0),
    "s8-u8-s8": (True, 127, False, 255, True, -128),
    "s8-s8-zero": (True, -128, True, -128, False, 255),
    "u8-s8-channel": (False, 77, True, "channel", True, 0),
    "u8-u8-outliers": (False, 9, False, 120, False, 3),
    "s8-u8-outliers": (True, 9, False, 140, True, 3),
    "u8-u8-far-outliers": (False, 128, False, 0, False, 3),
}


@dataclass(frozen=True)
class Call:
    """A random convolution ready to run, and numpy's answer."""

    conv: ConvI8
    x: np.ndarray
    packed: PackedI8
    scale: np.ndarray
    range: np.ndarray
    expected: np.ndarray

    def arrays(self) -> list[np.ndarray | None]:
        """What the C function reads, in its order, but for y and ctx."""
        packed = self.packed
        return [self.x, packed.weights, packed.bias, self.scale, packed.shift]


@cache
def random_call(fmt: str, shape: Shape, types: str) -> Call:
    x_signed, x_zero, w_signed, w_zero, y_signed, y_zero = TYPES[types]
    rng = np.random.default_rng(zlib.crc32(repr((types, shape)).encode()))
    x = random_bytes(rng, x_signed, (shape.batch, *shape.size, shape.in_c))
    w = random_bytes(rng, w_signed, (shape.out_c, shape.in_c // shape.groups, *shape.kernel))
    if "outliers" in types:  # all but one weight fit into int8 once the zero point is taken off
        w = (w // 3 + (0 if "far" in types else 80)).astype(w.dtype)
        w.reshape(-1)[w.size * 2 // 3] = 255 if w_zero < 128 else 0
    if w_zero == "channel":
        w_zero = rng.integers(-3, 4, shape.out_c)
    bias = rng.integers(-5000, 5000, shape.out_c).astype(np.int32)
    acc = integer_conv(x, w, shape, x_zero, w_zero) + bias
    scale = rng.uniform(0.5, 1.5, shape.out_c) * 60 / max(1.0, float(acc.std()))
    out_range = int8_range(y_zero, y_signed)
    q = requantise(acc, scale.astype(np.float32), y_zero, int(out_range[1]), int(out_range[2]))
    conv = layer(FORMATS[fmt], shape, x_signed, x_zero).fit(w, w_zero)
    packed = pack_conv(conv, w, w_zero, bias)
    padded = pad_channels(conv, scale.astype(np.float32))
    return Call(conv, x, packed, padded, out_range, q.astype(np.int8 if y_signed else np.uint8))


class Batch:
    """Random convolutions that share a C file, since compiling is what takes time."""

    def __init__(self, shapes: dict[str, Shape]) -> None:
        self.shapes = list(shapes.values())
        self.index = {name: f"run_{i}" for i, name in enumerate(shapes)}

    def calls(self, fmt: str, types: str) -> dict[str, Call]:
        return {f"run_{i}": random_call(fmt, s, types) for i, s in enumerate(self.shapes)}

    def source(self, fmt: str, types: str) -> str:
        return source({name: call.conv for name, call in self.calls(fmt, types).items()})

    def check(
        self,
        folder: Path,
        fmt: str,
        name: str,
        types: str,
        *,
        cc: str = "gcc",
        flags: list[str] | None = None,
    ) -> None:
        """Asserts that the kernel's bytes for one shape are numpy's."""
        library = build(folder, self.source(fmt, types), flags or FLAGS[fmt], cc)
        run, call = self.index[name], self.calls(fmt, types)[self.index[name]]
        y = np.zeros_like(call.expected)
        pointers = [pointer(a) for a in (*call.arrays(), y, call.range, None)]
        assert library[run](*pointers) == 0
        np.testing.assert_array_equal(y, call.expected)

    def program(self, fmt: str, types: str) -> str:
        """C of a program that runs all from a file of their inputs, each in a heap block of its
        own.

        The file has the arrays of the calls one behind the other; the answers go to a second file.
        """
        body = []
        for name, call in self.calls(fmt, types).items():
            sizes = [0 if a is None else a.nbytes for a in call.arrays()]
            body.append(
                f"  run_one({name}, (const size_t[]){{{', '.join(map(str, sizes))}}},"
                f" {call.expected.nbytes},"
                f" (const tvmrt_i8_range*)(const int32_t[]){{{', '.join(map(str, call.range))}}});"
            )
        return self.source(fmt, types) + PROGRAM.replace("BODY", "\n".join(body))


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
static FILE *in, *out;
typedef int (*layer)(const void*, const int8_t*, const int32_t*, const float*, const int32_t*,
                     void*, const tvmrt_i8_range*, const void*);
static void run_one(layer run, const size_t* bytes, size_t y_bytes, const tvmrt_i8_range* range) {
  void* array[5];
  void* y = malloc(y_bytes);
  for (int i = 0; i < 5; i++) {
    array[i] = bytes[i] ? malloc(bytes[i]) : NULL;
    if (bytes[i] && fread(array[i], 1, bytes[i], in) != bytes[i]) exit(3);
  }
  if (run(array[0], array[1], array[2], array[3], array[4], y, range, NULL) != 0) exit(4);
  if (fwrite(y, 1, y_bytes, out) != y_bytes) exit(5);
  for (int i = 0; i < 5; i++) free(array[i]);
  free(y);
}
int main(int count, char** names) {
  if (count != 3 || !(in = fopen(names[1], "rb")) || !(out = fopen(names[2], "wb"))) return 2;
BODY
  return fclose(in) || fclose(out);
}
"""
