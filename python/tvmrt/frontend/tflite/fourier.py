"""Transforms of pictures to complex numbers, and what is made of these.

The IR has no complex numbers: they are pairs of tensors while they are between operators, and no
network's input or output.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value

from .context import OpContext
from .registry import tflite_op

MAX_LENGTH = 2048  # of a transform that is a product with a matrix


class Complex(NamedTuple):
    """Complex numbers by their parts."""

    real: Value
    imaginary: Value


@tflite_op(RFFT2D=1)
def rfft2d(ctx: OpContext) -> list:
    """[..., H, W] to [..., h, w / 2 + 1], where the operand is cut or filled up to h and w."""
    x, lengths = ctx.required(0), ctx.ints_of(1, "the lengths of the transform")
    if x.type.rank < 2 or len(lengths) != 2 or min(lengths) < 1:
        raise ValueError(f"no transform of {x.type} over {lengths}")
    if max(lengths) > MAX_LENGTH:
        raise UnsupportedError(f"a transform over {max(lengths)} elements; at most {MAX_LENGTH}")
    for axis, length in enumerate(lengths, x.type.rank - 2):
        x = _fitted(ctx, x, axis, length)
    rows, columns = (_angles(n) for n in lengths)
    columns = columns[:, : lengths[1] // 2 + 1]
    real, imaginary = (
        ctx.emit("matmul", [x, ctx.const(part(columns).astype(np.float32))])
        for part in (np.cos, lambda a: -np.sin(a))
    )
    cos, sin = (ctx.const(part(rows).astype(np.float32)) for part in (np.cos, np.sin))

    def turned(a: Value, b: Value, op: str) -> Value:
        return ctx.emit(op, [ctx.emit("matmul", [cos, a]), ctx.emit("matmul", [sin, b])])

    return [Complex(turned(real, imaginary, "add"), turned(imaginary, real, "sub"))]


def _angles(length: int) -> np.ndarray:
    steps = np.outer(np.arange(length), np.arange(length)) % length
    return 2 * np.pi * steps / length


def _fitted(ctx: OpContext, x: Value, axis: int, length: int) -> Value:
    """x with so many elements along an axis: the first ones, or zeros behind."""
    given = x.shape[axis]
    if given >= length:
        return ctx.slice_axis(x, axis, 0, length)
    before, after = [0] * x.type.rank, [0] * x.type.rank
    after[axis] = length - given
    pads = {"before": tuple(before), "after": tuple(after)}
    return ctx.emit("pad", [x, ctx.like(0, x)], mode="constant", **pads)


@tflite_op(REAL=1, IMAG=1, COMPLEX_ABS=1)
def part_of(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if not isinstance(x, Complex):
        raise UnsupportedError("complex numbers that no transform gave")
    if ctx.op.name == "REAL":
        return x.real
    if ctx.op.name == "IMAG":
        return x.imaginary
    squares = [ctx.emit("mul", [part, part]) for part in x]
    return ctx.emit("sqrt", [ctx.emit("add", squares)])
