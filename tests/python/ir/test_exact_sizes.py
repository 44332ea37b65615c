"""Sizes in exact arithmetic: quotients, rounding and bounds, against Python's fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from tvmrt.compiler.ir.computed_sizes import expression
from tvmrt.compiler.ir.computed_sizes.exact_results import ExactResult, exact_result
from tvmrt.compiler.ir.computed_sizes.expression import cast_to, combine, exact_extent, leaf
from tvmrt.compiler.ir.dtype import DTYPES
from tvmrt.compiler.ir.op import OPS
from tvmrt.compiler.ir.sizes import (
    Extent,
    Symbol,
    bounds,
    solve,
    sym_max,
    sym_min,
    symbols_of,
)
from tvmrt.compiler.ir.sizes.extent import quotient
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent

SYMBOLS = [Symbol("a", 0, 6, "n_a"), Symbol("b", 1, 7, "n_b")]
SIZES = [{"a": a, "b": b} for a in range(7) for b in range(1, 8)]
STEPS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "min": sym_min,
    "max": sym_max,
}
FIVE = range(5)


def at(value, sizes):
    return value.at(sizes) if isinstance(value, Extent) else value


def random_number(draw: random.Random, depth: int):
    """Return a size or quotient, and the function that computes it from sizes by fractions."""
    if not depth:
        if draw.random() < 0.6:
            symbol = draw.choice(SYMBOLS)
            return symbol.extent, lambda sizes: Fraction(sizes[symbol.name])
        number = Fraction(draw.randint(-5, 9), draw.choice([1, 1, 2, 3]))
        return number, lambda sizes: number
    x, exact_x = random_number(draw, depth - 1)
    op = draw.choice([*STEPS, "divide", "floor", "remainder"])
    if op in STEPS:
        y, exact_y = random_number(draw, draw.randrange(depth))
        return STEPS[op](x, y), lambda sizes: STEPS[op](exact_x(sizes), exact_y(sizes))
    by = Fraction(draw.randint(1, 6), draw.choice([1, 1, 2]))
    if op == "divide":
        return x * (1 / by), lambda sizes: exact_x(sizes) / by
    if op == "floor":
        return x // by, lambda sizes: exact_x(sizes) // by
    return x % by, lambda sizes: exact_x(sizes) % by


@pytest.mark.parametrize("seed", range(60))
def test_arithmetic_equals_that_of_fractions(seed):
    draw = random.Random(seed)
    for _ in FIVE:
        found, exact = random_number(draw, draw.randint(1, 4))
        numbers = [exact(sizes) for sizes in SIZES]
        assert [at(found, sizes) for sizes in SIZES] == numbers
        low, high = bounds(found)
        assert low <= min(numbers) and max(numbers) <= high
        if not isinstance(found, Extent):
            assert len(set(numbers)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_rounded_sizes_are_the_same_in_c(seed):
    """The C text has quotients of integers only, which Python's // computes."""
    draw = random.Random(seed)
    for _ in FIVE:
        number, exact = random_number(draw, 3)
        text = str(number // 1).replace("/", "//").replace(" ? ", " and ").replace(" : ", " or ")
        for sizes in SIZES:
            names = {f"n_{name}": size for name, size in sizes.items()}
            assert eval(text, names) == math.floor(exact(sizes))


def test_a_quotient_is_exact_until_it_is_rounded():
    a, b = (symbol.extent for symbol in SYMBOLS)
    half = quotient(a, 2)
    assert half + half == 2 * half == a
    assert half // 1 == a // 2
    assert quotient(3 * a * b, 2 * b) * 2 == 3 * a
    assert quotient(7 * a, 14) == half
    assert quotient(a, b) is None
    assert repr(half) == "(a / 2)"
    assert bounds(quotient(a, 4)) == (0, Fraction(3, 2))
    with pytest.raises(ValueError, match=r"\(a / 2\) is not an integer in C; round it"):
        str(half)


def test_only_exact_arithmetic_divides_a_size():
    """A quotient where a size or a float is needed would be neither."""
    with pytest.raises(UndecidedExtent, match=r"the quotient a / 2 is known only at run time"):
        SYMBOLS[0].extent / 2


def test_comparisons_of_quotients():
    half = quotient(SYMBOLS[0].extent, 2)
    assert half < 4 and not half < 0 and half <= 3
    with pytest.raises(UndecidedExtent, match="whether"):
        assert half < 1
    assert bool(half + Fraction(1, 2))


OPERATORS = (
    "abs add ceil div equal floor greater less less_equal max min mul neg relu round sub".split()
)
INTEGER_OPERATORS = "div floor_mod pow_whole shift_left shift_right sign trunc_mod".split()
CASES = [("float64", op) for op in OPERATORS] + [("int64", op) for op in INTEGER_OPERATORS]


@pytest.mark.parametrize("dtype, op", CASES)
def test_results_of_operators_equal_their_definitions(dtype, op):
    """Compare with the definition at all sizes, for operands that float64 represents."""
    draw, units = random.Random(op), [1, 1, 2, 4] if dtype == "float64" else [1]
    count = 1 if op in ("abs", "ceil", "floor", "neg", "relu", "round", "sign") else 2
    to = "bool" if op in ("equal", "greater", "less", "less_equal") else dtype
    known = 0
    for _ in range(80):
        operands = [_linear(draw) * Fraction(1, draw.choice(units)) for _ in range(count)]
        if op in ("pow_whole", "shift_left", "shift_right") or draw.random() < 0.3:
            operands[-1] = draw.randint(0, 3)
        try:
            found = exact_result(op, [ExactResult(_whole(x)) for x in operands], dtype, to)
        except UndecidedExtent:
            continue
        if found is None or not found.is_exact:
            continue
        known += 1
        for sizes in SIZES:
            arrays = [np.asarray(float(at(x, sizes))).astype(dtype) for x in operands]
            right = OPS[op].evaluate(arrays, {})[0]
            assert float(at(found.value, sizes)) == right, (operands, sizes)
    assert known >= 5


def _linear(draw: random.Random):
    return sum(draw.randint(-2, 3) * symbol.extent for symbol in SYMBOLS) + draw.randint(-4, 9)


def _whole(value):
    return value if isinstance(value, Extent) or value != int(value) else int(value)


def random_tree(draw: random.Random, dtype: str, depth: int):
    """Return operators on sizes as exporters write them, in floats and integers."""
    if not depth:
        if draw.random() < 0.3:
            is_float = dtype.startswith("float")
            return leaf(draw.choice([0.5, 2.0, 0.1, 3.0] if is_float else [1, 2, 3, 8]), dtype)
        return cast_to(leaf(draw.choice(SYMBOLS).extent), dtype)
    if draw.random() < 0.25:
        source = draw.choice(["float32", "float64", "int32", "int64"])
        return cast_to(random_tree(draw, source, depth - 1), dtype)
    if dtype.startswith("float") and draw.random() < 0.4:
        op = draw.choice(["floor", "ceil", "round"])
        return combine(op, [random_tree(draw, dtype, depth - 1)], dtype)
    op = draw.choice(["add", "sub", "mul", "div", "min", "max"])
    return combine(op, [random_tree(draw, dtype, depth - 1) for _ in range(2)], dtype)


@pytest.mark.parametrize("seed", range(40))
def test_computed_sizes_equal_the_operators_at_all_sizes(seed):
    draw, arrays = random.Random(seed), {s.name: np.arange(s.low, s.high + 1) for s in SYMBOLS}
    grid = dict(zip(arrays, np.meshgrid(*arrays.values(), indexing="ij")))
    for _ in FIVE:
        number = random_tree(draw, draw.choice(["int64", "float32"]), 4)
        numbers = np.asarray(number.at(grid))
        if np.isfinite(numbers).all():
            low, high = expression.bounds(number) or (-np.inf, np.inf)
            assert low <= numbers.min() and numbers.max() <= high
        extent = exact_extent(number) if DTYPES[number.dtype].is_int else None
        if extent is not None:
            assert symbols_of(extent) <= set(SYMBOLS)
            np.testing.assert_array_equal(np.broadcast_to(at(extent, grid), (7, 7)), numbers)


@pytest.mark.parametrize(
    "low, high, known",
    [(-3, 2, (False, True)), (0, 4, (False, True)), (1, 4, (True, True)), (-4, -1, (True, True))],
)
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_bool_is_known_if_no_number_or_each_is_zero(low, high, known, dtype):
    size = Symbol("s", 0, high - low, "n_s").extent + low
    number = cast_to(leaf(size), dtype)
    assert expression.bounds(cast_to(number, "bool")) == known
    if dtype == "float32" and low >= 0:
        root = combine("sqrt", [number], dtype)  # rounded
        assert expression.bounds(cast_to(root, "bool")) == known


def test_a_condition_is_solved_for_a_symbol():
    a, b = (symbol.extent for symbol in SYMBOLS)
    assert solve(2 * a - 6 * b - 4, SYMBOLS[0]) == 3 * b + 2
    assert solve(6 * b - 2 * a, SYMBOLS[0]) == 3 * b
    assert solve(2 * a - 3 * b, SYMBOLS[0]) is None  # a is not an integer for an odd b
    assert solve(a * b + a - 8, SYMBOLS[0]) is None
    assert solve(a // 2 + a - b, SYMBOLS[0]) is None


def test_sizes_in_place_of_symbols():
    a, b = (symbol.extent for symbol in SYMBOLS)
    assert (a * b // 2).substitute({"b": 2 * b}) == a * b
    assert (a + 1).substitute({"a": 4}) == 5
    assert (a // 2 + b).substitute({"a": 2 * a + 1}) == a + b


def test_equal_numbers_of_two_networks_have_their_own_symbols():
    """A size that a run finds is read from its tensor, which is another one in each network."""
    for source in ("one", "other"):
        rows = Symbol("rows", 1, 9, "n_rows", source=source)
        third = combine(
            "div", [cast_to(leaf(rows.extent), "float32"), leaf(3.0, "float32")], "float32"
        )
        extent = exact_extent(cast_to(third, "int64"))
        assert {symbol.source for symbol in symbols_of(extent)} == {source}
