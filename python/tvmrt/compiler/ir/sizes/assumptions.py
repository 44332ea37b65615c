"""Conditions on run-time sizes that a network imposes, collected while it is imported.

A network has a meaning only for sizes that fit its operators: both branches of a skip connection
have equal extents, a window fits into the image. If the declared bounds leave this open, the
condition is assumed and recorded. The importer then narrows the dimensions to sizes that satisfy
all conditions (``tvmrt.compiler.frontend.size_constraints``). Outside of ``collect_assumptions()``
nothing is assumed. Conditions that cannot be expressed by narrower dimensions are checked at the
start of a run; the symbols of the dimensions record these equations (``Symbol.zeros``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np

from .bounds import bounds
from .extent import Extent, Quotient, Symbol, SymInt, exact_quotient, is_unbounded, sym_max
from .forms import data_dependent_symbols, extent_text, symbols_of
from .undecided import deciding_by

LARGE_SIZE = 1 << 20  # a question that bounds do not decide is answered as for sizes this large
MAX_RETRIES = (
    64  # imports of nodes that are repeated with other answers, in one import of a network
)

Sizes = Mapping[str, Any]  # arrays of sizes by the names of symbols


@dataclass(frozen=True)
class Condition:
    """Condition that the extent ``zero`` is 0. ``node``: the node that imposes it. ``words``: the
    condition as text. ``equal``: the two extents that must be equal, if it is an equality."""

    zero: Extent
    node: str
    words: str
    equal: tuple[SymInt, SymInt] | None = None

    @property
    def symbols(self) -> set[Symbol]:
        return symbols_of(self.zero)

    @property
    def counts(self) -> list[Symbol]:
        """Data-dependent sizes in it, which are unknown at the start of a run."""
        return data_dependent_symbols(self.zero)

    def holds(self, sizes: Sizes) -> np.ndarray:
        """Return for each element of arrays of sizes whether the condition holds."""
        return self.zero.at(sizes) == 0


@dataclass
class Assumptions:
    """Conditions of one import. ``node``: the node that is being imported. ``guarded``: it runs
    only if a run-time condition holds. ``in_body``: it is in the body of a loop.

    ``refused``: conditions that were not assumed because only some runs need them.
    ``may_be_empty``: dimensions along which an input is a part of a concatenation, such as a cache,
    which is empty at first. ``answers``: by extent, whether it is assumed to be negative.
    """

    conditions: list[Condition] = field(default_factory=list)
    node: str = ""
    guarded: bool = False
    in_body: bool = False
    refused: list[Condition] = field(default_factory=list)
    may_be_empty: set[Symbol] = field(default_factory=set)
    answers: dict[Extent, bool] = field(default_factory=dict)
    retries: int = MAX_RETRIES


_current: ContextVar[Assumptions | None] = ContextVar("assumptions", default=None)


@contextmanager
def collect_assumptions() -> Iterator[Assumptions]:
    """Assume and record the conditions that the bounds of dimensions leave open."""
    assumptions = Assumptions()
    token = _current.set(assumptions)
    try:
        with deciding_by(_assume_sign):
            yield assumptions
    finally:
        _current.reset(token)


def enter_node(name: str, guarded: bool = False, in_body: bool = False) -> None:
    """Set the node that is being imported, and whether some runs skip it, or a loop repeats it."""
    current = _current.get()
    if current is not None:
        current.node, current.guarded, current.in_body = name, guarded, in_body


def current_assumptions() -> Assumptions:
    """Return the assumptions of this import so far; none outside of ``collect_assumptions()``."""
    return _current.get() or Assumptions()


def are_equal(a: SymInt, b: SymInt) -> bool:
    """Return whether two extents are equal, or may be and are assumed to be."""
    if a == b:
        return True
    difference = a - b
    if not isinstance(difference, Extent):
        return False
    low, high = bounds(difference)
    if low > 0 or high < 0:
        return False
    if _is_known(difference):
        return True
    zero = primitive_part(difference)
    return _assume(zero, _equality(zero), (a, b))


def are_equal_shapes(a: Sequence[SymInt], b: Sequence[SymInt]) -> bool:
    """Return whether two shapes are equal, or may be and are assumed to be."""
    return len(a) == len(b) and all(map(are_equal, a, b))


def is_at_least(extent: SymInt, minimum: int, words: str = "") -> bool:
    """Return whether an extent is at least ``minimum``, or may be and is assumed to be. ``words``:
    the condition as text, if a user would not find the extent in the network."""
    low, high = bounds(extent)
    if low >= minimum or high < minimum or not isinstance(extent, Extent):
        return low >= minimum
    missing = sym_max(minimum - extent, 0)
    words = words or f"{extent!r} is at least {minimum}"
    return _is_known(missing) or _assume(missing, words)  # type: ignore[arg-type]


def _assume_sign(extent: Extent) -> bool | None:
    """Return whether an extent, which may be negative, is so at large sizes, unless the import of
    a node fails then, and record it as a condition; None if that may not be assumed."""
    sign, answers = known_sign(extent), current_assumptions().answers
    if sign is not None:
        return sign
    answer = answers.get(extent)
    if answer is None:
        answer = int(extent.at({s.name: min(LARGE_SIZE, s.high) for s in extent.symbols()})) < 0
    missing = sym_max(extent + 1, 0) if answer else sym_max(-extent, 0)
    words = f"{-extent!r} is at least 1" if answer else f"{extent!r} is at least 0"
    if not _assume(missing, words):  # type: ignore[arg-type]
        return None
    answers[extent] = answer
    return answer


def try_other_answers(attempt: Callable[[], Any], undo: Callable[[], None]) -> Any:
    """Return the result of an attempt. If it fails at the assumed answers to its questions, undo it
    and repeat it with the other answer to the last question, then to earlier ones. Raises the first
    error if no answers help."""
    current = current_assumptions()
    asked, count, changed = len(current.answers), len(current.conditions), set[Extent]()
    first: tuple[ValueError, list[Condition]] | None = None
    while True:
        try:
            return attempt()
        except ValueError as problem:
            first = first or (problem, current.conditions[count:])
        questions = list(current.answers)[asked:]
        while questions and questions[-1] in changed:
            changed.remove(questions[-1])
            del current.answers[questions.pop()]
        if not questions or not current.retries:
            current.conditions[count:] = first[1]
            raise first[0]
        current.retries -= 1
        current.answers[questions[-1]] ^= True
        changed.add(questions[-1])
        undo()


def assume_sign_before_run(extent: Extent) -> bool | None:
    """Return the sign that is assumed of an extent at large sizes, but None if a run finds some of
    them: it cannot choose another compilation any more."""
    return known_sign(extent) if data_dependent_symbols(extent) else _assume_sign(extent)


def known_sign(extent: Extent) -> bool | None:
    """Return whether the conditions that each run checks imply that an extent is negative, or that
    it is not; None if they imply neither."""
    for answer, missing in ((True, sym_max(extent + 1, 0)), (False, sym_max(-extent, 0))):
        if isinstance(missing, int) or _is_known(missing):
            return answer
    return None


def note_concatenated(extent: SymInt) -> None:
    """Record the dimension that is the extent of a part of a concatenation, if it has no bound."""
    current = _current.get()
    for symbol in symbols_of(extent) if current is not None else ():
        if symbol.is_unbounded and symbol.low == 1 and extent == symbol.extent:
            current.may_be_empty.update({symbol} if symbol.source is None else ())


def is_at_most(extent: SymInt, maximum: int) -> bool:
    """Return whether an extent is at most ``maximum``, or each run checks it because a dimension
    has no bound."""
    if not is_unbounded(extent):
        return bounds(extent)[1] <= maximum
    return is_at_least(maximum - extent, 0)


def _is_known(extent: Extent) -> bool:
    """Return whether each run checks that an extent is 0, or will, by what is assumed so far."""
    zeros = {zero for symbol in symbols_of(extent) for zero in symbol.zeros}
    zeros.update(condition.zero for condition in current_assumptions().conditions)
    return is_implied_by(extent, zeros)


def is_implied_by(extent: Extent, zeros: Collection[Extent]) -> bool:
    """Return whether an extent is one of ``zeros``, but for factors that are never 0."""
    return extent in zeros or primitive_part(extent) in zeros


def primitive_part(extent: Extent) -> Extent:
    """Return an extent that is 0 wherever this one is, without the factors that are never 0 and
    with a positive first coefficient."""
    common = gcd(*(k for _, k in extent.terms))
    primitive = exact_quotient(extent, common if extent.terms[0][1] > 0 else -common)
    for atom in extent.terms[0][0]:
        if atom.bounds[0] > 0 and isinstance(primitive, Extent):
            rest = exact_quotient(primitive, Extent({(atom,): 1}))
            primitive = primitive if rest is None else rest
    return primitive if isinstance(primitive, Extent) else extent


def _equality(zero: Extent) -> str:
    """Return the condition under which an extent is 0 as text."""
    for atoms, _ in zero.terms:
        part = atoms[0] if len(atoms) == 1 else None
        if isinstance(part, Quotient):
            rest = part.number - part.divisor * Extent({atoms: 1})
            if zero in (rest, -rest):
                return f"{part.number!r} is a multiple of {part.divisor}"
    sides = [
        [k * sign * _product(atoms) for atoms, k in zero.terms if k * sign > 0] for sign in (1, -1)
    ]
    one, other = sorted(map(sum, sides), key=lambda side: isinstance(side, int))
    return f"{extent_text(one)} is {extent_text(other)}"


def _product(atoms: tuple) -> SymInt:
    return Extent({atoms: 1}) if atoms else 1


def _assume(zero: Extent, words: str, equal: tuple[SymInt, SymInt] | None = None) -> bool:
    current = _current.get()
    symbols = symbols_of(zero)
    if current is None or any(symbol.local for symbol in symbols):
        return False
    condition = Condition(zero, current.node, words, equal)
    if current.in_body and condition.counts and equal is None:
        return False  # the size may be one of an iteration
    if current.guarded:  # other runs need not satisfy it
        current.refused.append(condition)
        return False
    current.conditions.append(condition)
    return True
