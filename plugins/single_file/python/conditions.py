"""Preprocessor conditions with three values: true, false, and unknown until C is compiled."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

# Conditions are read as expressions of Python: "~" stands for C's "!", whose precedence it has.
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NUMBER = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.Gt: operator.gt,
    ast.LtE: operator.le, ast.GtE: operator.ge, ast.Add: operator.add, ast.Sub: operator.sub,
}  # fmt: skip
UNKNOWN = None


class Macros:
    """Known values of macros at one position in a text.

    A macro that starts with one of ``own`` is undefined until a ``#define`` of the text is passed;
    those in ``undefined`` are too. Any other belongs to the compiler and is unknown.
    """

    def __init__(self, own: tuple[str, ...], undefined: tuple[str, ...] = ()) -> None:
        self._own = own
        self._bodies: dict[str, str | None] = dict.fromkeys(("__cplusplus", *undefined))
        self._unknown: set[str] = set()

    def define(self, name: str, body: str | None, certain: bool) -> None:
        """Record a ``#define``, or an ``#undef`` (``body`` is None), that is certain to be reached
        or depends on an unknown condition."""
        if certain:
            self._bodies[name] = body
            self._unknown.discard(name)
        else:
            self._unknown.add(name)

    def is_defined(self, name: str) -> bool | None:
        """Return whether a macro is defined; None if only the compiler knows."""
        if name in self._unknown:
            return UNKNOWN
        if name in self._bodies:
            return self._bodies[name] is not None
        return False if name.startswith(self._own) else UNKNOWN

    def value(self, name: str) -> int | None:
        """Return a macro's value in a condition: 0 if it is undefined, None if it is unknown."""
        defined = self.is_defined(name)
        if not defined:
            return UNKNOWN if defined is UNKNOWN else 0
        return self.evaluate(self._bodies.get(name) or "")

    def evaluate(self, condition: str) -> int | None:
        """Return the value of a condition, or None if it is unknown."""
        text = _NUMBER.sub(r"\1", _DEFINED.sub(r"defined(\1\2)", condition))
        text = re.sub("!(?!=)", "~", text).replace("&&", " and ").replace("||", " or ")
        try:
            return self._value_of(ast.parse(f"({text})", mode="eval").body)
        except (SyntaxError, ValueError):
            return UNKNOWN

    def _value_of(self, node: ast.expr) -> int | None:
        """Return the value of an expression; a logical one may be known though a side is not."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int) else UNKNOWN
        if isinstance(node, ast.Name):
            return self.value(node.id)
        if isinstance(node, ast.BoolOp):
            decisive = isinstance(node.op, ast.Or)
            values = [self._value_of(each) for each in node.values]
            if any(value is not UNKNOWN and bool(value) == decisive for value in values):
                return int(decisive)
            return UNKNOWN if UNKNOWN in values else int(not decisive)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            value = self._value_of(node.operand)
            return UNKNOWN if value is UNKNOWN else int(not value)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._apply(node.ops[0], node.left, node.comparators[0])
        if isinstance(node, ast.BinOp):
            return self._apply(node.op, node.left, node.right)
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) == "defined":
            found = self.is_defined(ast.unparse(node.args[0]))
            return UNKNOWN if found is UNKNOWN else int(found)
        return UNKNOWN  # such as __has_attribute(...)

    def _apply(self, kind: ast.AST, left: ast.expr, right: ast.expr) -> int | None:
        values = self._value_of(left), self._value_of(right)
        if UNKNOWN in values or type(kind) not in _OPERATORS:
            return UNKNOWN
        return int(_OPERATORS[type(kind)](*values))
