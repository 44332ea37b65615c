"""Symbolic extents, which are known only at run time: polynomials over symbols with bounds.

An :class:`Extent` may be used in place of an integer extent, stride or offset. It supports exact
arithmetic; a result that is the same for all values of its symbols becomes a number again. A
quotient such as ``n / 2`` has fractions as coefficients, until it is rounded to an integer.
Questions that depend on these values are answered from the bounds, or see ``undecided.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm, prod
from numbers import Integral, Rational, Real
from typing import Any, ClassVar, Union

import numpy as np

from tvmrt.option_syntax import option

from .bounds import bounds, denominator
from .int_range import INT_MAX, is_unbounded, may_exceed_int, part_may_exceed_int
from .undecided import UndecidedExtent, decider, unknown_text

# Symbols of an extent, each as often as its text has it: sums of products of sums grow quickly.
MAX_WEIGHT = 4096
_printed: ContextVar[set[Symbol] | None] = ContextVar("printed", default=None)


@contextmanager
def collect_printed_symbols() -> Iterator[set[Symbol]]:
    """Collect the symbols whose C names are printed in the context; the printer of a function then
    knows which sizes its text uses."""
    symbols: set[Symbol] = set()
    token = _printed.set(symbols)
    try:
        yield symbols
    finally:
        _printed.reset(token)


@dataclass(frozen=True)
class Symbol:
    """Symbolic dimension from ``low`` to ``high``, both included. ``name`` is its name in the
    network, ``c`` the parameter that has its value in generated code.

    For a data-dependent dimension, such as the number of selected boxes, ``source`` is the int32
    tensor that holds it; None for others. ``limit``: an extent that is an upper bound in each run.
    ``local``: a size in a loop's body. ``zeros``: extents that are 0 in each run, added by
    importers."""

    name: str
    low: int
    high: int
    c: str
    source: Any = field(default=None, compare=False, repr=False)
    limit: Any = field(default=None, repr=False)
    local: bool = field(default=False, compare=False, repr=False)
    zeros: Any = field(default=(), compare=False, repr=False)
    computed: ClassVar[bool] = False
    weight: ClassVar[int] = 1

    def __hash__(self) -> int:
        return hash((self.name, self.c))

    def at(self, values: Mapping[str, Any], cache: dict | None = None) -> Any:
        return values[self.name]

    @property
    def bounds(self) -> tuple[int, int]:
        return self.low, self.high

    @property
    def is_unbounded(self) -> bool:
        """Whether it has no bound of its own: each run checks that its tensors are not too
        large."""
        return self.high >= INT_MAX

    def symbols(self) -> frozenset[Symbol]:
        return frozenset((self,))

    def text(self, names: bool, wide: bool = False) -> str:
        if names:
            return self.name
        if (printed := _printed.get()) is not None:
            printed.add(self)
        return self.c

    @property
    def extent(self) -> Extent:
        return Extent({(self,): 1})


@dataclass(frozen=True)
class _Computed:
    """A function of an extent that never falls and is never negative."""

    number: Extent
    computed: ClassVar[bool] = True

    def apply(self, number: Any) -> Any:
        """Return the function of a number, of an array or of an extent."""
        raise NotImplementedError

    @property
    def weight(self) -> int:
        return self.number.weight

    def at(self, values: Mapping[str, Any], cache: dict | None = None) -> Any:
        return self.apply(self.number.at(values, cache))

    @property
    def bounds(self) -> tuple[int, int]:
        low, high = bounds(self.number)
        return self.apply(low), self.apply(high)

    def symbols(self) -> frozenset[Symbol]:
        return self.number.symbols()


@dataclass(frozen=True)
class Quotient(_Computed):
    """``number / divisor`` rounded down; ``number`` is never negative."""

    divisor: int

    def apply(self, number: Any) -> Any:
        return number // self.divisor

    def text(self, names: bool, wide: bool = False) -> str:
        return f"({_part_text(self.number, names, wide)} / {self.divisor})"


@dataclass(frozen=True)
class MaxWithZero(_Computed):
    """``max(number, 0)``; the minimum and maximum of two extents are expressed by it."""

    def apply(self, number: Any) -> Any:
        return _max_with_zero(number)

    @property
    def weight(self) -> int:
        return 2 * self.number.weight  # C text has the number twice

    def text(self, names: bool, wide: bool = False) -> str:
        number = _part_text(self.number, names, wide)
        return f"max({number}, 0)" if names else f"({number} > 0 ? {number} : 0)"


Atom = Union[Symbol, Quotient, MaxWithZero]
SymInt = Union[int, "Extent"]
Exact = Union[int, Fraction, "Extent"]  # a number that may be between two integers


class Extent:
    """Polynomial with rational coefficients over symbols, rounded quotients and maxima, in
    canonical form. Those that are not whole are fractions; sizes have none.

    Equal extents are the same polynomial, so they are equal for all values of the symbols.
    ``weight``: how many symbols its text has. Raises UndecidedExtent above MAX_WEIGHT.
    """

    __slots__ = ("_hash", "_symbols", "terms", "weight")

    def __init__(self, terms: Mapping[tuple[Atom, ...], int]) -> None:
        self.weight = sum(atom.weight for atoms in terms for atom in atoms)
        _check_weight(self.weight)
        self.terms = tuple(sorted(terms.items(), key=lambda term: _order(term[0])))
        self._hash = hash(self.terms)
        self._symbols: frozenset[Symbol] | None = None

    def at(self, values: Mapping[str, Any], cache: dict | None = None) -> Any:
        """Return the value for these values of the symbols, by name; for arrays an array.
        ``known``: values of extents inside others, which may share them."""
        cache = {} if cache is None else cache
        if self not in cache:
            cache[self] = sum(k * prod(a.at(values, cache) for a in t) for t, k in self.terms)
        return cache[self]

    def substitute(self, values: Mapping[str, Any]) -> SymInt:
        """Return the extent with extents in place of some symbols, by name."""
        return self.at({**{s.name: s.extent for s in self.symbols()}, **values})

    def symbols(self) -> frozenset[Symbol]:
        """Return the symbols of all terms."""
        if self._symbols is None:
            atoms = {atom for atoms, _ in self.terms for atom in atoms}
            self._symbols = frozenset().union(*(atom.symbols() for atom in atoms))
        return self._symbols

    def text(self, names: bool = True, wide: bool = False) -> str:
        """Return text with the network's names of the symbols, or a C expression. ``wide``: it is a
        number, which may exceed C's int where the size of a tensor may not."""
        unit = denominator(self)
        if unit > 1:
            if not names:
                raise ValueError(f"{self!r} is not an integer in C; round it")
            return f"({(self * unit).text()} / {unit})"  # type: ignore[union-attr]
        parts = []
        is_long = not names and (wide or may_exceed_int(self))
        # negative terms after positive ones, a number last: n + 1
        for atoms, k in sorted(self.terms, key=lambda term: (term[1] < 0, not term[0])):
            words = [a.text(names, wide) for a in atoms]
            if is_long and atoms:
                words.insert(0, f"{abs(k)}LL")
            elif abs(k) != 1 or not words:
                words.append(str(abs(k)))
            sign = " - " if k < 0 else " + "
            parts.append((sign if parts else sign.strip(" +")) + " * ".join(words))
        text = "".join(parts)
        alone = len(self.terms) == 1 and len(self.terms[0][0]) == 1 and self.terms[0][1] == 1
        return text if alone else f"({text})"

    def __str__(self) -> str:
        return self.text(names=False)

    def __repr__(self) -> str:
        return self.text()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.terms == other.terms

    # Arithmetic.

    def __add__(self, other: Any) -> SymInt:
        terms = _terms(other)
        if terms is None:
            return NotImplemented
        total = dict(self.terms)
        for atoms, k in terms.items():
            total[atoms] = total.get(atoms, 0) + k
        return _from_terms(total)

    __radd__ = __add__

    def __neg__(self) -> SymInt:
        return Extent({atoms: -k for atoms, k in self.terms})

    def __pos__(self) -> SymInt:
        return self

    def __sub__(self, other: Any) -> SymInt:
        return NotImplemented if _terms(other) is None else self + -other

    def __rsub__(self, other: Any) -> SymInt:
        return NotImplemented if _terms(other) is None else -self + other

    def __mul__(self, other: Any) -> SymInt:
        terms = _terms(other)
        if terms is None:
            return NotImplemented
        if terms == {(): 1}:
            return self
        total: dict[tuple[Atom, ...], int] = {}
        if isinstance(other, Extent):
            _check_weight(len(self.terms) * len(other.terms))
        for atoms, k in self.terms:
            for others, n in terms.items():
                both = tuple(sorted(atoms + others, key=lambda atom: atom.text(True)))
                total[both] = total.get(both, 0) + k * n
        return _from_terms(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> SymInt:
        if _terms(other) is None:
            return NotImplemented
        return _floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> SymInt:
        return NotImplemented if _terms(other) is None else _floor_divide(other, self)

    def __mod__(self, other: Any) -> SymInt:
        return self - self // other * other

    def __rmod__(self, other: Any) -> SymInt:
        return other - other // self * self

    def __truediv__(self, other: Any) -> float:
        raise UndecidedExtent(f"the quotient {self!r} / {other!r} {unknown_text(self)}")

    def __rtruediv__(self, other: Any) -> float:
        raise UndecidedExtent(f"the quotient {other!r} / {self!r} {unknown_text(self)}")

    # Comparisons, decided by bounds.

    def __lt__(self, other: Any) -> bool:
        return _is_negative(self - other, self, "<", other)

    def __gt__(self, other: Any) -> bool:
        return not self._is_checked(other) and _is_negative(other - self, self, ">", other)

    def __le__(self, other: Any) -> bool:
        return self._is_checked(other) or not _is_negative(other - self, self, "<=", other)

    def __ge__(self, other: Any) -> bool:
        return self._is_checked(-other) or not _is_negative(self - other, self, ">=", other)

    def _is_checked(self, limit: Any) -> bool:
        """Return whether it is within a limit because each run checks the sizes of its tensors."""
        return isinstance(limit, Integral) and limit >= INT_MAX and is_unbounded(self)

    def __abs__(self) -> SymInt:
        return self if bounds(self)[0] >= 0 else sym_max(self, -self)

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low > 0 or high < 0 or low == high:
            return low != 0
        if low >= 0 and (decide := decider()) is not None:
            is_zero = decide(self * denominator(self) - 1)  # type: ignore[arg-type]
            if is_zero is not None:
                return not is_zero
        raise UndecidedExtent(f"whether {self!r} is 0 {unknown_text(self, True)}")

    def __index__(self) -> int:
        raise UndecidedExtent(f"the extent {self!r} {unknown_text(self)}")

    __int__ = __float__ = __index__


def _check_weight(weight: int) -> None:
    if weight > MAX_WEIGHT:
        raise UndecidedExtent(
            f"a size computed from more than {MAX_WEIGHT} dimensions, counted as often as they "
            f"occur, is not known to the compiler; fix dimensions with {option('shapes')}"
        )


def _part_text(number: Extent, names: bool, wide: bool) -> str:
    """Return the text of the number inside a quotient or maximum."""
    return number.text(names, wide or part_may_exceed_int(number))


def _is_negative(difference: Any, a: Any, sign: str, b: Any) -> bool:
    low, high = bounds(difference)
    if high < 0:
        return True
    if low >= 0:
        return False
    decide = decider()
    answer = None if decide is None else decide(difference * denominator(difference))
    if answer is not None:
        return answer
    raise UndecidedExtent(f"whether {a!r} {sign} {b!r} {unknown_text(difference, True)}")


def _terms(value: Any) -> dict[tuple[Atom, ...], int] | None:
    if isinstance(value, Extent):
        return dict(value.terms)
    if isinstance(value, Integral):
        return {(): int(value)}
    if isinstance(value, Rational):
        return {(): _as_integer(value)}
    if isinstance(value, Real):
        raise UndecidedExtent(f"a floating-point value computed from {value} and a dimension "
        f"is known only at run time; fix the dimension with {option('shapes')}")  # fmt: skip
    return None


def _from_terms(terms: Mapping[tuple[Atom, ...], Any]) -> Any:
    nonzero = {t: k if k.__class__ is int else _as_integer(k) for t, k in terms.items() if k}
    if not nonzero.keys() - {()}:
        return nonzero.get((), 0)
    return Extent(nonzero)


def _as_integer(number: Rational) -> Any:
    return int(number) if number.denominator == 1 else number


def _order(atoms: tuple[Atom, ...]) -> tuple:
    return len(atoms), *[atom.text(True) for atom in atoms]


def _floor_divide(number: Any, divisor: Any) -> SymInt:
    """Return the quotient rounded down; the divisor must be positive."""
    if not divisor > 0:
        raise UndecidedExtent(f"{number!r} / {divisor!r} may be divided by 0")
    exact = exact_quotient(number, divisor)
    if exact is not None:
        return exact
    if isinstance(divisor, Extent):
        if 0 <= number < divisor:
            return 0
        raise UndecidedExtent(f"the quotient {number!r} / {divisor!r} {unknown_text(divisor)}")
    unit = lcm(denominator(number), divisor.denominator)
    return _floor_by_constant(number * unit, int(divisor * unit))


def quotient(number: Any, divisor: Any) -> Exact | None:
    """Return the quotient in exact arithmetic, with fractions as coefficients; None if it is not a
    polynomial. ``/`` is an error: other code divides sizes to get an integer or a float."""
    if not isinstance(divisor, Extent):
        return number * Fraction(1, divisor) if divisor else None
    unit = lcm(denominator(number), denominator(divisor))
    whole, by = number * unit, divisor * unit
    common = gcd(*(k for _, k in by.terms))  # type: ignore[union-attr]
    quotient = exact_quotient(whole, exact_quotient(by, common))  # type: ignore[arg-type]
    return None if quotient is None else quotient * Fraction(1, common)


def _floor_by_constant(number: Any, divisor: int) -> SymInt:
    """Divide, rounded down, in canonical form: coefficients below the divisor inside, no common
    factor, no nested quotients."""
    outside = _from_terms({atoms: k // divisor for atoms, k in number.terms})
    inside = _from_terms({atoms: k % divisor for atoms, k in number.terms})
    low, high = bounds(inside)
    if low // divisor == high // divisor:
        return outside + low // divisor
    factor = gcd(divisor, *(k for atoms, k in inside.terms if atoms))
    if factor > 1:
        inside = _from_terms({atoms: k // factor for atoms, k in inside.terms})
        divisor //= factor
        if divisor == 1:
            return outside + inside
    varying = [(atoms, k) for atoms, k in inside.terms if atoms]
    if len(varying) == 1 and varying[0][1] == 1 and len(varying[0][0]) == 1:
        (atom,) = varying[0][0]
        if isinstance(atom, Quotient):
            remainder = dict(inside.terms).get((), 0)
            number = atom.number + remainder * atom.divisor
            return outside + _floor_by_constant(number, atom.divisor * divisor)
    return outside + Extent({(Quotient(inside, divisor),): 1})


def sym_min(a: Any, b: Any) -> Any:
    """Return the minimum of two extents."""
    return a - _max_with_zero(a - b)


def sym_max(a: Any, b: Any) -> Any:
    """Return the maximum of two extents."""
    return b + _max_with_zero(a - b)


def _max_with_zero(number: Any) -> Any:
    """Return max(number, 0) for a number, an array or an extent; of an extent in canonical form."""
    if not isinstance(number, Extent):
        return np.maximum(number, 0) if isinstance(number, np.ndarray) else max(number, 0)
    low, high = bounds(number)
    if low >= 0 or high <= 0:
        return number if low >= 0 else 0
    unit = denominator(number)
    if unit > 1:
        return _max_with_zero(number * unit) * Fraction(1, unit)
    factor = gcd(*(k for _, k in number.terms))
    number = Extent({atoms: k // factor for atoms, k in number.terms})
    if number.terms[-1][1] < 0:
        return factor * (number + Extent({(MaxWithZero(-number),): 1}))  # type: ignore[arg-type]
    return Extent({(MaxWithZero(number),): factor})


def exact_quotient(number: SymInt, divisor: SymInt) -> SymInt | None:
    """Return the quotient if its coefficients are integers, else None."""
    left, parts = _terms(number), _terms(divisor)
    lead = max(parts, key=_order)
    total: dict[tuple[Atom, ...], int] = {}
    while left:
        top = max(left, key=_order)
        factors = list(top)
        for atom in lead:
            if atom not in factors:
                return None
            factors.remove(atom)
        if left[top] % parts[lead]:
            return None
        factor = left[top] // parts[lead]
        total[tuple(factors)] = factor
        subtrahend = _terms(divisor * _from_terms({tuple(factors): factor}))
        for atoms, k in subtrahend.items():
            left[atoms] = left.get(atoms, 0) - k
        left = {atoms: k for atoms, k in left.items() if k}
    return _from_terms(total)
