"""Scales and zero points of a region's int8 tensors, as far as its nodes define them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

INT8_TYPES = ("int8", "uint8")
MOVES = frozenset({"concat", "expand", "identity", "qmax_pool", "reshape", "slice", "transpose"})
Number = TypeVar("Number", int, float)
NodeRule = Callable[[Mapping, Mapping[int, np.ndarray]], "list[tuple[int, Number]]"]


def scales_of(region: Mapping, arrays: Mapping[int, np.ndarray]) -> dict[int, float]:
    """Return the scales of int8 tensors that nodes define or pass on by moving elements."""

    def rule(node: Mapping, arrays: Mapping[int, np.ndarray]) -> list[tuple[int, float]]:
        # no weights could compensate for other scales
        return [row for row in _scales(node, arrays) if 0 < row[1] < np.inf]

    return _propagate(region, arrays, rule)


def zeros_of(region: Mapping, arrays: Mapping[int, np.ndarray]) -> dict[int, int]:
    """Return the zero points of int8 tensors."""
    return _propagate(region, arrays, _zeros)


def _propagate(
    region: Mapping, arrays: Mapping[int, np.ndarray], rule: NodeRule[Number]
) -> dict[int, Number]:
    """Return each tensor's value from its first node, and propagate it through moves."""
    result: dict[int, Number] = {}
    for node in region["nodes"]:
        for tensor_id, value in rule(node, arrays):
            result.setdefault(tensor_id, value)
    for nodes in (region["nodes"], region["nodes"][::-1]):
        for node in nodes:
            if node["op"] in MOVES:
                together = [n for n in (*node["inputs"], *node["outputs"]) if n >= 0]
                known = [result[tensor_id] for tensor_id in together if tensor_id in result]
                if known:
                    result.update(dict.fromkeys(together, known[0]) | _known(result, together))
    return result


def _known(found: Mapping[int, Number], tensor_ids: Sequence[int]) -> dict[int, Number]:
    return {tensor_id: found[tensor_id] for tensor_id in tensor_ids if tensor_id in found}


def operands(node: Mapping) -> list[tuple[int, str]]:
    """Return tensors with quantisation attributes, and the attributes' prefix for each."""
    inputs, output = node["inputs"], node["outputs"][0]
    if node["op"] in ("qadd", "qmul"):
        return [(inputs[0], "a"), (inputs[1], "b"), (output, "y")]
    return [(inputs[0], "x"), (output, "y")] if node["op"] == "qavg_pool" else []


def _converted(
    node: Mapping, arrays: Mapping[int, np.ndarray], operand: int
) -> list[tuple[int, float]]:
    """Return the tensor of a quantize or dequantize node with its constant scalar parameter."""
    array = arrays.get(node["inputs"][operand])
    if array is None or array.size != 1:
        return []
    tensor_id = node["outputs"][0] if node["op"] == "quantize" else node["inputs"][0]
    return [(tensor_id, array.reshape(-1)[0].item())]


def _scales(node: Mapping, arrays: Mapping[int, np.ndarray]) -> list[tuple[int, float]]:
    if node["op"] in ("quantize", "dequantize"):
        return _converted(node, arrays, 1)
    return [
        (tensor_id, float(node["attrs"][f"{name}_scale"])) for tensor_id, name in operands(node)
    ]


def _zeros(node: Mapping, arrays: Mapping[int, np.ndarray]) -> list[tuple[int, int]]:
    attrs = node["attrs"]
    if node["op"] in ("quantize", "dequantize"):
        return [(tensor_id, int(zero)) for tensor_id, zero in _converted(node, arrays, 2)]
    if node["op"] in ("qconv", "qmatmul"):
        rows = [(node["inputs"][0], "x")]
        rows += [(node["outputs"][0], "y")] if attrs["to"] in INT8_TYPES else []
    else:
        rows = operands(node)
    return [(tensor_id, int(attrs[f"{name}_zero"])) for tensor_id, name in rows]
