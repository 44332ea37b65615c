"""Shapes in the notation of contracts, ``N C/groups *K``, and matching of extents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..sizes import SymInt, as_extent, extent_text
from ..sizes.assumptions import are_equal
from .extent_formula import ContractError, Formula

_SYMBOL = re.compile(r"[A-Z][A-Z0-9]*")
_VARIADIC = re.compile(r"\*([A-Za-z_0-9]*)(?:\{(?:(\d+)\.\.(\d*)|([A-Z][A-Z0-9]*))\})?")


class VariadicAxes:
    """Variadic part of a shape, ``*S{1..3}``: any number of axes within limits, named or not."""

    def __init__(self, match: re.Match) -> None:
        self.text = match[0]
        self.name = match[1] or None
        self.min_count = int(match[2] or 0)
        self.max_count = int(match[3]) if match[3] else None
        self.like = match[4]

    def admits(self, extents: tuple[int, ...], bindings: Mapping[str, Any]) -> bool:
        """Return whether the axes fit the limits, and equal the known axes of that name."""
        count = len(extents)
        if count < self.min_count or (self.max_count is not None and count > self.max_count):
            return False
        if self.like is not None and bindings.get(self.like) is not None:
            if count != len(bindings[self.like]):
                return False
        before = bindings.get(self.name) if self.name else None
        if before is None:
            return True
        return len(before) == count and all(map(are_equal, before, extents))


class Shape:
    """Shape of a contract. ``text`` is its notation.

    Raises ValueError when it cannot be read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.variadic: VariadicAxes | None = None
        self.names: set[str] = set()  # all names that it reads
        self.symbols: set[str] = set()  # names that it binds
        self._words = text.split()
        variadic_words = [i for i, word in enumerate(self._words) if word.startswith("*")]
        if len(variadic_words) > 1:
            raise ValueError(f"shape [{text}] has more than one variadic part")
        self._head = variadic_words[0] if variadic_words else len(self._words)
        self.fixed = len(self._words) - len(variadic_words)  # axes outside of the variadic part
        self._bare: list[tuple[int, str]] = []
        self._formulas: list[tuple[int, Formula]] = []
        for i, word in enumerate(self._words):
            self._read(word, i if i <= self._head else i - len(self._words))

    def _read(self, word: str, place: int) -> None:
        if word.startswith("*"):
            match = _VARIADIC.fullmatch(word)
            if match is None:
                raise ValueError(f"{word!r} does not say which axes it stands for")
            self.variadic = VariadicAxes(match)
            self.symbols |= {self.variadic.name} - {None}
            self.names |= {self.variadic.name, self.variadic.like} - {None}
        elif _SYMBOL.fullmatch(word):
            self._bare.append((place, word))
            self.symbols.add(word)
            self.names.add(word)
        elif word != "_":
            formula = Formula(word)
            self._formulas.append((place, formula))
            self.names |= formula.names

    def bind(self, shape: tuple, bindings: dict[str, Any], origin: dict[str, str], by: str) -> bool:
        """Bind new names; return whether the rank and all extents except formulas match."""
        rank, variadic = len(shape), self.variadic
        if rank != self.fixed if variadic is None else rank < self.fixed:
            return False
        if variadic is not None:
            extents = shape[self._head : rank - self.fixed + self._head]
            if not variadic.admits(extents, bindings):
                return False
            if variadic.name is not None and bindings.get(variadic.name) is None:
                bindings[variadic.name] = extents
                origin[variadic.name] = by
        for place, symbol in self._bare:
            before = bindings.get(symbol)
            if before is None:
                bindings[symbol] = shape[place]
                origin[symbol] = by
            elif not are_equal(before, shape[place]):
                return False
        return True

    def formulas_match(self, shape: tuple, bindings: Mapping[str, Any]) -> bool:
        """Return whether the extents that are formulas fit, after all operands are bound.

        A formula is skipped if a name has no value because its operand is left out.
        """
        for place, formula in self._formulas:
            if any(bindings.get(name) is None for name in formula.names):
                continue
            if not any(are_equal(shape[place], n) for n in formula.values(bindings)):
                return False
        return True

    def extents(self, bindings: Mapping[str, Any]) -> tuple[SymInt, ...]:
        """Return the shape of a result."""
        extents: list[SymInt] = []
        formulas = dict(self._formulas)
        for i, word in enumerate(self._words):
            place = i if i <= self._head else i - len(self._words)
            if i == self._head:
                extents += bindings[self.variadic.name]
            elif place in formulas:
                extents += formulas[place].values(bindings)
            else:
                extents.append(bindings[word])
        return tuple(map(as_extent, extents))

    def __str__(self) -> str:
        return f"[{', '.join(self._words)}]"

    def values_text(self, bindings: Mapping[str, Any]) -> str:
        """Return the shape with the numbers that are known, ``[8, 2]``; empty if there are none."""
        parts = []
        for i, word in enumerate(self._words):
            variadic = self.variadic if i == self._head else None
            parts += (
                self._variadic_text(variadic, bindings)
                if variadic
                else [_word_text(word, bindings)]
            )
        text = ", ".join(parts)
        return (
            f"[{text}]"
            if any(c.isdigit() for c in text) and text.split(", ") != (self._words)
            else ""
        )

    def _variadic_text(self, variadic: VariadicAxes, bindings: Mapping[str, Any]) -> list[str]:
        if variadic.name is None or bindings.get(variadic.name) is None:
            return ["..."]
        return [extent_text(n) for n in bindings[variadic.name]]


def _word_text(word: str, bindings: Mapping[str, Any]) -> str:
    if word == "_":
        return "_"
    formula = Formula(word)
    if any(bindings.get(name) is None for name in formula.names):
        return word
    try:
        return " or ".join(dict.fromkeys(extent_text(n) for n in formula.values(bindings)))
    except ContractError:
        return word
