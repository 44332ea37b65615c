"""Families of element types, and the element type of an operand in a contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtype import DTYPES, HANDLE, DType

_FLOATS = ("float32", "float64")
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_HALF = ("float16", "bfloat16")
_FLOAT8 = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
_PACKED = ("float4_e2m1fn", "int4", "uint4", "int2", "uint2")

FAMILIES = {
    "float": _FLOATS,
    "half": _HALF,
    "float8": _FLOAT8,
    "packed": _PACKED,  # bit-packed: several elements per byte
    "signed": _SIGNED,
    "unsigned": _UNSIGNED,
    "integer": _SIGNED + _UNSIGNED,
    "number": _FLOATS + _SIGNED + _UNSIGNED,
    "computed": (*_FLOATS, *_SIGNED, *_UNSIGNED, "bool"),  # without types that are only converted
    "any": (*_FLOATS, *_SIGNED, *_UNSIGNED, "bool", *_HALF, *_FLOAT8),
    "byte": ("int8", "uint8"),
    "index": ("int32", "int64"),
}

_KNOWN = {**DTYPES, HANDLE.name: HANDLE}


def members(text: str) -> frozenset[str]:
    """Return the names of the types in ``text``, names and families joined by ``|``.

    Raises ValueError when one is not bindings.
    """
    names: set[str] = set()
    for word in text.split("|"):
        # some exist only if ml_dtypes is installed
        if word not in FAMILIES and word not in (*_KNOWN, *FAMILIES["any"], *_PACKED):
            raise ValueError(f"{word!r} is neither an element type nor a family of element types")
        names.update(FAMILIES.get(word, (word,)))
    return frozenset(names)


class Elements:
    """Element types of an operand: ``float32``, ``byte|bool``, ``E=float``, or a bound ``E``."""

    def __init__(self, text: str) -> None:
        letter, equals, family = text.rpartition("=")
        if not equals and text[:1].isupper():
            letter, family = text, ""
        self.text = text
        self.letter = letter or None
        self.allowed = members(family) if family else None

    def admits(
        self, dtype: DType, bindings: dict[str, Any], origin: dict[str, str], by: str
    ) -> bool:
        """Return whether an operand may have the type, and bind the letter to it."""
        if self.allowed is not None and dtype.name not in self.allowed:
            return False
        if self.letter is None:
            return True
        before = bindings.get(self.letter)
        if before is None:
            bindings[self.letter] = dtype
            origin[self.letter] = by
        return before is None or before == dtype

    def expected(self, bindings: Mapping[str, Any]) -> str:
        """Return the type as text: the one bound to the letter, or the family."""
        before = bindings.get(self.letter) if self.letter else None
        if before is not None and (self.allowed is None or before.name in self.allowed):
            return before.name
        return self.text.rpartition("=")[2]

    def of_result(self, bindings: Mapping[str, Any]) -> DType:
        """Return the type of a result: bound to a letter, in a dtype attribute, or named."""
        if self.letter is not None:
            return bindings[self.letter]
        return _KNOWN[bindings.get(self.text, self.text)]


class ResultElements(Elements):
    """Element type of a result, which may be the name of an attribute."""

    def __init__(self, text: str, attributes: frozenset[str]) -> None:
        super().__init__(text if text[:1].isupper() or text not in attributes else "any")
        self.text = text
