"""Lower products of int16 activations for the kernels of the target.

Kernels of microcontrollers multiply 16 bits and add up 32. Hosts have vector instructions for
bytes: they compute 256 times the product of the high bytes plus that of the low bytes.
Microcontrollers do so if sums may exceed int32, or if no kernel supports a layer.

Contract: bit-equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.requantization import product_range

from .rewrite import rewrite

PRODUCTS = ("qconv_int16", "qmatmul_int16")


def lower_int16_products(
    graph: Graph, has_kernel: Callable[[Node], bool], narrows: bool = False
) -> int:
    """Lower in place the products that no kernel computes; return the number of changes.

    ``narrows``: give the other products results of int32, as their kernels have.
    """

    def rule(b: Builder, node: Node) -> Value | None:
        if node.op not in PRODUCTS or node.attrs["to"] == "int16":
            return None
        if not (fits_int32(node) and has_kernel(node)):
            return _of_bytes(b, node)
        if not narrows or node.attrs["to"] == "int32":
            return None
        return b.emit("cast", [_to_int32(b, node, node.inputs)], to=node.attrs["to"])

    return rewrite(graph, rule)


def fits_int32(product: Node, bias: np.ndarray | int = 0) -> bool:
    """Return whether weights are int8 and the sums of a product plus a bias are int32."""
    least, greatest = (row + bias for row in product_range(product))
    is_int8 = product.inputs[1].dtype.name == "int8" and not any(product.inputs[4:])
    return bool(is_int8 and least.min() >= -(1 << 31) and greatest.max() < 1 << 31)


def _of_bytes(b: Builder, node: Node) -> Value:
    """Return 256 times the product of the high bytes plus that of the low bytes."""
    x, to = node.inputs[0], node.attrs["to"]
    w, scale, bias, w_zero = (*node.inputs[1:], None, None)[:4]
    high = b.emit("shift_right", [x, b.const(np.int16(8))], node.name)
    low = b.emit("bit_and", [x, b.const(np.int16(255))], node.name)
    upper = _to_int32(b, node, [b.emit("cast", [high], to="int8"), w, scale, None, w_zero])
    lower = _to_int32(b, node, [b.emit("cast", [low], to="uint8"), w, scale, bias, w_zero])
    if to == "int64":
        upper, lower = (b.emit("cast", [sums], to=to) for sums in (upper, lower))
    upper = b.emit("mul", [upper, b.const(np.array(256, to))], node.name)
    return b.emit("add", [upper, lower], node.name)


def _to_int32(b: Builder, node: Node, inputs: Sequence[Value | None]) -> Value:
    """Return the product of int16 or bytes with the attributes of a node and a result of int32."""
    op = node.op if inputs[0] is node.inputs[0] else node.op.removesuffix("_int16")
    return b.emit(op, inputs, node.name, **{**node.attrs, "to": "int32"})
