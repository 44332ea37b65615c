"""Questions about sizes that bounds do not decide: their errors, and who answers them instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Union

from tvmrt.error import UnsupportedSizes
from tvmrt.option_syntax import option


class UndecidedExtent(UnsupportedSizes):
    """Error: the compiler needs an extent that is known only at run time."""


# Answers a question that bounds do not decide: whether an extent is negative. None: it is an error.
Decide = Callable[[Any], Union[bool, None]]
_decide: ContextVar[Decide | None] = ContextVar("decide", default=None)


@contextmanager
def deciding_by(decide: Decide | None) -> Iterator[None]:
    """In the context, ask a function whether an extent is negative if bounds do not decide it."""
    token = _decide.set(decide)
    try:
        yield
    finally:
        _decide.reset(token)


def decider() -> Decide | None:
    """Return the function that answers in this context; None if there is none."""
    return _decide.get()


def statically_known_true(question: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether the answer is yes for all sizes, as the condition of an optimisation.

    Return False where the bounds do not decide, so that the general form is used.
    """
    with deciding_by(None):
        try:
            return bool(question(*arguments))
        except UndecidedExtent:
            return False


def unknown_text(extent: Any, by_bounds: bool = False) -> str:
    """Return the end of an error text: what is unknown, and which options make it known."""
    help_ = f"give it closer bounds with {option('dims')}, or fix" if by_bounds else "fix"
    reason = f"is known only at run time ({describe_symbols(extent.symbols())})"
    return f"{reason}; {help_} it with {option('shapes')}"


def describe_symbols(symbols: Iterable[Any]) -> str:
    """Return symbols with their bounds as text."""
    ordered = sorted(symbols, key=lambda s: s.name)
    return ", ".join(f"{s.name} = {s.low}..{s.high}" for s in ordered)
