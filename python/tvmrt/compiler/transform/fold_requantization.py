"""Fold fixed-point requantisation into the integer products that it follows.

A product to int32, its multiplier, zero point, bounds and cast become one node with a ``rounding``.
Kernels then requantise as for float scales. Devices match the separate nodes, so this runs after
the partition.

Contract: bit-equal for all activations. If an accumulator may reach 2 ** 30, or 2 ** 31 with int16
activations, or a multiplier is one or more, the nodes stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.fixed_point import float_scale, narrow_multiplier
from tvmrt.compiler.ir.quantized import INT8_TYPES, storage_range
from tvmrt.compiler.ir.requantization import (
    MAX_ACCUMULATOR,
    join_multipliers,
    multipliers,
    product_range,
    requantize,
    thresholds,
)
from tvmrt.compiler.ir.value_users import ValueUsers, clamp_of

from .channel_constants import per_channel
from .dead_code import remove_dead_code
from .int16_products import fits_int32
from .rewrite import rewrite

Scaled = tuple[np.ndarray, str]  # scales in float64 and the rounding
# From a product to int32, its scale, and the attributes of the folded product.
Requantizes = Callable[[Node, np.ndarray, "dict[str, Any]"], bool]


def fold_requantization(graph: Graph, requantizes: Requantizes = lambda *product: False) -> int:
    """Fold in place; return the number of products. ``requantizes``: whether a kernel requantises a
    product of two computed operands."""
    readers = ValueUsers(graph)

    def rule(b: Builder, node: Node) -> Value | None:
        return _fold(b, node, readers, requantizes) if node.op == "cast" else None

    count = rewrite(graph, rule)
    if count:
        remove_dead_code(graph)
    return count


def _fold(b: Builder, cast: Node, readers: ValueUsers, requantizes: Requantizes) -> Value | None:
    """Return the product that replaces a cast and the nodes before it."""
    if cast.attrs["to"] not in (*INT8_TYPES, "int16") or cast.inputs[0].dtype.name != "int32":
        return None
    low, high = -(1 << 31), (1 << 31) - 1
    value, zero = cast.inputs[0], 0
    while (node := _sole(value, cast, readers)) is not None and (clamp := clamp_of(node)):
        limit = int(clamp.limit)
        low, high = (max(low, limit), high) if clamp.is_lower else (low, min(high, limit))
        value = clamp.x
    least, most = storage_range(cast.output.dtype)
    if not least <= low <= high <= most:
        return None
    if node is not None and node.op == "add":
        moved = _added_constant(node)
        if moved is None:
            return None
        value, zero = moved
        node = _sole(value, cast, readers)
    if node is None or node.op not in _SCALES or not least <= zero <= most:
        return None
    is_wide = node.op == "fixed_scale_wide"
    product, bias = _sole(node.inputs[0], cast, readers), None
    if is_wide and product is not None and product.op == "add" and product.inputs[1].is_constant:
        bias = product.inputs[1]
        product = _sole(product.inputs[0], cast, readers)
    if product is None or not product.operator.is_integer_product:
        return None
    if product.attrs["to"] != ("int64" if is_wide else "int32"):
        return None
    if is_wide != (cast.attrs["to"] == "int16"):
        return None
    x, w, _, *rest = product.inputs
    if is_wide:
        row = np.zeros(1) if bias is None else _per_channel(product, bias)
        if row is None or not fits_int32(product, row):
            return None
        rest = [b.const(row.astype(np.int32), f"{product.name}_bias"), None]
    scaled = _scaled(product, node, low - zero, high - zero)
    if scaled is None:
        return None
    bounds = {"y_zero": zero, "low": low, "high": high}
    attrs = {**product.attrs, "to": cast.attrs["to"], **bounds, "rounding": scaled[1]}
    if product.operator.weights is None and not requantizes(product, scaled[0], attrs):
        return None
    b.sources = tuple(dict.fromkeys((*product.sources, *cast.sources)))
    scale = b.const(scaled[0], f"{product.name}_scale")
    return b.emit(product.op, [x, w, scale, *rest], product.name, **attrs)


def _sole(value: Value, cast: Node, readers: ValueUsers) -> Node | None:
    """Return the node that computes a value under the cast's guard, if it has one reader."""
    node = value.producer
    if node is None or readers.has_many(value) or node.guard != cast.guard:
        return None
    return node


def _added_constant(node: Node) -> tuple[Value, int] | None:
    """Return the computed operand of an ``add`` and the scalar constant added to it."""
    constants = [v for v in node.inputs if v.is_constant and v.type.size == 1]
    computed = [v for v in node.inputs if not v.is_constant]
    if len(constants) != 1 or len(computed) != 1:
        return None
    return computed[0], int(constants[0].data.reshape(()))


def _scaled(product: Node, node: Node, low: int, high: int) -> Scaled | None:
    """Return the scales and the rounding of a product; None if it must stay apart."""
    rows = [_per_channel(product, v) for v in node.inputs[1:]]
    if any(row is None for row in rows):
        return None
    reach = product_range(product)
    is_wide = node.op == "fixed_scale_wide"  # whose kernels take all of int32
    if not is_wide and max(-reach[0].min(), reach[1].max()) > MAX_ACCUMULATOR:
        return None
    return _SCALES[node.op](rows, reach, (low, high))


def _per_channel(product: Node, value: Value) -> np.ndarray | None:
    """Return a constant of one number, or of one for each output channel, as a vector."""
    data = value.data
    if data is None or data.size == 1:
        return None if data is None else data.reshape(-1)
    return per_channel(product.output, data, product.operator.channel_axis)


def _from_multipliers(rows, reach, bounds) -> Scaled | None:
    scale = join_multipliers(rows[0].astype(np.int64), rows[1].astype(np.int64))
    return None if scale is None else (scale, "twice")


def _from_double(rows, reach, bounds) -> Scaled | None:
    """Return the multipliers of one multiplication in double, ties away from zero, if they give the
    same integers within the bounds."""
    try:
        m, e = multipliers(rows[0])
    except ValueError:
        return None
    scale = join_multipliers(m.astype(np.int64), e.astype(np.int64))
    if scale is None:
        return None
    steps = np.arange(bounds[0] + 1, bounds[1] + 1)
    for side in (0, 1):  # both functions rise monotonically: compare them next to each step
        acc = np.clip(thresholds(scale, "once", *bounds) - side, *(r.reshape(-1, 1) for r in reach))
        by_double = float_scale(acc, rows[0].reshape(-1, 1)) >= steps
        if not np.array_equal(by_double, requantize(acc, scale.reshape(-1, 1), "once") >= steps):
            return None
    return scale, "once"


def _from_narrow_multipliers(rows, reach, bounds) -> Scaled | None:
    """Return multipliers of 15 bits, if 2 ** 32 times the scales are integers below 2 ** 31."""
    narrow, e = narrow_multiplier(rows[0]), np.int64(rows[1])
    if not ((narrow == 0) | ((e >= -17) & (e < 0) & (narrow > 0))).all():
        return None
    return np.ldexp(narrow.astype(np.float64), np.where(narrow == 0, 0, e - 15)), "once"


_SCALES = {
    "fixed_scale": _from_multipliers,
    "fixed_scale_wide": _from_narrow_multipliers,
    "float_scale": _from_double,
}
