"""Patterns of layers that ``.tflite`` networks express with many nodes: a softmax and an average
pool of bytes, matched backwards from the result.

A pattern is the name of a value, or an operator with patterns of its operands. Equal names denote
one value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from tvmrt.compiler.ir import Node, Value

Pattern = Union[str, "OperatorPattern"]


@dataclass(frozen=True)
class OperatorPattern:
    """Operator with patterns of its operands."""

    op: str
    operands: tuple[Pattern, ...]


@dataclass
class PatternMatch:
    """Match of a pattern: its values by name, and its nodes."""

    kind: str
    values: dict[str, Value]
    nodes: list[Node]

    def node(self, op: str) -> Node:
        """Return the first node of an operator, counted from the result."""
        return next(node for node in self.nodes if node.op == op)


def _op(op: str, *operands: Pattern) -> OperatorPattern:
    return OperatorPattern(op, operands)


def _clamped_to_bytes(x: Pattern) -> OperatorPattern:
    """Return the pattern of int32 values clamped to bounds and cast."""
    return _op("cast", _op("min", _op("max", x, "low"), "high"))


_WIDE = _op("cast", "x")
_DISTANCE = _op("cast", _op("cast", _op("sub", _op("reduce_max", _WIDE), _WIDE)))
_POWERS = _op("gather", "table", _DISTANCE)
_TOTAL = _op("reduce_sum", _op("fixed_shift", _POWERS, "powers_shift"))
_ZEROS = _op("leading_zeros", _TOTAL)
_FRACTION = _op("bit_and", _op("shift_left", _TOTAL, _ZEROS), "mask")
_PARTS = _op("fixed_product", _op("fixed_reciprocal", _FRACTION), _POWERS)
SOFTMAX = _clamped_to_bytes(
    _op("add", _op("fixed_shift", _PARTS, _op("sub", "shift", _ZEROS)), "zero")
)


def _mean(total: Pattern) -> OperatorPattern:
    """Return the pattern of a sum divided by its count, rounded half away from zero."""
    away = _op("where", _op("greater", total, "nothing"), "half", "less")
    return _clamped_to_bytes(_op("div", _op("add", total, away), "count"))


PATTERNS = {
    "softmax": SOFTMAX,
    "mean of all": _mean(_op("reduce_sum", _WIDE)),
    "mean": _mean(_op("qconv", "x", "weights", "factor")),
}


def find_pattern(last: Node) -> PatternMatch | None:
    """Return the matched pattern whose result a cast gives, or None."""
    if last.op != "cast":
        return None
    for kind, pattern in PATTERNS.items():
        result = PatternMatch(kind, {}, [])
        if _match(pattern, last.output, result):
            return result
    return None


def _match(pattern: Pattern, value: Value | None, found: PatternMatch) -> bool:
    if value is None:
        return False
    if isinstance(pattern, str):
        return found.values.setdefault(pattern, value) is value
    node = value.producer
    if node is None or node.op != pattern.op or value.is_constant:
        return False
    operands = [v for v in node.inputs if v is not None]
    if len(operands) != len(pattern.operands):
        return False
    if node not in found.nodes:
        found.nodes.append(node)
    return all(_match(p, v, found) for p, v in zip(pattern.operands, operands))
