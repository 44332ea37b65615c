"""Preprocessor conditions with three values: true, false, and unknown until C is compiled."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"\s*(?:(defined)\b|(0[xX][0-9a-fA-F]+|\d+)[uUlL]*|([A-Za-z_]\w*)|(&&|\|\||[=!<>]=|.))"
)
# Precedence of the binary operators; any other operator makes a condition unknown.
_BINARY = {
    "||": 1, "&&": 2, "&": 3, "==": 4, "!=": 4, "<": 5, ">": 5, "<=": 5, ">=": 5, "+": 6, "-": 6,
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
        tokens = [match.groups() for match in _TOKEN.finditer(condition.strip())]
        try:
            return _Parser(tokens, self).binary(0)
        except (IndexError, ValueError):
            return UNKNOWN


class _Parser:
    """Recursive-descent evaluation of the tokens of one condition."""

    def __init__(self, tokens: list[tuple[str | None, ...]], macros: Macros) -> None:
        self._tokens = tokens
        self._macros = macros
        self._at = 0

    def binary(self, least: int) -> int | None:
        """Evaluate operators of at least this precedence."""
        left = self._unary()
        while self._at < len(self._tokens):
            operator = self._tokens[self._at][-1]
            rank = _BINARY.get(operator or "", -1)
            if operator == ")" or 0 <= rank < least:
                break
            if rank < 0:
                raise ValueError(operator)
            self._at += 1
            left = _apply(operator, left, self.binary(rank + 1))
        return left

    def _unary(self) -> int | None:
        keyword, number, name, operator = self._tokens[self._at]
        self._at += 1
        if operator == "!":
            value = self._unary()
            return UNKNOWN if value is UNKNOWN else int(not value)
        if operator == "(":
            value = self.binary(0)
            self._expect(")")
            return value
        if keyword:
            return self._defined()
        if number:
            return int(number, 0)
        if name is None:
            raise ValueError(operator)
        if self._at < len(self._tokens) and self._tokens[self._at][-1] == "(":
            self._skip_arguments()  # of a function-like macro, as __has_attribute(...)
            return UNKNOWN
        return self._macros.value(name)

    def _defined(self) -> int | None:
        inside = self._tokens[self._at][-1] == "("
        self._at += inside
        name = self._tokens[self._at][2]
        self._at += 1
        if inside:
            self._expect(")")
        found = self._macros.is_defined(name or "")
        return UNKNOWN if found is UNKNOWN else int(found)

    def _skip_arguments(self) -> None:
        depth = 0
        while True:
            operator = self._tokens[self._at][-1]
            depth += (operator == "(") - (operator == ")")
            self._at += 1
            if depth == 0:
                return

    def _expect(self, operator: str) -> None:
        if self._tokens[self._at][-1] != operator:
            raise ValueError(operator)
        self._at += 1


def _apply(operator: str | None, left: int | None, right: int | None) -> int | None:
    """Apply a binary operator; a logical one may be known though one side is not."""
    if operator in ("&&", "&") and (left == 0 or right == 0):
        return 0
    if operator == "||" and (left or right):
        return 1
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    results = {
        "&&": 1, "||": 0, "==": left == right, "!=": left != right, "<": left < right,
        ">": left > right, "<=": left <= right, ">=": left >= right, "+": left + right,
        "-": left - right, "&": left & right,
    }  # fmt: skip
    return int(results[operator or ""])
