"""Complex numbers between operators.

The IR has none: they are pairs of tensors, and no network's input or output.
"""

from __future__ import annotations

from typing import NamedTuple

from tvmrt.compiler.ir import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import Importer

# What these make of complex numbers they make of each part.
MOVES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "PACK")
PARTS = ("REAL", "IMAG", "COMPLEX_ABS")


class Complex(NamedTuple):
    """Complex numbers by their parts."""

    real: Value
    imaginary: Value


def import_by(importer: Importer, ctx: OpContext) -> Value | Complex | list:
    """What an importer makes of an operator, complex numbers among whose operands or not.

    Raises UnsupportedError for operators that compute with complex numbers.
    """
    if ctx.op.name in PARTS or not any(isinstance(x, Complex) for x in ctx.inputs):
        return importer(ctx)
    if ctx.op.name == "CAST":  # to real numbers it takes their real part
        return importer(_with_part(ctx, 0))
    if ctx.op.name not in MOVES:
        raise UnsupportedError("of complex numbers")
    real, imaginary = (importer(_with_part(ctx, part)) for part in (0, 1))
    return Complex(real, imaginary)


def _with_part(ctx: OpContext, part: int) -> OpContext:
    operands = [x[part] if isinstance(x, Complex) else x for x in ctx.inputs]
    return OpContext(ctx.importer, ctx.subgraph, ctx.op, ctx.name, operands)
