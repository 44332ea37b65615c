"""Random layers for the kernels of microcontrollers, run on boards and hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
from layers import Layers, Shape, bounds, struct
from layers_f32 import window_of
from layers_i8 import Quantised, ck_range

from tvmrt.compiler.codegen.c.formatting import initializer
from tvmrt.compiler.codegen.c_source import operator_file
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.codegen.window.boards.float32 import KERNELS as FLOATS
from tvmrt.compiler.codegen.window.boards.int8 import KERNELS
from tvmrt.compiler.codegen.window.boards.kernel import MicroKernel
from tvmrt.compiler.codegen.window.boards.layer_f32 import MicroLayerF32
from tvmrt.compiler.codegen.window.boards.layer_i8 import MicroLayerI8, micro_shape
from tvmrt.compiler.codegen.window.boards.requant_multipliers import (
    all_fixed_point,
    requant_multipliers,
)
from tvmrt.compiler.codegen.window.boards.shape import MicroShape
from tvmrt.compiler.codegen.window.layer_i8 import LayerI8

TRIES = 400  # shapes that are tried until one fits a kernel
MAX_MACS = 2e5

BODY = """{layer}
  const {kind} data = {data};
{lend}  return {call};"""
# a layer without enough scratch is refused
REFUSED = """  tvmrt_scratch_provide((uint8_t*)t->scratch, 16);
  if ({call} == 0) return 1;
"""


def lend(scratch: int, call: str) -> str:
    """Return C code that passes scratch memory to a layer."""
    refused = REFUSED.format(call=call) if scratch > 16 else ""
    lent = f"  tvmrt_scratch_provide((uint8_t*)t->scratch, {up(scratch)});\n" if scratch else ""
    return refused + lent


def macros(target: Target) -> list[str]:
    """Return the macros that the product defines before including a board's integer kernels."""
    function = SimpleNamespace(
        includes=["board/conv_i8_2x2_dsp.h"], macros={}, definitions=[], text=""
    )
    text = operator_file([], [function], target)  # type: ignore[list-item]
    return [line for line in text.splitlines() if line.startswith("#define TVMRT_")]


def random_shape(layers: Layers, depthwise: bool) -> Shape:
    """Return a two-dimensional layer, small enough for an emulated board."""
    random = layers.random
    while True:
        if depthwise:
            s = random.depthwise(random.int(0, 4))
            kernel = random.one((3, 3), (3, 3), (5, 5), (7, 7), random.pair(1, 8))
            pads = (random.pair(-1, kernel[0]), random.pair(-2, kernel[1]))
            channels = random.one(random.int(1, 8), 4 * random.int(1, 5), random.int(9, 40))
            size = (1, random.int(1, 9), random.int(1, 13))
            stride = random.one((1, 1), (1, 1), (2, 2), (1, 2), (2, 1))
            dilation = random.one((1, 1), (1, 1), (1, 1), random.pair(1, 2))
            if random.chance(0.2):  # over time, in one row or one column
                kernel, size, stride = (random.int(1, 30), 1), (1, random.int(1, 40), 1), (1, 1)
                if random.chance(0.6):
                    kernel, size = kernel[::-1], (size[0], *size[:0:-1])
                pads = tuple((k // 2, (k - 1) // 2) for k in kernel)
            if random.chance(0.3):  # a result that may overwrite the input
                pads = tuple((k // 2, (k - 1) // 2) for k in kernel)  # type: ignore[assignment]
                stride = dilation = (1, 1)
            s = Shape(size, (channels, channels), (1, *kernel), (1, *stride), (1, *dilation),
                      ((0, 0), *pads), random.one(1, 1, 2), channels)  # fmt: skip
        else:
            s = random.one(random.usual, random.usual, random.first, random.pointwise, random.line,
                           random.far, random.beyond, random.deep)()  # fmt: skip
            if random.chance(0.2):
                s = Shape((1, 1, random.int(1, 6)), (random.int(1, 60), random.int(1, 40)))
            if s.channels[0] == s.channels[1] == 1:
                continue
            if random.chance(0.2):
                s = replace(s, batch=2)
        if (
            s.fits
            and np.prod(s.out) * s.batch * np.prod(s.kernel) * np.prod(s.channels) / s.groups
            < MAX_MACS
        ):
            return s


def drawn(layers: Layers, kernel: MicroKernel):
    """Return a random layer that the kernel supports, its shape, and its integer weights."""
    is_depthwise = "depthwise" in kernel.name
    for _ in range(TRIES):
        s = random_shape(layers, is_depthwise)
        q = Quantised.random(layers.random, s, layers.random.turn())
        if q.w.dtype == np.int8 and q.extremes < 2 and layers.random.chance(0.8):
            q = replace(
                q, w=np.maximum(q.w, -127)
            )  # 16 bits cannot represent -128 above a negative one
        conv = LayerI8(window_of(s), *s.channels, s.groups, q.x_signed, q.x_zero)
        shape = micro_shape(conv, q.scale)
        if shape is None:
            continue
        one = MicroLayerI8(shape, conv, q.w, q.w_zero, q.bias)
        if kernel.supports(one):
            return s, q, one
    return None


def add_integers(kernel: MicroKernel, name: str, layers: Layers, _number: int) -> None:
    random = layers.random
    found = drawn(layers, kernel)
    if found is None:
        return
    s, q, one = found
    signed, is_accumulator = random.chance(0.6), random.chance(0.2)
    low = -128 if signed else 0
    zero = random.one(low, low + 255, random.int(low, low + 255))
    high = low + 255
    if random.chance(0.25):
        low, high = low + 40, low + 130
    packed, multipliers = kernel.pack(one), requant_multipliers(q.scale, zero, low, high)
    fixed = packed.shift is None and all_fixed_point(multipliers)
    bounds = (0, 0, 0, False) if is_accumulator else (zero, low, high, signed)
    members = one.members(kernel, 4 if is_accumulator else 1, bounds, fixed_point_only=fixed)
    call, scratch = kernel.call(one, "&layer"), kernel.scratch(one).bytes
    data = (
        "{t->x, t->w, (const int32_t*)t->bias, t->scale, (const int32_t*)t->shift, t->y, %s, NULL}"
    )
    body = BODY.format(
        layer=struct("tvmrt_micro_conv_i8", "layer", initializer(members)),
        kind="tvmrt_micro_data", data=data % ("tvmrt_i8_rows_int32" if is_accumulator else "NULL"),
        call=call, lend=lend(scratch, call),
    )  # fmt: skip
    fields = {
        "type": "CK_I8", "output": "CK_INT32" if is_accumulator else "CK_BYTES",
        "y": ck_range(zero, signed, low, high), "x": ck_range(q.x_zero, q.x_signed),
        "extremes": int(q.extremes), "scratch": up(scratch) + 16,
        "in_place": int(one.shape.in_place and not is_accumulator),
    }  # fmt: skip
    layers.need([kernel.header, "tile/requantize.h"], [])
    weights = packed.weights
    arrays = [q.w.astype(np.int16), q.zeros, weights, q.bias, packed.bias, q.scale, multipliers,
              packed.shift]  # fmt: skip
    words = f"{' shifted' * (packed.shift is not None)}{' fixed' * fixed}"
    layers.add(f"board_i8 {name}{words}", s, body, fields, arrays)


def add_floats(kernel: MicroKernel, name: str, layers: Layers, number: int) -> None:
    random = layers.random
    for _ in range(TRIES):
        s = random_shape(layers, "depthwise" in name)
        depthwise = s.groups > 1
        shape = MicroShape(window_of(s), *s.channels, depthwise)
        low_high, plain = bounds(random), name == "dense" or random.chance(0.3)
        if name == "dense":
            low_high = random.one({"low": "-INFINITY", "high": "INFINITY"},
                                  {"low": "0.0f", "high": "INFINITY"})  # fmt: skip
        low, high = (float(v.rstrip("f").replace("INFINITY", "inf")) for v in low_high.values())
        w = random.normal(s.channels[1], s.channels[0] // s.groups, *s.kernel)
        bias = random.normal(s.channels[1])
        if not shape.is_supported or s.groups not in (1, s.channels[0]):
            continue
        one = MicroLayerF32(shape, w[:, :, 0], bias, low, high, shape.in_place and not plain, plain)
        if kernel.supports(one):
            break
    else:
        return
    members = one.members(kernel, s.channels[1])
    packed, scratch = kernel.pack(one), kernel.scratch(one).bytes
    call = kernel.call(one, "&layer")
    data = "{t->x, t->w, t->bias, t->residual, t->y, t->epilogue, t->ctx}"
    body = BODY.format(
        layer=struct("tvmrt_micro_conv_f32", "layer", initializer(members)),
        kind="tvmrt_micro_data_f32", data=data, call=call,
        lend=lend(scratch, call),
    )  # fmt: skip
    fields = {
        "type": "CK_F32", "has_residual": int(not plain and random.chance(0.6)),
        "has_epilogue": int(not plain and random.chance(0.3)), "scratch": up(scratch) + 16,
        "in_place": int(one.may_overwrite_input), "has_nan": int(number % 5 == 4), **low_high,
    }  # fmt: skip
    layers.need([kernel.header], [])
    arrays = [w, None, packed.weights, bias, packed.bias, None, None, None]
    layers.add(f"board_f32 {name}", s, body, fields, arrays)


def up(count: int) -> int:
    return (count + 15) // 16 * 16


def kernels(able: frozenset[str] | None) -> Iterator[tuple[str, Callable[[Layers, int], None]]]:
    """Return names of kernels and functions that add a layer of each; ``able``: features of the
    processor, None for all kernels."""
    for kind, known, add in (("i8", KERNELS, add_integers), ("f32", FLOATS, add_floats)):
        for name, kernel in known.items():
            if 1 not in kernel.x_bytes:  # compared with LiteRT by plugins/tflite/tests
                continue
            # with RISC-V vectors no other integer kernels are chosen, whose assembly is Arm's
            of_vectors = kind == "i8" and "rvv" in (able or ())
            if able is None or (
                kernel.required_features <= able and (kernel.required_features or not of_vectors)
            ):
                yield f"{name}_{kind}", partial(add, kernel, name)
