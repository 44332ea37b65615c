"""Complex numbers between operators.

The IR has no complex types: a complex tensor is a pair of real tensors, never an input or output.
"""

from __future__ import annotations

from typing import NamedTuple

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import Importer

# These operators are applied to the real and the imaginary part separately.
MOVES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "PACK")
PARTS = ("REAL", "IMAG", "COMPLEX_ABS")


class Complex(NamedTuple):
    """Complex tensor as its real and imaginary parts."""

    real: Value
    imaginary: Value


def import_by(importer: Importer, ctx: OpContext) -> Value | Complex | list:
    """Import an operator; one that only moves elements is applied to each complex part.

    Raises UnsupportedError for other operators with complex operands.
    """
    if ctx.op.name in PARTS or not any(isinstance(x, Complex) for x in ctx.inputs):
        return importer(ctx)
    if ctx.op.name == "CAST":  # a cast to a real type takes the real part
        return importer(_with_part(ctx, 0))
    if ctx.op.name not in MOVES:
        raise UnsupportedError("it has complex operands")
    real, imaginary = (importer(_with_part(ctx, part)) for part in (0, 1))
    return Complex(real, imaginary)


def _with_part(ctx: OpContext, part: int) -> OpContext:
    operands = [x[part] if isinstance(x, Complex) else x for x in ctx.inputs]
    return OpContext(ctx.importer, ctx.subgraph, ctx.op, ctx.name, operands)
