"""Epilogue with a residual add in integers, if they give the same bytes as floats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.quantized import storage_range
from tvmrt.compiler.ir.requantization import rounding_of

from ...c.initializers import print_static_struct, print_struct
from ...c.writer import FunctionWriter
from ..epilogue_operands import row_strides
from ..fused_residual import int8_residual_operand
from .fixed_point_add import find_fixed_point_add
from .layer_i8 import micro_range
from .requant_multipliers import requant_table

HARD_FLOAT_FLAGS = ("-mfloat-abi=hard", "-mabi=ilp32f")  # flags of targets with a float unit
_INT8 = {"low": -128, "high": 127}
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
    own_bounds = _bounds(product)
    scales = _scales(node)
    own, other = (
        {"scale": scales[side], "zero": node.attrs[f"{side}_zero"], **bounds}
        for side, bounds in (
            ("ba"[residual], own_bounds),
            ("ab"[residual], dict(zip(("low", "high"), storage_range(value.dtype)))),
        )
    )
    full_range = value.dtype.name == "int8" and own_bounds == _bounds(node) == _INT8
    if floats and not full_range and rounding == "even":
        return None
    zero, low, high = product.attrs["y_zero"], own_bounds["low"], own_bounds["high"]
    table = requant_table(scale, rounding, zero, low, high)
    add = table and find_fixed_point_add(
        own, other, {**_bounds(node), "scale": scales["y"], "zero": node.attrs["y_zero"]},
        None if node.operator.is_integer_pair else partial(_fixed_sums, node, residual),
    )  # fmt: skip
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
        "lo": _bounds(node)["low"], "hi": _bounds(node)["high"], "operand_stride": strides[0],
    })  # fmt: skip
    print_struct(f, "const tvmrt_micro_residual_ctx addend", {
        "layer": f"&{layer}", "multipliers": multipliers, "operand": f.name_read(at, "other"),
    })  # fmt: skip
    return f"tvmrt_micro_residual{'_full_range' if full_range else ''}_rows", "&addend"


def _scales(node: Node) -> dict[str, float]:
    """Return the scales of a sum's operands and result, by a, b and y; in fixed point the
    multipliers of both operands, for a result in steps of 1."""
    at = node.attrs
    if node.operator.is_integer_pair:
        return {side: at[f"{side}_scale"] for side in "aby"}
    last = at["m"] * 2.0 ** (at["e"] - 31 + at["bits"])
    return {side: at[f"{side}_m"] * 2.0 ** (at[f"{side}_e"] - 31) * last for side in "ab"} | {
        "y": 1
    }


def _fixed_sums(node: Node, residual: int, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the bytes of a sum in fixed point."""
    pair = (other, own) if residual == 0 else (own, other)
    operands = [x.astype(v.dtype.numpy) for x, v in zip(pair, node.inputs)]
    return node.operator.evaluate(operands, node.attrs)[0].astype(np.int64)


def _bounds(node: Node) -> dict[str, int]:
    """Return the minimum and maximum byte of a node's result."""
    low, high = storage_range(node.output.dtype)
    return {"low": int(node.attrs.get("low", low)), "high": int(node.attrs.get("high", high))}
