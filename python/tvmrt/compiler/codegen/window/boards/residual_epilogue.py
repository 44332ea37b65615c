"""Epilogue with a residual add in integers, if they give the same bytes as floats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.requantization import rounding_of

from ...c.initializers import print_static_struct, print_struct
from ...c.writer import FunctionWriter
from ...loops.fixed_point_add import fixed_point_add
from ..epilogue_operands import row_strides
from ..fused_residual import int8_residual_operand
from .layer_i8 import micro_range
from .requant_multipliers import requant_table

HARD_FLOAT_FLAGS = ("-mfloat-abi=hard", "-mabi=ilp32f")  # flags of targets with a float unit
_INT8 = (-128, 127)
MAX_PIXEL_STRIDE = 1 << 15  # pixel stride of the operand in bytes


def print_residual_epilogue(
    f: FunctionWriter,
    step: Step,
    product: Node,
    after: Sequence[Node],
    order: Sequence[int],
    scale: np.ndarray,
    floats: bool,
) -> tuple[str, str] | None:
    """Print the context of ``tvmrt_micro_residual_rows``; return C expressions for the epilogue and
    its context, or None if it does not support the nodes after the matmul.

    ``order``: the result's axes with the channels last; ``scale``: per channel, of the sums.
    ``floats``: the processor has a float unit, which is cheaper for other ranges than int8's.
    """
    residual = int8_residual_operand(product, after[0]) if len(after) == 1 else None
    if residual is None or not (scale.min() > 0 and scale.max() < 256):
        return None
    node, rounding = after[0], rounding_of(product)
    value = node.inputs[residual]
    at = step.read_values.index(value)
    strides = row_strides(step.reads[at].at, product.output.shape, order)
    if strides is None or strides[1] != 1 or strides[0] >= MAX_PIXEL_STRIDE:
        return None
    zero, low, high = (product.attrs[name] for name in ("y_zero", "low", "high"))
    lo, hi = node.attrs["low"], node.attrs["high"]
    full_range = value.dtype.name == "int8" and (low, high) == (lo, hi) == _INT8
    if floats and not full_range and rounding == "even":
        return None
    table = requant_table(scale, rounding, zero, low, high)
    add = table and fixed_point_add(node, 1 - residual, (low, high))
    if add is None:
        return None
    multipliers = table.print(f)
    f.include("board/residual_add_i8.h")
    f.line("/* y = (q * own_multiplier + other * other_multiplier + offset) >> shift, clamped to")
    f.line(" * lo and hi; q is the byte of `range` that the layer has without the add. */")
    layer = print_static_struct(f, "tvmrt_micro_residual", "residual", {
        "range": micro_range(zero, low, high, low < 0, twice=table.twice),
        "own_multiplier": add.own, "other_multiplier": add.other,
        "offset": add.add, "shift": add.shift,
        "other_signed": int(value.dtype.is_signed),
        "lo": lo, "hi": hi, "operand_stride": strides[0],
    })  # fmt: skip
    print_struct(f, "const tvmrt_micro_residual_ctx addend", {
        "layer": f"&{layer}", "multipliers": multipliers, "operand": f.name_read(at, "other"),
    })  # fmt: skip
    return f"tvmrt_micro_residual{'_full_range' if full_range else ''}_rows", "&addend"
