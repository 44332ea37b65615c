"""C expressions of loops over elements, as trees: the part of C that tvmrt's printers use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .row_functions import TYPES

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0x[0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:()\[\],]))"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"),
    ("+", "-"), ("*", "/", "%"),
)  # fmt: skip


class NotCovered(Exception):
    """The C is beyond what rows can compute; the loop stays as it is."""


@dataclass(frozen=True)
class Tree:
    """A C expression. ``kind``: "number" or "name" with its text; "index" of the array ``text``;
    "call" of the function; "cast" to the type; "unary" or "binary" with its sign; "select"."""

    kind: str
    text: str = ""
    parts: tuple[Tree, ...] = ()

    def names(self) -> Iterator[str]:
        """Yield the names in it, of arrays, too."""
        if self.kind in ("name", "index"):
            yield self.text
        for part in self.parts:
            yield from part.names()

    @property
    def c(self) -> str:
        """Its C, with all parentheses."""
        parts = [part.c for part in self.parts]
        if self.kind == "index":
            return f"{self.text}[{parts[0]}]"
        if self.kind == "call":
            return f"{self.text}({', '.join(parts)})"
        if self.kind == "cast":
            return f"(({self.text}){parts[0]})"
        if self.kind == "unary":
            return f"({self.text}{parts[0]})"
        if self.kind == "binary":
            return f"({parts[0]} {self.text} {parts[1]})"
        return f"({parts[0]} ? {parts[1]} : {parts[2]})" if self.kind == "select" else self.text


def parse(text: str) -> Tree:
    """Return the tree of an expression. Raises NotCovered for other C."""
    parser = _Parser(text)
    tree = parser.expression()
    if parser.tokens:
        raise NotCovered(text)
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise NotCovered(text)
            self.tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            position = match.end()
        self.tokens.reverse()

    def _next(self) -> str:
        return self.tokens[-1][1] if self.tokens else ""

    def _takes(self, sign: str) -> bool:
        if self._next() != sign:
            return False
        self.tokens.pop()
        return True

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise NotCovered(sign)

    def expression(self) -> Tree:
        condition = self._binary(0)
        if not self._takes("?"):
            return condition
        then = self.expression()
        self._expect(":")
        return Tree("select", "", (condition, then, self.expression()))

    def _binary(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._next() in _LEVELS[level]:
            sign = self.tokens.pop()[1]
            left = Tree("binary", sign, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Tree:
        if self._next() in ("-", "~", "!"):
            return Tree("unary", self.tokens.pop()[1], (self._unary(),))
        if self._next() == "(" and len(self.tokens) > 2 and self.tokens[-2][1] in (*TYPES, "int"):
            self._expect("(")
            kind = self.tokens.pop()[1]
            self._expect(")")
            return Tree("cast", "int32_t" if kind == "int" else kind, (self._unary(),))
        return self._primary()

    def _primary(self) -> Tree:
        if self._takes("("):
            inside = self.expression()
            self._expect(")")
            return inside
        if not self.tokens or self.tokens[-1][0] == "sign":
            raise NotCovered(self._next())
        kind, text = self.tokens.pop()
        if kind == "name" and self._takes("("):
            parts = [self.expression()]
            while self._takes(","):
                parts.append(self.expression())
            self._expect(")")
            return Tree("call", text, tuple(parts))
        if kind == "name" and self._takes("["):
            inside = self.expression()
            self._expect("]")
            return Tree("index", text, (inside,))
        return Tree(kind, text)
