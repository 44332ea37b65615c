"""String tables: strings that a network only selects, as indices into a compile-time list.

Class labels are an example. The network computes and returns the index; the caller has the list,
which is part of the tensor's type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmrt.compiler.ir import STRING, SourceType, Value, constant

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
