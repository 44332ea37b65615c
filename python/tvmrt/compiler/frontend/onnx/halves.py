"""Which tensors of a network have another element type in ONNX than here.

Networks compute in float32 what is in half precision; only the explicit conversions round: Cast,
CastLike, and BitCast, from half precision as well as to it. What shares bytes in memory (int4 and
its like) is unpacked where it comes from the caller or the file, and packed where it goes to the
caller. Conversions ask here what ONNX's type of a tensor is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tvmrt.compiler.ir import DTYPES, Builder, Value
from tvmrt.compiler.ir.small import WIDER

from .definitions import definition_of, type_rule

HALF = ("float16", "bfloat16")
# The element types that tensors of others have here.
CARRIERS = {
    **dict.fromkeys(HALF, "float32"),
    **{kind: wider for kind, wider in WIDER.items() if DTYPES.get(kind, DTYPES["bool"]).is_packed},
}


def in_float32(array: np.ndarray) -> np.ndarray:
    """The array, half precision widened."""
    return array.astype(np.float32) if array.dtype.name in HALF else array


def carried(builder: Builder, value: Value, name: str | None = None) -> Value:
    """A tensor of the caller or of the file in the type that it has here."""
    to = CARRIERS.get(value.dtype.name)
    if to is None:
        return value
    return builder.emit("cast" if value.dtype.is_half else "widen", [value], name, to=to)


def handed_over(builder: Builder, value: Value, kind: str, name: str | None = None) -> Value:
    """The reverse: a tensor as memory has those of the type ``kind``."""
    if kind not in CARRIERS:
        return value
    if kind in HALF:
        return builder.emit("cast", [value], name, to=kind)
    return builder.emit("narrow", [value], name, to=kind, saturate=True, rounding="up")


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
    """The outputs that have another type, too: those whose type is that of such an input.

    Of operators that the onnx package does not define, all floats have the type of the first one.
    """
    kinds = [None if value is None else halves.get(value) for value in inputs]
    if not any(kinds):
        return {}
    definition = definition_of(node.op_type, opset, node.domain)
    found = {}
    for i, value in enumerate(outputs):
        if value is None or value.dtype.name not in CARRIERS.values():
            continue
        if definition is None:
            kind = next(k for k in kinds if k)
        else:
            rules = [type_rule(definition.inputs, j) for j in range(len(kinds))]
            wanted = type_rule(definition.outputs, i)
            kind = next((k for k, rule in zip(kinds, rules) if k and rule == wanted), None)
        if kind is not None and CARRIERS[kind] == value.dtype.name:
            found[value] = kind
    return found
