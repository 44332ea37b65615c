"""Dynamic dimensions: declarations by the user, and the extents that they become."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Union

from tvmrt.compiler.ir import Builder, Trait, Value
from tvmrt.compiler.ir.data_dependent_dims import SIZES_AT_WHICH
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Extent,
    Symbol,
    SymInt,
    as_extent,
    data_dependent_symbols,
    extent_text,
    is_unbounded,
    lower_bound,
    solve,
    symbols_of,
    upper_bound,
    value_at,
)
from tvmrt.compiler.ir.sizes.assumptions import is_at_least
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent, deciding_by
from tvmrt.compiler.ir.value_numbering import ValueNumbers
from tvmrt.option_syntax import option

# ``N<=8``, ``N=1..8``, ``N=M+1``
_DECLARED = re.compile(
    r"(?P<name>[^<=]+)(?:<=(?P<max>\d+)|=(?P<low>\d+)\.\.(?P<high>\d+)|=(?P<sum>.*[A-Za-z_].*))"
)
MAX_DIM = INT_MAX  # also of a dimension without a declared bound
MAX_EXPONENT = 8  # maximum exponent in an expression of dimensions
# Maximum number of factors and bits of an expression. Five times halving a height and a width with
# rounding up gives a hundred. Nested powers in a file would take years to expand.
MAX_FACTORS = 1024

Declaration = Union[int, str, Sequence[int]]


def parse_dim(text: str) -> tuple[str, Declaration]:
    """Parse ``N<=8`` or ``N=1..8`` to ``("N", (1, 8))`` and ``N=M+1`` to ``("N", "M+1")``. Raises
    ValueError for anything else."""
    match = _DECLARED.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"'{text}' does not declare a dimension; write NAME=LOW..HIGH, NAME<=HIGH, or NAME= "
            "and a sum or product of other dimensions"
        )
    name = match["name"].strip()
    if match["sum"]:
        return name, match["sum"]
    if match["max"]:
        return name, (1, int(match["max"]))
    return name, (int(match["low"]), int(match["high"]))


@dataclass(frozen=True)
class ValidSizes:
    """The sizes of a dimension at which a network is valid: ``step * n + first`` for n from ``low``
    to ``high``, or the extent ``same``. ``node``: for a data-dependent dimension, the node that
    needs that size; each run checks it.
    """

    low: int = 0
    high: int = 0
    step: int = 1
    first: int = 0
    same: SymInt | None = None
    node: str = ""

    def __str__(self) -> str:
        if self.same is not None:
            return f"is {self.same!r}"
        low, high = (n * self.step + self.first for n in (self.low, self.high))
        if low == high:
            return f"is {low}"
        offset = f" plus {self.first}" if self.first else ""
        steps = f" in multiples of {self.step}{offset}" if self.step > 1 else ""
        return f"ranges from {low} to {high}{steps}"


class Dims:
    """The declared dimensions of a network by name, and the extents that they become.

    ``declared``: the maximum, (minimum, maximum) or an expression for each dimension. ``narrowed``:
    sizes of some of them at which the network is valid. ``zeros``: extents that are 0 in each run.
    Raises ValueError for invalid bounds.
    """

    def __init__(
        self,
        declared: Mapping[str, Declaration] | None = None,
        narrowed: Mapping[str, ValidSizes] | None = None,
        zeros: Sequence[Extent] = (),
    ) -> None:
        self._narrowed = dict(narrowed or {})
        self._zeros = zeros
        self._bounds: dict[str, tuple[int, int]] = {}
        self._expressions: dict[str, str] = {}
        self._evaluating: list[str] = []  # expressions under evaluation
        self._symbols: dict[str, Symbol] = {}
        self._unified: dict[str, None] = {}  # data-dependent sizes that equal other extents
        self.names: tuple[dict[str, Any], ...] = (self._symbols, self._unified)  # of sizes
        self.data_dependent_sizes = DataDependentSizes()
        for name, bounds in (declared or {}).items():
            self.declare(name, bounds)

    def declare(self, name: str, bounds: Declaration) -> None:
        """Give a dimension its bounds. Raises ValueError if it has different bounds already."""
        if isinstance(bounds, str):
            self._expressions[name] = bounds
            return
        try:
            low, high = (1, bounds) if isinstance(bounds, int) else map(int, bounds)
        except (TypeError, ValueError):
            raise TypeError(
                f"{option('dims', {name: bounds})}: give the maximum, or minimum and maximum"
            ) from None
        if not 0 <= low <= high <= MAX_DIM:
            raise ValueError(
                f"{option('dims', {name: (low, high)})}: the bounds of a dimension are two numbers "
                f"from 0 to {MAX_DIM}, the lower one first"
            )
        before = self._bounds.setdefault(name, (low, high))
        if before != (low, high):
            raise ValueError(
                f"dimension {name} is declared both from {before[0]} to {before[1]} and from "
                f"{low} to {high}; declare it once"
            )

    def declaration(self, name: str) -> Declaration:
        """Return the bounds or the expression of a declared dimension."""
        return self._bounds.get(name) or self._expressions[name]

    def __contains__(self, name: object) -> bool:
        """Return whether a dimension is declared, or is a sum or product of declared dimensions."""
        if name in self._bounds or name in self._expressions:
            return True
        names = _names_in(name) if isinstance(name, str) else None
        return bool(names) and names != {name} and all(n in self for n in names)

    def undeclared(self, names: Iterable[str]) -> list[str]:
        """Return the names that have to be declared. Sums and products of other names in the list,
        or of declared ones, follow from these."""
        every = dict.fromkeys(name for name in names if name not in self)

        def follows(name: str) -> bool:
            parts = _names_in(name) or {name}
            return name not in parts and all(p in every or p in self for p in parts)

        return [name for name in every if not follows(name)]

    def extent(self, name: str) -> SymInt:
        """Return the extent of a declared dimension or expression. Raises ValueError if it depends
        on itself or on an undeclared dimension."""
        if name in self._narrowed:
            return self._narrowed_extent(name, self._narrowed[name])
        if name in self._bounds:
            low, high = self._bounds[name]
            return low if low == high else self._symbol(name, low, high).extent
        text = self._expressions.get(name, name)
        if name in self._evaluating:
            raise ValueError(f"dimension {name} is defined by itself; declare its bounds")
        self._evaluating.append(name)
        result = self._evaluate(name, text)
        self._evaluating.pop()
        too_large = upper_bound(result) > MAX_DIM and not is_unbounded(result)
        if too_large or not is_at_least(result, 0):
            raise ValueError(
                f"dimension {name} = {text} is from {lower_bound(result)} to "
                f"{upper_bound(result)}; declare bounds that keep it from being negative"
            )
        return result

    def extent_in_file(self, name: str) -> SymInt | None:
        """Return the extent of a dimension that the file declares for a tensor other than an input;
        None for an expression that is not an extent at all sizes, as exporters write some."""
        if name in self._bounds or name in self._expressions:
            return self.extent(name)
        depth = len(self._evaluating)
        with suppress(UndecidedExtent, ValueError), deciding_by(None):
            return self.extent(name)
        del self._evaluating[depth:]
        return None

    def _narrowed_extent(self, name: str, sizes: ValidSizes) -> SymInt:
        if sizes.same is not None:
            names = {symbol.name for symbol in symbols_of(sizes.same)}
            return as_extent(value_at(sizes.same, {n: self.extent(n) for n in names}))
        if sizes.low == sizes.high:
            return sizes.low * sizes.step + sizes.first
        if sizes.step == 1:
            return self._symbol(name, sizes.low, sizes.high).extent
        steps = f"{name}_by_{sizes.step}"
        inner = self._narrowed.get(steps, ValidSizes(sizes.low, sizes.high))
        return self._narrowed_extent(steps, inner) * sizes.step + sizes.first

    def _evaluate(self, name: str, text: str) -> SymInt:
        stack: list[SymInt] = []
        for term in _parse_postfix(name, text):
            if isinstance(term, str):
                if term not in self:
                    raise ValueError(f"dimension {name} depends on {term}; declare {term}, too")
                stack.append(self.extent(term))
            elif isinstance(term, int):
                stack.append(term)
            else:
                by = stack.pop()
                try:
                    stack.append(term(stack.pop(), by))
                except (OverflowError, ZeroDivisionError) as problem:
                    raise ValueError(
                        f"dimension {_shorten(name, text)} {problem}; give the shapes of the "
                        "inputs that have it, or name it by a word"
                    ) from None
        return stack[0]

    def _symbol(self, name: str, low: int, high: int) -> Symbol:
        if name not in self._symbols:
            zeros = tuple(z for z in self._zeros if any(s.name == name for s in symbols_of(z)))
            self._symbols[name] = Symbol(name, low, high, self._parameter(name), zeros=zeros)
        return self._symbols[name]

    def declare_symbol(
        self,
        name: str,
        low: int,
        high: SymInt,
        source: Any,
        limit: SymInt | None = None,
    ) -> SymInt:
        """Return the extent of a data-dependent size, see ``Symbol``; ``name`` must be unique.
        ``limit``: an upper bound in any run, if that is not ``high``."""
        if limit is None and not isinstance(high, int):
            limit = high
        c, local = self._parameter(name), source is None
        most = MAX_DIM if is_unbounded(high) else min(upper_bound(high), MAX_DIM)
        zeros = [z for z in self._zeros if any(s.name == name for s in symbols_of(z))]
        symbol = Symbol(name, low, most, c, source, limit, local, zeros=zeros)
        self._symbols[name] = symbol
        return symbol.extent

    def data_dependent_extent(
        self,
        emit: Callable[..., Value],
        number: Value,
        low: int,
        high: SymInt,
        node: str,
        what: str,
    ) -> SymInt:
        """Turn a data-dependent int64 scalar into an extent from ``low`` to ``high``. A run with a
        number outside of these bounds ends with an error that names ``what``. ``emit`` adds
        operators for the network's node ``node``."""
        if isinstance(high, int):
            high = min(high, MAX_DIM)
        name = self.unique_name(f"{node}_{what}".replace(" ", "_"))
        same, reader = self._required_extent(name)
        if same is not None:
            self._unified[name] = None
            vector = emit("reshape", [number], shape=(1,))
            text = f"{SIZES_AT_WHICH}it is {extent_text(same)}, which node {reader} needs"
            emit("require", [vector] * 2, expected=(same,), where=f"'{node}', {what}", text=text)
            return same
        source = emit("count", [number], extent=name, what=what, low=low, high=high)
        return self.declare_symbol(name, low, high, source)

    def _required_extent(self, name: str) -> tuple[SymInt | None, str]:
        """Return the extent that a data-dependent size must equal, in terms of sizes known before
        it, and the node that needs it; None if the size is unconstrained."""
        for other, sizes in self._narrowed.items():
            if not sizes.node:
                continue
            symbols = {symbol.name: symbol for symbol in symbols_of(sizes.same)}
            unknown = [n for n in (other, *symbols) if n not in self._symbols and n not in self]
            if unknown != [name]:
                continue
            extents = {n: self._extent_by_name(n) for n in symbols if n != name}
            if other == name:
                return as_extent(value_at(sizes.same, extents)), sizes.node
            zero = sizes.same.substitute(extents) - self._extent_by_name(other)
            solution = solve(zero, symbols[name])
            if solution is not None:
                return solution, sizes.node
        return None, ""

    def _extent_by_name(self, name: str) -> SymInt:
        return self.extent(name) if name in self else self._symbols[name].extent

    def is_known(self, size: Symbol) -> bool:
        """Return whether the network has computed a data-dependent size."""
        return size.name in self._symbols

    def current(self, extent: Extent) -> SymInt:
        """Return an extent of an earlier import with the data-dependent sizes of this one."""
        counts = {s.name: self._symbols[s.name].extent for s in data_dependent_symbols(extent)}
        return extent.substitute(counts)

    def unique_name(self, name: str) -> str:
        """Return the name, or a similar one that is unused."""
        taken = (self._symbols, self._unified, self)
        return unused_name(name, lambda found: any(found in each for each in taken))

    def _parameter(self, name: str) -> str:
        """Return a unique C name such as ``n_batch``."""
        stem = "n_" + (re.sub(r"\W", "_", name, flags=re.ASCII)[:24] or "dim")
        taken = {symbol.c for symbol in self._symbols.values()}
        return unused_name(stem, taken.__contains__)

    def unused(self, names: Iterable[str]) -> list[str]:
        """Return the declared dimensions that the network does not have."""
        known = set(names)
        known |= {n for name in known if name in self for n in self._parts(name)}
        return [name for name in (*self._bounds, *self._expressions) if name not in known]

    def _parts(self, name: str) -> set[str]:
        text = self._expressions.get(name, name)
        return {s.name for s in symbols_of(self.extent_in_file(text))} | (_names_in(text) or set())


def unused_name(
    name: str, is_used: Callable[[str], bool], numbers: dict[str, int] | None = None
) -> str:
    """Return the name, or if it is used the name with the first free number appended.

    ``numbers``: by name the last number of earlier calls, if names do not become free again.
    """
    numbers = {} if numbers is None else numbers
    trial = name
    while is_used(trial):
        numbers[name] = numbers.get(name, 1) + 1
        trial = f"{name}_{numbers[name]}"
    return trial


def _shorten(name: str, text: str) -> str:
    shortened = text if name == text else f"{name} = {text}"
    return shortened if len(shortened) <= 80 else f"{shortened[:80]}..."


def _count_terms(number: SymInt) -> int:
    return len(number.terms) if isinstance(number, Extent) else 1


def _check_factors(number: SymInt) -> SymInt:
    """Return the number. Raises OverflowError for too many factors, including in quotients."""
    count, remaining = 0, [number]
    while remaining:
        some = remaining.pop()
        for atoms, factor in some.terms if isinstance(some, Extent) else [((), some)]:
            count += len(atoms) + factor.bit_length()
            remaining += [atom.number for atom in atoms if not isinstance(atom, Symbol)]
        if count > MAX_FACTORS:
            raise OverflowError(f"expands to more than {MAX_FACTORS} factors and bits")
    return number


def _multiply(a: SymInt, b: SymInt) -> SymInt:
    many = _count_terms(a) * _count_terms(b) > MAX_FACTORS
    return _check_factors(1 << MAX_FACTORS if many else a * b)


def _divide(a: SymInt, b: SymInt) -> SymInt:
    if isinstance(b, int) and b == 0:
        raise ZeroDivisionError("contains a division by 0")
    return _check_factors(a // b)


_ARITHMETIC: dict[type, Callable[[SymInt, SymInt], SymInt]] = {
    ast.Add: lambda a, b: _check_factors(a + b),
    ast.Sub: lambda a, b: _check_factors(a - b),
    ast.Mult: _multiply,
    ast.FloorDiv: _divide,
}


def _parse_postfix(name: str, text: str) -> list[int | str | Callable[[SymInt, SymInt], SymInt]]:
    """Parse an expression to numbers, names and operators in postfix order. Raises ValueError if it
    is not a supported expression: exporters name dimensions by any function."""
    try:
        return _to_postfix(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        bounds = f"; give bounds as {option('dims', {name: (1, 8)})}" if ".." in text else ""
        raise ValueError(
            f"dimension {name}: '{text}' is not a sum or product of dimensions{bounds}"
        ) from None


def _power(base: SymInt, times: int) -> SymInt:
    """Return a power of a number: exporters write the area of a square image as one."""
    number: SymInt = 1
    for _ in range(times):
        number = _multiply(number, base)
    return number


def _to_postfix(node: ast.expr) -> list:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return [node.value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [0, *_to_postfix(node.operand), _ARITHMETIC[ast.Sub]]
    if isinstance(node, ast.BinOp):
        left, right = _to_postfix(node.left), _to_postfix(node.right)
        if type(node.op) in _ARITHMETIC:
            return [*left, *right, _ARITHMETIC[type(node.op)]]
        if isinstance(node.op, ast.Pow) and right[0] in range(MAX_EXPONENT + 1) and len(right) == 1:
            return [*left, *right, _power]
    raise ValueError


def _names_in(text: str) -> set[str] | None:
    """Return the names in a dimension that is an expression; None for any other text. A
    single name is a dimension of its own, however it is written: "N " is not "N"."""
    try:
        terms = _parse_postfix("", text)
    except ValueError:
        return None
    names = {term for term in terms if isinstance(term, str)}
    return {text} if len(terms) == 1 and names else names


class DataDependentSizes:
    """The data-dependent sizes of one import."""

    def __init__(self) -> None:
        self._values = ValueNumbers()
        self._known: dict[tuple[int, Any], list[SymInt]] = {}

    def intern(
        self, builder: Builder, scalar: Value, low: int, high: SymInt, make: Callable[[], SymInt]
    ) -> SymInt:
        """Return a data-dependent integer scalar as an extent; ``make`` declares it if no earlier
        extent from ``low`` to ``high`` is known to be the same number."""
        number = scalar
        while number.producer is not None and _keeps_integer(number):
            number = number.producer.inputs[0]  # type: ignore[assignment]
        key, guard = self._values.of(number), self._key(builder.guard)
        for each in {None, guard}:
            for extent in self._known.get((key, each), ()):
                fits = lower_bound(extent) >= low and upper_bound(extent) <= upper_bound(high)
                if fits and _is_in_graph(builder, extent):
                    return extent
        extent = make()
        producers = [s.source.producer for s in data_dependent_symbols(extent)[:1]]
        guards = [self._key(node.guard) for node in producers if node is not None]
        self._known.setdefault((key, next(iter(guards), None)), []).append(extent)
        return extent

    def _key(self, guard: tuple[Value, bool] | None) -> tuple[int, bool] | None:
        return guard and (self._values.of(guard[0]), guard[1])


def _keeps_integer(value: Value) -> bool:
    """Return whether a node returns its integer scalar unchanged."""
    node = value.producer
    x = node.inputs[0] if node is not None and node.inputs else None
    if node is None or x is None:
        return False
    converts = node.has(Trait.CONVERTS) and x.dtype.is_int and value.dtype.bits >= 32
    return converts or node.has(Trait.REARRANGES)


def _is_in_graph(builder: Builder, extent: SymInt) -> bool:
    """Return whether a size is still computed in the graph; importers may undo an attempt."""
    producers = [s.source.producer for s in data_dependent_symbols(extent)[:1]]
    return all(p is None or any(node is p for node in builder.graph.nodes) for p in producers)
