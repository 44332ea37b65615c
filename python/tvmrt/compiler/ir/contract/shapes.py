"""Shapes in the notation of contracts, ``N C/groups *K``, and matching of extents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..assumptions import are_equal
from ..extent import Whole, as_extent, shown
from .extents import Formula, Misfit

_SYMBOL = re.compile(r"[A-Z][A-Z0-9]*")
_RUN = re.compile(r"\*([A-Za-z_0-9]*)(?:\{(?:(\d+)\.\.(\d*)|([A-Z][A-Z0-9]*))\})?")


class Run:
    """Variadic part of a shape, ``*S{1..3}``: any number of axes within limits, named or not."""

    __slots__ = ("least", "like", "most", "name", "text")

    def __init__(self, match: re.Match) -> None:
        self.text = match[0]
        self.name = match[1] or None
        self.least = int(match[2] or 0)
        self.most = int(match[3]) if match[3] else None
        self.like = match[4]

    def admits(self, extents: tuple[int, ...], known: Mapping[str, Any]) -> bool:
        """Return whether the axes fit the limits, and equal the known axes of that name."""
        count = len(extents)
        if count < self.least or (self.most is not None and count > self.most):
            return False
        if self.like is not None and known.get(self.like) is not None:
            if count != len(known[self.like]):
                return False
        before = known.get(self.name) if self.name else None
        if before is None:
            return True
        return len(before) == count and all(map(are_equal, before, extents))


class Shape:
    """Shape of a contract. ``text`` is its notation.

    Raises ValueError when it cannot be read.
    """

    __slots__ = (
        "_bare",
        "_formulas",
        "_head",
        "_words",
        "fixed",
        "names",
        "run",
        "symbols",
        "text",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self.run: Run | None = None
        self.names: set[str] = set()  # all names that it reads
        self.symbols: set[str] = set()  # names that it binds
        self._words = text.split()
        runs = [i for i, word in enumerate(self._words) if word.startswith("*")]
        if len(runs) > 1:
            raise ValueError(f"shape [{text}] has more than one variadic part")
        self._head = runs[0] if runs else len(self._words)
        self.fixed = len(self._words) - len(runs)  # axes outside of the variadic part
        self._bare: list[tuple[int, str]] = []
        self._formulas: list[tuple[int, Formula]] = []
        for i, word in enumerate(self._words):
            self._read(word, i if i <= self._head else i - len(self._words))

    def _read(self, word: str, place: int) -> None:
        if word.startswith("*"):
            match = _RUN.fullmatch(word)
            if match is None:
                raise ValueError(f"{word!r} does not say which axes it stands for")
            self.run = Run(match)
            self.symbols |= {self.run.name} - {None}
            self.names |= {self.run.name, self.run.like} - {None}
        elif _SYMBOL.fullmatch(word):
            self._bare.append((place, word))
            self.symbols.add(word)
            self.names.add(word)
        elif word != "_":
            formula = Formula(word)
            self._formulas.append((place, formula))
            self.names |= formula.names

    def bind(self, shape: tuple, known: dict[str, Any], origin: dict[str, str], by: str) -> bool:
        """Return whether the rank and all extents but formulas fit, and bind new names."""
        rank, run = len(shape), self.run
        if rank != self.fixed if run is None else rank < self.fixed:
            return False
        if run is not None:
            extents = shape[self._head : rank - self.fixed + self._head]
            if not run.admits(extents, known):
                return False
            if run.name is not None and known.get(run.name) is None:
                known[run.name] = extents
                origin[run.name] = by
        for place, symbol in self._bare:
            before = known.get(symbol)
            if before is None:
                known[symbol] = shape[place]
                origin[symbol] = by
            elif not are_equal(before, shape[place]):
                return False
        return True

    def formulas_fit(self, shape: tuple, known: Mapping[str, Any]) -> bool:
        """Return whether the extents that are formulas fit, after all operands are bound.

        A formula is skipped if a name has no value because its operand is left out.
        """
        for place, formula in self._formulas:
            if any(known.get(name) is None for name in formula.names):
                continue
            if not any(are_equal(shape[place], n) for n in formula.values(known)):
                return False
        return True

    def extents(self, known: Mapping[str, Any]) -> tuple[Whole, ...]:
        """Return the shape of a result."""
        found: list[Whole] = []
        formulas = dict(self._formulas)
        for i, word in enumerate(self._words):
            place = i if i <= self._head else i - len(self._words)
            if i == self._head:
                found += known[self.run.name]
            elif place in formulas:
                found += formulas[place].values(known)
            else:
                found.append(known[word])
        return tuple(map(as_extent, found))

    def __str__(self) -> str:
        return f"[{', '.join(self._words)}]"

    def shown_values(self, known: Mapping[str, Any]) -> str:
        """Return the shape with the numbers that are known, ``[8, 2]``; empty if there are none."""
        parts = []
        for i, word in enumerate(self._words):
            run = self.run if i == self._head else None
            parts += self._shown_run(run, known) if run else [_shown_word(word, known)]
        text = ", ".join(parts)
        return (
            f"[{text}]"
            if any(c.isdigit() for c in text) and text.split(", ") != (self._words)
            else ""
        )

    def _shown_run(self, run: Run, known: Mapping[str, Any]) -> list[str]:
        if run.name is None or known.get(run.name) is None:
            return ["..."]
        return [shown(n) for n in known[run.name]]


def _shown_word(word: str, known: Mapping[str, Any]) -> str:
    if word == "_":
        return "_"
    formula = Formula(word)
    if any(known.get(name) is None for name in formula.names):
        return word
    try:
        return " or ".join(dict.fromkeys(shown(n) for n in formula.values(known)))
    except Misfit:
        return word
