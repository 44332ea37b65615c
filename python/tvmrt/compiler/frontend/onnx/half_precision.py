"""Half precision and packed types: tensors with another element type in ONNX than in the IR.

Half-precision networks are computed in float32. Only explicit conversions round, to half precision
as well as from it: Cast, CastLike and BitCast. Packed types (int4 and similar) are unpacked when
they come from the caller or the file, and packed when they are returned to the caller. Conversions
look up a tensor's ONNX type here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tvmrt.compiler.ir import DTYPES, Builder, Value
from tvmrt.compiler.ir.low_bit_types import WIDER

from .operator_schemas import find_schema, formal_type

HALF = ("float16", "bfloat16")
# The IR element types that carry other ONNX types.
STORAGE_TYPES = {
    **dict.fromkeys(HALF, "float32"),
    **{kind: wider for kind, wider in WIDER.items() if DTYPES.get(kind, DTYPES["bool"]).is_packed},
}


def widen_half(array: np.ndarray) -> np.ndarray:
    """Widen a half-precision array to float32; return other arrays unchanged."""
    return array.astype(np.float32) if array.dtype.name in HALF else array


def to_storage_type(builder: Builder, value: Value, name: str | None = None) -> Value:
    """Convert a tensor of the caller or the file to its storage type."""
    to = STORAGE_TYPES.get(value.dtype.name)
    if to is None:
        return value
    return builder.emit("cast" if value.dtype.is_half else "widen", [value], name, to=to)


def to_onnx_type(builder: Builder, value: Value, kind: str, name: str | None = None) -> Value:
    """Convert a tensor from its storage type to the type ``kind`` for the caller."""
    if kind not in STORAGE_TYPES:
        return value
    if kind in HALF:
        return builder.emit("cast", [value], name, to=kind)
    return builder.emit("narrow", [value], name, to=kind, saturate=True, rounding="up")


def round_to_half(builder: Builder, value: Value, kind: str) -> Value:
    """Round a float32 tensor to the nearest half-precision numbers."""
    return builder.emit("cast", [builder.emit("cast", [value], to=kind)], to="float32")


def result_onnx_types(
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
    onnx_types: Mapping[Value, str],
) -> dict[Value, str]:
    """Return the outputs that inherit a carried ONNX type from an input of the same type parameter.

    For operators that the onnx package does not define, all floats get the first such type.
    """
    kinds = [None if value is None else onnx_types.get(value) for value in inputs]
    if not any(kinds):
        return {}
    schema = find_schema(node.op_type, opset, node.domain)
    result = {}
    for i, value in enumerate(outputs):
        if value is None or value.dtype.name not in STORAGE_TYPES.values():
            continue
        if schema is None:
            kind = next(k for k in kinds if k)
        else:
            rules = [formal_type(schema.inputs, j) for j in range(len(kinds))]
            wanted = formal_type(schema.outputs, i)
            kind = next((k for k, rule in zip(kinds, rules) if k and rule == wanted), None)
        if kind is not None and STORAGE_TYPES[kind] == value.dtype.name:
            result[value] = kind
    return result
