"""Conditions of a contract beyond shapes, types and ranges: named tests and named values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..sizes import Extent, extent_text
from .extent_formula import ContractError

_DATA = "_data"


@dataclass(frozen=True)
class Rule:
    """Test, or definition of ``name``: ``words`` as text, ``function`` of names in ``reads``."""

    words: str
    function: Callable[..., Any]
    reads: tuple[str, ...]
    name: str | None = None

    def arguments(self, bindings: Mapping[str, Any]) -> list[Any] | None:
        """Return the values of the parameters; None if elements are needed that are not known."""
        operands = [bindings[name] if name in bindings else None for name in self.reads]
        for name, value in zip(self.reads, operands):
            if value is None and name.endswith(_DATA):
                return None
        return operands

    def apply(self, bindings: dict[str, Any]) -> None:
        """Raise ``ContractError`` if a test fails; store a named value in ``bindings``."""
        arguments = self.arguments(bindings)
        if arguments is None:
            return
        result = self.function(*arguments)
        if self.name is not None:
            bindings[self.name] = result
        elif not result:
            values = (
                f"{n} = {value_text(v)}" for n, v in zip(self.reads, arguments) if v is not None
            )
            raise ContractError(f"expected that {self.words}; found {', '.join(values)}")


def holds(words: str, test: Callable[..., Any], reads: str | None = None) -> Rule:
    """Return a test whose ``words`` finish the sentence "expected that ...".

    ``reads`` has the names of the arguments, separated by blanks, if the function's parameters
    have other names.
    """
    return Rule(words, test, _names(test, reads))


def let(name: str, words: str, value: Callable[..., Any], reads: str | None = None) -> Rule:
    """Return a definition of ``name``: an extent, or several with a leading star.

    ``words`` define it; ``value`` computes it and may raise ``ContractError``; ``reads``: see
    ``holds``.
    """
    return Rule(words, value, _names(value, reads), name.lstrip("*"))


def _names(function: Callable[..., Any], reads: str | None) -> tuple[str, ...]:
    return tuple(reads.split() if reads else inspect.signature(function).parameters)


def value_text(value: Any) -> str:
    """Return a value of a contract's name for errors."""
    if isinstance(value, np.ndarray):
        if value.size <= 8:
            return str(value.tolist())
        return f"elements from {value.min()} to {value.max()}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(value_text, value))}]"
    return extent_text(value) if isinstance(value, Extent) else str(value)
