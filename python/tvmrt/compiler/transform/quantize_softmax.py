"""Softmax of bytes as one operator, for microcontrollers: in the nodes of a ``.tflite`` network, or
between conversions.

Contract: bit-equal for a ``.tflite`` network; else results differ by at most one step from the
literal computation in floating point.
"""

from __future__ import annotations

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.quantized import INT8_TYPES, dequantize_of, is_per_tensor, storage_range
from tvmrt.compiler.ir.quantized_softmax import (
    MAX_ROW,
    MAX_SHIFT,
    ONE,
    can_compute,
    exponentials,
    factor_of,
)
from tvmrt.compiler.ir.value_users import ValueUsers

from .dead_code import remove_dead_code
from .patterns import find_pattern
from .rewrite import rewrite


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
    if scale <= 0 or not can_compute(to, y_scale, shape[-1]):
        return None
    b.sources = tuple(dict.fromkeys((*x.sources, *softmax.sources, *node.sources)))
    factor, bits = factor_of(y_scale)
    attrs = {"factor": factor, "bits": bits, "y_zero": zero, "to": to}
    powers = b.const(exponentials(scale), f"{softmax.name}_powers")
    return b.emit("qsoftmax", [x.inputs[0], powers], softmax.name, **attrs)


def _in_nodes(b: Builder, node: Node) -> Value | None:
    """Replace the nodes into which the reader of ``.tflite`` files divides a softmax."""
    found = find_pattern(node)
    if found is None or found.kind != "softmax" or node.output.dtype.name not in INT8_TYPES:
        return None
    x, powers = found.values["x"], found.values["table"]
    shape, numbers = x.shape, {}
    for name in ("low", "high", "zero", "shift", "mask", "powers_shift"):
        data = found.values[name].data
        if data is None or data.size != 1:
            return None
        numbers[name] = int(data.reshape(()))
    axes = {each.attrs["axes"] for each in found.nodes if each.op.startswith("reduce_")}
    fits = (numbers["low"], numbers["high"]) == storage_range(node.output.dtype)
    fits = fits and (numbers["mask"], numbers["powers_shift"]) == (ONE, 12)
    fits = fits and axes == {(len(shape) - 1,)} and x.dtype.name in INT8_TYPES
    fits = fits and isinstance(shape[-1], int) and 0 < shape[-1] <= MAX_ROW
    bits = MAX_SHIFT - numbers["shift"]
    if not fits or not 0 <= bits <= 16 or powers.data is None or powers.data[0] != ONE:
        return None
    if not all(each.guard == node.guard for each in found.nodes):
        return None
    b.sources = tuple(dict.fromkeys(s for each in found.nodes for s in each.sources))
    attrs = {"factor": 0, "bits": bits, "y_zero": numbers["zero"], "to": node.output.dtype.name}
    return b.emit("qsoftmax", [x, powers], node.name, **attrs)
