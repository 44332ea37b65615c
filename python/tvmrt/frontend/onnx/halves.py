"""Which tensors of a network are in half precision.

Networks compute in float32; only the explicit conversions round: Cast, CastLike, and BitCast, from
half precision as well as to it. They ask here what ONNX's type of a tensor is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tvmrt.ir import Builder, Value

from .definitions import definition_of

HALF = ("float16", "bfloat16")


def in_float32(array: np.ndarray) -> np.ndarray:
    """The array, half precision widened."""
    return array.astype(np.float32) if array.dtype.name in HALF else array


def rounded(builder: Builder, value: Value, kind: str) -> Value:
    """A float32 tensor whose elements are numbers of that half precision, the nearest."""
    return builder.emit("cast", [builder.emit("cast", [value], to=kind)], to="float32")


def result_halves(
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
    halves: Mapping[Value, str],
) -> dict[Value, str]:
    """The outputs in half precision: those whose type is that of an input in half precision.

    Of operators that the onnx package does not define, all floats have the type of the first one.
    """
    kinds = [None if value is None else halves.get(value) for value in inputs]
    if not any(kinds):
        return {}
    definition = definition_of(node.op_type, opset, node.domain)
    found = {}
    for i, value in enumerate(outputs):
        if value is None or value.dtype.name != "float32":
            continue
        if definition is None:
            kind = next(k for k in kinds if k)
        else:
            rules = [_rule(definition.inputs, j) for j in range(len(kinds))]
            wanted = _rule(definition.outputs, i)
            kind = next((k for k, rule in zip(kinds, rules) if k and rule == wanted), None)
        if kind is not None:
            found[value] = kind
    return found


def _rule(rules: Sequence[onnx.defs.OpSchema.FormalParameter], index: int) -> str | None:
    """The type of an operand by position, as the definition names it; the last may be repeated.
    None of an operator without operands that was given some: it is refused when it is imported."""
    return rules[min(index, len(rules) - 1)].type_str if rules else None
