"""Attributes in the notation of contracts, ``strides: ints[*S] 1..``, and checks of values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..dtype import DTYPES, DType
from ..sizes import Extent
from .element_types import members
from .extent_formula import LIMIT, ContractError

_LINE = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z_0-9]*)(?P<optional>\??): (?P<kind>[^()]+?)(?: \((?P<source>.+)\))?"
)
_RENAMED = re.compile(r"(\w+)=(\w+)")
_RANGE = re.compile(r"(-?[\d.e+]*?)\.\.(-?[\d.e+]*)")
_LENGTH = re.compile(r"\[(?:\*([A-Za-z_0-9]+)|(\d+))\]")
_INTEGERS, _NUMBERS = (int, np.integer, Extent), (int, float, np.integer, np.floating)


class Attribute:
    """Contract of one attribute. ``check`` needs the operands only if ``late`` is set.

    ``onnx_operand`` is the index of the ONNX operand that has its value, ``onnx_name`` its name in
    ONNX, ``onnx_choices`` has other names of its choices in ONNX. Raises ValueError when the line
    cannot be read.
    """

    def __init__(self, line: str) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"attribute {line!r} is not of the form 'name: kind'")
        self.line = line.partition(" (")[0]
        self.name: str = match["name"]
        self.optional = bool(match["optional"])
        self.text: str = match["kind"]
        kind, _, self._qualifier = self.text.partition(" ")
        self.kind, bracket, length = kind.partition("[")
        self.of = self._qualifier[3:] if self._qualifier.startswith("of ") else None
        self.like: str | None = None  # the axes that a list has one element each for
        self.length: int | None = None
        if bracket:
            self._read_length(bracket + length)
        self.low, self.high = self._read_range()
        self.late = bool(self.of or self.like)
        self.choices = tuple(self.kind.split("|")) if "|" in self.kind else None
        self.dtypes = members(self._qualifier or "any") if self.kind == "dtype" else None
        if self.choices is None and self.kind not in _KINDS:
            raise ValueError(f"attribute {line!r}: unknown kind {self.kind}")
        self._test = _is_choice if self.choices else _KINDS[self.kind]
        self.onnx_operand: int | None = None
        self.onnx_name = self.name
        self.onnx_choices: dict[str, str] = {}
        if match["source"]:
            self._read_source(match["source"])

    def _read_source(self, text: str) -> None:
        if text.startswith("operand "):
            self.onnx_operand = int(text[len("operand ") :])
            return
        for word in text.split():
            if renamed := _RENAMED.fullmatch(word):
                self.onnx_choices[renamed[1]] = renamed[2]
            else:
                self.onnx_name = word

    def _read_length(self, text: str) -> None:
        match = _LENGTH.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a list length")
        self.like = match[1]
        self.length = int(match[2]) if match[2] else None

    def _read_range(self) -> tuple[float, float]:
        is_integer = self.kind in ("int", "ints")
        low, high = (-LIMIT - 1, LIMIT) if is_integer else (-np.inf, np.inf)
        match = _RANGE.fullmatch(self._qualifier)
        if match is None:
            return low, high
        number = int if is_integer else float
        return number(match[1]) if match[1] else low, number(match[2]) if match[2] else high

    def check(self, value: Any, bindings: Mapping[str, Any], origin: Mapping[str, str]) -> None:
        """Raise ``ContractError`` unless the value is valid; ``bindings`` has everything it refers
        to."""
        if not self._test(self, value, bindings):
            message = (
                f"attribute {self.name} is {_value_text(value)}, expected {self.expected(bindings)}"
            )
            raise ContractError(message + self._reason(bindings, origin))

    def expected(self, bindings: Mapping[str, Any]) -> str:
        """Return the expected value as text, with the numbers that are known."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.of is not None:
            return f"{_OF[self.kind]} {self.of}{self._bounds_of(bindings)}"
        count = self._count(bindings)
        noun = _NOUNS[self.kind]
        if self.kind in ("ints", "floats"):
            noun = f"{'' if count is None else f'{count} '}{noun}"
        if self.kind == "dtype":
            return f"{noun}{f' of {self._qualifier}' if self._qualifier else ''}"
        return f"{noun}{self._bounds()}"

    def _count(self, bindings: Mapping[str, Any]) -> int | None:
        if self.like is not None:
            like = bindings.get(self.like)
            return None if like is None else len(like)
        return self.length

    def _bounds(self) -> str:
        is_integer = self.kind in ("int", "ints")
        if self.kind not in ("int", "ints", "float"):
            return ""
        if is_integer or (np.isfinite(self.low) and np.isfinite(self.high)):
            return f" from {self.low} to {self.high}"
        if np.isfinite(self.low):
            return f" not below {self.low:g}"
        return f" not above {self.high:g}" if np.isfinite(self.high) else ""

    def _bounds_of(self, bindings: Mapping[str, Any]) -> str:
        target = bindings.get(self.of)
        if target is None:
            return ""
        if self.kind == "int":
            low, high = _range_of(target)
            return f", {low} to {high}"
        return f", which has {_rank_of(target)}"

    def _reason(self, bindings: Mapping[str, Any], origin: Mapping[str, str]) -> str:
        if self.like is None or bindings.get(self.like) is None:
            return ""
        values = list(bindings[self.like])
        return f", one for each axis of {self.like} = {values} by {origin[self.like]}"


def _is_integer(value: Any, low: float, high: float) -> bool:
    return isinstance(value, _INTEGERS) and not isinstance(value, bool) and low <= value <= high


def _is_int(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    ends = (self.low, self.high) if self.of is None else _range_of(bindings[self.of])
    return _is_integer(value, *ends)


def _is_list(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    count = self._count(bindings)
    return isinstance(value, (list, tuple)) and (count is None or len(value) == count)


def _is_ints(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    is_list = _is_list(self, value, bindings)
    return is_list and all(_is_integer(n, self.low, self.high) for n in value)


def _is_float(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    if not isinstance(value, _NUMBERS) or isinstance(value, bool):
        return False
    if math.isnan(value):  # NaN is in no range, but is allowed if there are no bounds
        return self.low == -math.inf and self.high == math.inf
    return self.low <= value <= self.high


def _is_floats(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    return _is_list(self, value, bindings) and all(isinstance(n, _NUMBERS) for n in value)


def _is_bool(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    return isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1))


def _is_choice(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    return isinstance(value, str) and value in self.choices


def _rank_of(target: Any) -> int:
    """Return the number of axes of an operand, or of the first of a repeated operand."""
    return len((target[0] if isinstance(target, tuple) else target).shape)


def _is_axis(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    return _is_integer(value, 0, _rank_of(bindings[self.of]) - 1)


def _are_axes(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    return isinstance(value, (list, tuple)) and all(_is_axis(self, a, bindings) for a in value)


def _is_axes(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    return _are_axes(self, value, bindings) and all(a < b for a, b in zip(value, value[1:]))


def _is_order(self: Attribute, value: Any, bindings: Mapping[str, Any]) -> bool:
    is_permutation = _are_axes(self, value, bindings) and len(value) == len(set(value))
    return is_permutation and len(value) == _rank_of(bindings[self.of])


_KINDS: dict[str, Callable[[Attribute, Any, Mapping[str, Any]], bool]] = {
    "int": _is_int,
    "ints": _is_ints,
    "float": _is_float,
    "floats": _is_floats,
    "bool": _is_bool,
    "text": lambda self, value, _: isinstance(value, str),
    "dtype": lambda self, value, _: isinstance(value, str) and value in self.dtypes & {*DTYPES},
    "axis": _is_axis,
    "axes": _is_axes,
    "order": _is_order,
    "object": lambda self, value, _: value is not None,
}
_NOUNS = {
    "int": "an integer",
    "ints": "integers",
    "float": "a number",
    "floats": "numbers",
    "bool": "true or false",
    "text": "text",
    "dtype": "the name of an element type",
    "object": "a value",
}
_OF = {
    "int": "an integer of the element type of",
    "axis": "an axis, counted from the front, of",
    "axes": "ascending axes, counted from the front, of",
    "order": "all axes in some order, counted from the front, of",
}


def _range_of(target: Any) -> tuple[int, int]:
    """Return the minimum and maximum of an operand's integer type or of a named one; floating-point
    types have no limits."""
    dtype: DType = DTYPES[target] if isinstance(target, str) else target.dtype
    if not dtype.is_int:
        return -LIMIT - 1, LIMIT
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def _value_text(value: Any) -> str:
    text = str(list(value)) if isinstance(value, tuple) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
