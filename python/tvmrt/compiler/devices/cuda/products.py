"""Products of matrices: how operands lie, in the words of cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvmrt.compiler.ir import Node, Strided, Value

from ..opencl.kernel import Kernel, Operand
from ..opencl.kernels import _spatial, _three

Sizes = tuple[int, int, int, int]  # how many, rows, columns, length of sums
Placed = tuple[Value, list[int]]  # a buffer, and offset, lead, step, transposed


@dataclass(frozen=True)
class Product:
    """``sizes`` and the operands as the operator ``custom_cuda_product`` has them."""

    sizes: Sizes
    a: Placed
    b: Placed


def matrices(node: Node) -> Sizes | None:
    """What a matmul node multiplies; None if that is no number of products of matrices: of
    operands that both have several, each has as many."""
    a, b = (v.shape for v in node.inputs[:2])
    shape = node.output.shape
    if len(a) < 2 or len(b) < 2:
        return None
    for operand in (a, b):
        many = prod(operand[:-2])
        if many != 1 and many != prod(shape[:-2]):
            return None
    rows, columns_, inner = shape[-2], shape[-1], a[-1]
    if prod(b[:-2]) == 1 and prod(a[:-2]) > 1:  # the same weights: one product of all rows
        return 1, prod(shape[:-1]), columns_, inner
    return prod(shape[:-2]), rows, columns_, inner


def product_of(sizes: Sizes, operands: Sequence[Operand]) -> Product | None:
    """None if strides do not say how an operand lies."""
    many, rows, columns_, inner = sizes
    placed = []
    for operand, extents in zip(operands, ((rows, inner), (inner, columns_))):
        shape = operand.at.shape
        count = many if prod(shape) > prod(extents) else 1
        at = operand.at.reshape((count, *extents))
        how = at and _place(at)
        if how is None:
            return None
        placed.append((operand.buffer, how))
    return Product(sizes, *placed)


def _place(at: Strided) -> list[int] | None:
    (many, rows, columns_), (step, down, right) = at.shape, at.strides
    step = 0 if many == 1 else step
    if min(step, down, right) < 0:
        return None
    if (right == 1 or columns_ == 1) and (down >= columns_ or rows == 1):
        return [at.offset, down if rows > 1 else columns_, step, 0]
    if (down == 1 or rows == 1) and (right >= rows or columns_ == 1):
        return [at.offset, right if columns_ > 1 else rows, step, 1]
    return None


def is_plain(node: Node, x: Strided) -> bool:
    """Whether a convolution's windows are the image's pixels, which lie one behind the other."""
    attrs = node.attrs
    kernel = node.inputs[1].shape[2:]
    if any(n != 1 for n in (*kernel, *attrs["strides"])):
        return False
    if any((*attrs["pads_before"], *attrs["pads_after"])) or min(x.strides) < 0:
        return False
    pixels = Strided(x.shape[2:], x.strides[2:])
    return pixels.is_dense() and (x.shape[1] == 1 or x.strides[1] >= prod(x.shape[2:]))


def columns(node: Node, operand: Operand) -> Kernel:
    """The windows of each image: a row for each tap of each channel, a column for each pixel."""
    x = _spatial(operand)
    taps = _three(node.inputs[1].shape[2:], 1)
    out = _three(node.output.shape[2:], 1)
    shape = (x.at.shape[0], x.at.shape[1], *taps, *out)
    strides, dilations = (_three(node.attrs[key], 1) for key in ("strides", "dilations"))
    before = _three(node.attrs["pads_before"], 0)
    k = Kernel("windows", operand.buffer.dtype, prod(shape))
    at = k.split("i", shape, "d")
    inside, index = [], []
    for axis, letter in enumerate("zyx"):
        k.line(
            f"const int p{letter} = {at[axis + 5]} * {k.scalar(strides[axis])} "
            f"+ {at[axis + 2]} * {k.scalar(dilations[axis])} - {k.scalar(before[axis])};"
        )
        inside.append(f"p{letter} >= 0 && p{letter} < {k.scalar(x.at.shape[axis + 2])}")
        index.append(f"p{letter}")
    k.line(f"out[i] = {' && '.join(inside)} ? {k.load(x, [at[0], at[1], *index])} : 0.0f;")
    return k
