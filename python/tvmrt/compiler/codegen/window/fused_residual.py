"""Residual add in the int8 tiles on hosts."""

from __future__ import annotations

from tvmrt.compiler.ir import Node

from ..loops.fixed_point_add import is_quantized_sum
from ..loops.quantized_binary_scales import binary_scales

MAX_FACTORS = 4096.0  # bound for which scaled sums of two bytes stay far below 2 ^ 21


def residual_operand(product: Node, node: Node) -> int | None:
    """Return which operand of a ``qadd`` tiles can add to the matmul's bytes, or None."""
    other = int8_residual_operand(product, node)
    if not node.operator.is_integer_pair:
        return None
    if other is None or product.operator.weights is None or _is_depthwise(product):
        return None
    value, operand = node.inputs[other], "ba"[other]
    factors = binary_scales(node)
    if factors.divisor != 1 or not abs(factors.a_scale) + abs(factors.b_scale) < MAX_FACTORS:
        return None
    same_zero = product.attrs["y_zero"] == node.attrs[operand + "_zero"]
    return other if same_zero and value.shape == product.output.shape else None


def int8_residual_operand(product: Node, node: Node) -> int | None:
    """Return which computed 8-bit operand of a sum is added to the matmul's bytes, or None."""
    if not is_quantized_sum(node):
        return None
    others = [i for i, value in enumerate(node.inputs) if value is not product.output]
    return others[0] if len(others) == 1 and not node.inputs[others[0]].is_constant else None


def _is_depthwise(product: Node) -> bool:
    """Return whether the product is a depthwise convolution."""
    groups = product.attrs.get("groups", 1)
    return groups > 1 and groups == product.inputs[0].shape[1] == product.output.shape[1]
