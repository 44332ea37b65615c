"""Softmax of bytes as one operator, for microcontrollers: in the nodes of a ``.tflite`` network, or
between conversions.

Contract: bit-equal for a ``.tflite`` network; else results differ by at most one step from the
literal computation in floating point.
"""

from __future__ import annotations

from typing import Any, Union

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.quantized import INT8_TYPES, dequantize_of, is_per_tensor, storage_range
from tvmrt.compiler.ir.quantized_softmax import MAX_SHIFT, ONE, can_compute, exponentials, factor_of
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.compiler.ir.value_users import ValueUsers

from .dead_code import remove_dead_code
from .rewrite import rewrite

# Of the bytes that a .tflite network computes: the name of a value, or an operator and the patterns
# of its operands. Equal names denote one value.
Pattern = Union[str, "tuple[Any, ...]"]
_WIDE = ("cast", "x")
_DISTANCE = ("cast", ("cast", ("sub", ("reduce_max", _WIDE), _WIDE)))
_POWERS = ("gather", "table", _DISTANCE)
_TOTAL = ("reduce_sum", ("fixed_shift", _POWERS, "powers_shift"))
_ZEROS = ("leading_zeros", _TOTAL)
_FRACTION = ("bit_and", ("shift_left", _TOTAL, _ZEROS), "mask")
_PARTS = ("fixed_product", ("fixed_reciprocal", _FRACTION), _POWERS)
_STEPS = ("add", ("fixed_shift", _PARTS, ("sub", "shift", _ZEROS)), "zero")
_SOFTMAX = ("cast", ("min", ("max", _STEPS, "low"), "high"))


def quantize_softmax(graph: Graph) -> None:
    """Replace softmax along the last axis in place."""
    readers = ValueUsers(graph)
    rewrite(graph, lambda b, node: _between_conversions(b, node, readers) or _in_nodes(b, node))
    remove_dead_code(graph)


def _between_conversions(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    softmax = node.inputs[0].producer if node.op == "quantize" and is_per_tensor(node) else None
    if softmax is None or softmax.op != "softmax" or softmax.attrs.get("log"):
        return None
    x = dequantize_of(softmax.inputs[0])
    if x is None or not is_per_tensor(x) or x.inputs[0].dtype.name not in INT8_TYPES:
        return None
    shape, sole = node.output.shape, not readers.has_many(softmax.output)
    last = softmax.attrs["axis"] == len(shape) - 1 and shape == softmax.output.shape
    if not (sole and last and isinstance(shape[-1], int) and softmax.guard == node.guard):
        return None
    scale, y_scale = (float(each.inputs[1].data.reshape(())) for each in (x, node))
    zero, to = int(node.inputs[2].data.reshape(())), node.output.dtype.name
    computes = scale > 0 and can_compute(to, y_scale, shape[-1])
    if not computes or upper_bound(node.output.type.size) <= 256:  # as the table has
        return None
    b.sources = tuple(dict.fromkeys((*x.sources, *softmax.sources, *node.sources)))
    factor, bits = factor_of(y_scale)
    attrs = {"factor": factor, "bits": bits, "y_zero": zero, "to": to}
    powers = b.const(exponentials(scale), f"{softmax.name}_powers")
    return b.emit("qsoftmax", [x.inputs[0], powers], softmax.name, **attrs)


def _in_nodes(b: Builder, node: Node) -> Value | None:
    """Replace the nodes into which the reader of ``.tflite`` files divides a softmax."""
    values: dict[str, Value] = {}
    nodes: list[Node] = []
    to = node.attrs.get("to")
    if node.op != "cast" or to not in INT8_TYPES:
        return None
    if not _match(_SOFTMAX, node.output, values, nodes):
        return None
    x, powers = values["x"], values["table"]
    shape, numbers = x.shape, {}
    for name in ("low", "high", "zero", "shift", "mask", "powers_shift"):
        data = values[name].data
        if data is None or data.size != 1:
            return None
        numbers[name] = int(data.reshape(()))
    axes = {each.attrs["axes"] for each in nodes if each.op.startswith("reduce_")}
    fits = (numbers["low"], numbers["high"]) == storage_range(node.output.dtype)
    fits = fits and (numbers["mask"], numbers["powers_shift"]) == (ONE, 12)
    fits = fits and axes == {(len(shape) - 1,)} and x.dtype.name in INT8_TYPES
    fits = fits and isinstance(shape[-1], int) and can_compute(to, 1.0, shape[-1])
    bits = MAX_SHIFT - numbers["shift"]
    if not fits or not 0 <= bits <= 16 or powers.data is None or powers.data[0] != ONE:
        return None
    if not all(each.guard == node.guard for each in nodes):
        return None
    b.sources = tuple(dict.fromkeys(s for each in nodes for s in each.sources))
    attrs = {"factor": 0, "bits": bits, "y_zero": numbers["zero"], "to": to}
    return b.emit("qsoftmax", [x, powers], node.name, **attrs)


def _match(
    pattern: Pattern, value: Value | None, values: dict[str, Value], nodes: list[Node]
) -> bool:
    """Return whether a value has a pattern; add its values by name, and its nodes."""
    if value is None:
        return False
    if isinstance(pattern, str):
        return values.setdefault(pattern, value) is value
    node, (op, *parts) = value.producer, pattern
    if node is None or node.op != op or value.is_constant:
        return False
    nodes.append(node)
    operands = [v for v in node.inputs if v is not None]
    return len(operands) == len(parts) and all(
        _match(part, v, values, nodes) for part, v in zip(parts, operands)
    )
