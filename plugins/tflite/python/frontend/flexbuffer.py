"""Options of custom operators: FlexBuffer maps from names to numbers and strings.

Options are untrusted and may have any other format. Data that is not such a map yields no entries.
"""

from __future__ import annotations

import struct
from typing import Union

from flatbuffers import flexbuffers

Item = Union[int, float, bool, str, bytes, "list[int]", "list[float]", "list[bool]"]

# Limit on entries times bytes, because all entries of a damaged map may share a large value.
MAX_WORK = 1 << 22
_NUMBERS = ("INT", "UINT", "FLOAT", "BOOL")
_DAMAGE = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, struct.error)


def read_map(data: bytes) -> dict[str, Item]:
    """Return the entries of a FlexBuffer map, without nested maps and lists of mixed types.
    Return an empty dict if the bytes are not a map."""
    try:
        options = flexbuffers.GetRoot(data).AsMap
        if len(options.Keys) != len(options) or len(options) * len(data) > MAX_WORK:
            return {}
        values = [
            (k.AsKeyBytes, _value(v, len(data))) for k, v in zip(options.Keys, options.Values)
        ]
        return {key.decode("utf-8", "replace"): item for key, item in values if item is not None}
    except _DAMAGE:
        return {}


def _value(item: flexbuffers.Ref, most: int) -> Item | None:
    """Return the value of a map entry, or None for an unsupported type or too many elements."""
    if item.IsString or item.IsKey:
        return item.AsStringBytes.decode("utf-8", "replace")
    if item.IsTypedVector:
        vector = item.AsTypedVector
        return vector.Value if vector.ElementType.name in _NUMBERS else None
    if item.IsVector and not item.IsMap and len(item.AsVector) <= most:  # with a type for each
        elements = list(item.AsVector)
        numbers = all(element.IsNumeric or element.IsBool for element in elements)
        return [element.Value for element in elements] if numbers else None
    return item.Value if item.IsNumeric or item.IsBool or item.IsBlob else None
