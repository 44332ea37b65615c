"""Legalisation of the element types that C kernels do not have.

Half precision is computed in float32, bit-packed types (int4 and similar) in bytes, and strings are
handles. ``legalize_types`` converts tensors of the caller and of the file; ``restore_type``
converts the network's outputs back. In between, a tensor's type has the ONNX type as its
``source``. Only explicit conversions round to half precision and from it: Cast, CastLike, BitCast.

Importers do not carry the ONNX type on. Operators of the graph that move elements propagate it (see
``ir.source_types``), and ``propagate_types`` gives it to the results of a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.ir import DTYPES, HANDLE, STRING, Builder, SourceType, Value, constant
from tvmrt.compiler.ir.low_bit_types import WIDER

from .operator_schemas import find_schema, formal_parameter, formal_type
from .sequence_values import tensors_of

HALF = ("float16", "bfloat16")
# The element types of the graph that stand for other ONNX types.
STORAGE_TYPES = {
    **dict.fromkeys(HALF, "float32"),
    **{kind: wider for kind, wider in WIDER.items() if DTYPES.get(kind, DTYPES["bool"]).is_packed},
}
_STORED_AS = {**STORAGE_TYPES, STRING.name: "int64"}


def retype(value: Value, source: SourceType | None) -> Value:
    """Set the ONNX type of a tensor that is stored as another type; None: it is stored as is."""
    value.type = value.type.with_source(source)
    return value


def typed_constant(array: np.ndarray, name: str) -> Value:
    """Return a constant of the file: half precision is widened, strings become indices."""
    if array.dtype.kind in "OSU":
        return string_constant(array, name)
    if array.dtype.name not in HALF:
        return constant(array, name)
    return constant(array.astype(np.float32), name, SourceType(array.dtype.name))


def legalize_types(builder: Builder, value: Value, name: str | None = None) -> Value:
    """Return a tensor of the caller or the file with an element type that C kernels have."""
    if value.dtype == HANDLE:
        return builder.emit("text_in", [value], name)
    to = STORAGE_TYPES.get(value.dtype.name)
    if to is None:
        return value
    result = builder.emit("cast" if value.dtype.is_half else "widen", [value], name, to=to)
    return retype(result, SourceType(value.dtype.name))


def restore_type(builder: Builder, value: Value, kind: str, name: str | None = None) -> Value:
    """Return a tensor with the ONNX type ``kind`` for the caller."""
    if kind not in STORAGE_TYPES:
        return value
    if kind in HALF:
        return builder.emit("cast", [value], name, to=kind)
    return builder.emit("narrow", [value], name, to=kind, saturate=True, rounding="up")


def round_to_half(builder: Builder, value: Value, kind: str) -> Value:
    """Round a float32 tensor to the nearest half-precision numbers."""
    return builder.emit("cast", [builder.emit("cast", [value], to=kind)], to="float32")


def packed_type(value: Value) -> str | None:
    """Return the packed ONNX type of a tensor that is wider in the graph; else None."""
    return None if value.type.element in HALF else stored_type(value)


def stored_type(value: Value) -> str | None:
    """Return the half-precision or packed ONNX type of a tensor that is wider in the graph; else
    None."""
    return value.type.element if value.type.source and value.type.element in STORAGE_TYPES else None


def propagate_types(
    node: onnx.NodeProto, opset: int, inputs: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Give the results of a node the ONNX type of an input of the same type parameter.

    For operators that the onnx package does not define, all tensors in the results get the first
    such type of a number, as far as they are stored alike. The results of If, Loop and Scan have
    the types that the nodes of their bodies gave them.
    """
    sources = [v.type.source if isinstance(v, Value) else None for v in inputs]
    if not any(sources):
        return
    schema = find_schema(node.op_type, opset, node.domain)
    if schema is None:
        source = next((s for s in sources if s and s.name in STORAGE_TYPES), None)
        for value in tensors_of(outputs):
            _set_source(value, source)
        return
    rules = [formal_type(schema.inputs, i) for i in range(len(sources))]
    for i, value in enumerate(outputs):
        result = formal_parameter(schema.outputs, i)
        if isinstance(value, Value) and result is not None and result.is_homogeneous:
            alike = (s for s, rule in zip(sources, rules) if s and rule == result.type_str)
            _set_source(value, next(alike, None))


def _set_source(value: Value, source: SourceType | None) -> None:
    """Set the ONNX type of a result that has none, if it is stored as that type is."""
    if source is not None and value.type.source is None:
        if _STORED_AS.get(source.name) == value.dtype.name:
            retype(value, source)


# Operators that pass string indices from their first input to their result.
_PASS_THROUGH = frozenset(
    "Cast Expand Flatten Gather Identity Reshape Slice Squeeze Unsqueeze".split()
)

LOOKUP_OPERATORS = frozenset(
    "ArrayFeatureExtractor CategoryMapper LabelEncoder OneHotEncoder".split()
)


def table_type(strings: Any) -> SourceType:
    """Return the ONNX type of indices into a list of strings."""
    return SourceType(STRING.name, tuple(strings))


def table_of(value: object) -> tuple[str, ...] | None:
    """Return the strings that a tensor's elements are indices of; None if they are not indices."""
    return value.type.labels if isinstance(value, Value) and value.type.is_string else None


def string_constant(array: np.ndarray, name: str) -> Value:
    """Return a constant of strings as indices into the table of its distinct strings."""
    texts = [decode_string(element) for element in array.reshape(-1).tolist()]
    names = list(dict.fromkeys(texts))
    index_of = {name: i for i, name in enumerate(names)}
    indices = np.array([index_of[text] for text in texts], np.int64)
    return constant(indices.reshape(array.shape), name, table_type(names))


def passes_through(domain: str, op: str) -> bool:
    """Return whether an operator passes the string indices of its first input to its result
    unchanged."""
    return domain in ("", "ai.onnx") and op in _PASS_THROUGH


def decode_string(element: object) -> str:
    """Decode a string of an attribute or a constant, which may be bytes."""
    return element.decode("utf-8", "replace") if isinstance(element, bytes) else str(element)
