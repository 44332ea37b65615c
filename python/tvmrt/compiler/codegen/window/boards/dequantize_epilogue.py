"""Epilogue of a layer whose result is dequantised: one function for all layers of an image."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.quantized import INT8_TYPES
from tvmrt.compiler.ir.requantization import rounding_of

from ...c.initializers import print_static_struct
from ...c.writer import FunctionWriter
from ...loops.pointwise import scalar_literal


def print_dequantize_epilogue(
    f: FunctionWriter, product: Node, after: Sequence[Node]
) -> tuple[str, str] | None:
    """Print the context of ``tvmrt_micro_dequantize_rows``; return C expressions for the epilogue
    and its context. Return None if the matmul is followed by anything but a dequantize of the full
    8-bit range, or if scales are per channel or in fixed point."""
    if rounding_of(product) != "even" or product.attrs["to"] not in INT8_TYPES:
        return None
    if len(after) != 1 or after[0].op != "dequantize":
        return None
    node = after[0]
    scales = [scalar_literal(value) for value in (product.inputs[2], node.inputs[1])]
    same_zero = scalar_literal(node.inputs[2]) == str(product.attrs["y_zero"])
    if None in scales or not same_zero or node.output.dtype.name != "float32":
        return None
    zero, low, high = (product.attrs[k] for k in ("y_zero", "low", "high"))
    if high - low != 255:
        return None
    f.include("board/dequantize_i8.h")
    context = print_static_struct(f, "tvmrt_micro_dequantize_ctx", "scales", {
        "acc_scale": scales[0], "scale": scales[1], "min_value": low - zero,
    })  # fmt: skip
    return "tvmrt_micro_dequantize_rows", f"&{context}"
