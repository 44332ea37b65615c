"""Two-dimensional real FFT of images, and operators on its complex results."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import radices
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.complex_numbers import Complex
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op

MAX_LENGTH = 2048  # maximum length of a transform computed as a matmul with the DFT matrix
# From this length on, an FFT is faster than the DFT matmul and has far smaller tables.
FAST_LENGTH, MAX_FAST_LENGTH = 256, 65536


@tflite_op(RFFT2D=1)
def rfft2d(ctx: OpContext) -> list:
    """Transform [..., H, W] to [..., h, w / 2 + 1]; the operand is cropped or padded to h, w."""
    x, lengths = ctx.required(0), ctx.int_operand(1, "the lengths of the transform")
    if x.type.rank < 2 or len(lengths) != 2 or min(lengths) < 1:
        raise ValueError(f"a transform of {x.type} over {lengths} elements")
    for axis, length in enumerate(lengths, x.type.rank - 2):
        x = ctx.pad_or_truncate(x, axis, length)
    real, imaginary = _along_rows(ctx, x, lengths[1])
    if lengths[0] == 1:
        return [Complex(real, imaginary)]
    angles = _angles(_checked(lengths[0]))
    cos, sin = (ctx.const(part(angles).astype(np.float32)) for part in (np.cos, np.sin))

    def rotate(a: Value, b: Value, op: str) -> Value:
        return ctx.emit(op, [ctx.emit("matmul", [cos, a]), ctx.emit("matmul", [sin, b])])

    return [Complex(rotate(real, imaginary, "add"), rotate(imaginary, real, "sub"))]


def _along_rows(ctx: OpContext, x: Value, length: int) -> list[Value]:
    """Return real and imaginary parts of each row's spectrum, the non-redundant half only."""
    count = length // 2 + 1
    fast = FAST_LENGTH <= length <= MAX_FAST_LENGTH and length % 2 == 0
    if fast and radices(length // 2) is not None:
        pairs = ctx.emit("signal_rfft", [x], length=length)
        return [ctx.slice_axis(pairs, x.type.rank - 1, part, count, 2) for part in (0, 1)]
    angles = _angles(_checked(length))[:, :count]
    parts = np.cos(angles), -np.sin(angles)
    return [ctx.emit("matmul", [x, ctx.const(part.astype(np.float32))]) for part in parts]


def _checked(length: int) -> int:
    if length > MAX_LENGTH:
        raise UnsupportedError(f"a transform over {length} elements; at most {MAX_LENGTH}")
    return length


def _angles(length: int) -> np.ndarray:
    steps = np.outer(np.arange(length), np.arange(length)) % length
    return 2 * np.pi * steps / length


@tflite_op(REAL=1, IMAG=1, COMPLEX_ABS=1)
def part_of(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if not isinstance(x, Complex):
        raise UnsupportedError("complex operands that are not the result of a transform")
    if ctx.op.name == "REAL":
        return x.real
    if ctx.op.name == "IMAG":
        return x.imaginary
    squares = [ctx.emit("mul", [part, part]) for part in x]
    return ctx.emit("sqrt", [ctx.emit("add", squares)])
