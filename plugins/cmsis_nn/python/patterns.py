"""Patterns of layers that TensorFlow Lite networks express with many nodes: an int8 softmax and an
int8 average pool, matched backwards from the result.

A pattern is the name of a value, or an operator with patterns of its operands. Equal names denote
one value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from tvmrt.compiler.ir import Node, Value

Pattern = Union[str, "Application"]


@dataclass(frozen=True)
class Application:
    """Operator with patterns of its operands."""

    op: str
    operands: tuple[Pattern, ...]


@dataclass
class Found:
    """Match of a pattern: its values by name, and its nodes."""

    kind: str
    values: dict[str, Value]
    nodes: list[Node]

    def node(self, op: str) -> Node:
        """Return the first node of an operator, counted from the result."""
        return next(node for node in self.nodes if node.op == op)


def _of(op: str, *operands: Pattern) -> Application:
    return Application(op, operands)


def _bytes(x: Pattern) -> Application:
    """Return the pattern of int32 values clamped to bounds and cast to int8."""
    return _of("cast", _of("min", _of("max", x, "low"), "high"))


_WIDE = _of("cast", "x")
_POWERS = _of("gather", "table", _of("sub", _of("reduce_max", _WIDE), _WIDE))
_TOTAL = _of("reduce_sum", _of("fixed_shift", _POWERS, "powers_shift"))
_ZEROS = _of("leading_zeros", _TOTAL)
_FRACTION = _of("bit_and", _of("shift_left", _TOTAL, _ZEROS), "mask")
_PARTS = _of("fixed_product", _of("fixed_reciprocal", _FRACTION), _POWERS)
SOFTMAX = _bytes(_of("add", _of("fixed_shift", _PARTS, _of("sub", "shift", _ZEROS)), "zero"))


def _mean(total: Pattern) -> Application:
    """Return the pattern of a sum divided by its count, rounded half away from zero."""
    away = _of("where", _of("greater", total, "nothing"), "half", "less")
    return _bytes(_of("div", _of("add", total, away), "count"))


PATTERNS = {
    "softmax": SOFTMAX,
    "mean of all": _mean(_of("reduce_sum", _WIDE)),
    "mean": _mean(_of("qconv", "x", "weights", "factor")),
}


def find(last: Node) -> Found | None:
    """Return the matched pattern whose result a cast gives, or None."""
    if last.op != "cast":
        return None
    for kind, pattern in PATTERNS.items():
        found = Found(kind, {}, [])
        if _match(pattern, last.output, found):
            return found
    return None


def _match(pattern: Pattern, value: Value | None, found: Found) -> bool:
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
