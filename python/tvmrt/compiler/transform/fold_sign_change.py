"""Let integer products read activations before a conversion between uint8 and int8.

A network whose input is uint8 and whose layers are int8 begins with a table that subtracts 128. The
product reads the input itself, with its zero point moved by 128, and the copy needs no memory.

Contract: bit-equal. Devices match int8 products, so this runs after the partition.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value
from tvmrt.compiler.ir.quantized import storage_range

from .dead_code import remove_dead_code
from .rewrite import rewrite


def fold_sign_change(graph: Graph) -> int:
    """Fold in place; return the number of products."""
    count = rewrite(graph, _fold)
    if count:
        remove_dead_code(graph)
    return count


def _fold(b: Builder, node: Node) -> Value | None:
    """Return the product on the table's operand, if only the type of its activations changes."""
    if not node.operator.is_integer_product or node.operator.weights is None:
        return None
    x, *others = node.inputs
    before = _before_sign_change(b, x)
    if before is None:
        return None
    shift = storage_range(before.dtype)[0] - storage_range(x.dtype)[0]
    attrs = {**node.attrs, "x_zero": node.attrs["x_zero"] + shift}
    return b.emit(node.op, [before, *others], node.name, **attrs)


def _before_sign_change(b: Builder, value: Value) -> Value | None:
    """Return the operand of a table that changes the type alone, moved as the table's result is."""
    node = value.producer
    if node is None:
        return None
    if node.has(Trait.REARRANGES) and len(node.inputs) == 1:
        before = _before_sign_change(b, node.inputs[0])
        return before and b.emit(node.op, [before], node.name, **node.attrs)
    if node.op != "table" or node.inputs[0].dtype == value.dtype:
        return None
    indices = np.arange(256, dtype=np.uint8)
    sign_change = np.array_equal(node.inputs[1].data.view(np.uint8), indices ^ 128)
    return node.inputs[0] if sign_change else None
