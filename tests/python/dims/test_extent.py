"""Symbolic dimension expressions: canonical form, bounds, comparisons."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Extent,
    Symbol,
    bounds,
    exact_quotient,
    lower_bound,
    sym_max,
    sym_min,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent

A = Symbol("a", 0, 5, "n_a").extent
B = Symbol("b", 1, 7, "n_b").extent
H = Symbol("H", 1, 640, "n_H").extent
W = Symbol("W", 1, 640, "n_W").extent
SEQ = Symbol("seq", 1, 128, "n_seq").extent
VALUES = [{"a": a, "b": b} for a in range(6) for b in range(1, 8)]


def at(value, names):
    return value.at(names) if isinstance(value, Extent) else value


def divided(number, divisor):
    return number // divisor


OPERATIONS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
}
LEAVES = st.sampled_from([A, B]) | st.integers(-4, 9)


def grown(children):
    both = st.tuples(st.sampled_from(sorted(OPERATIONS)), children, children).map(
        lambda t: OPERATIONS[t[0]](t[1], t[2])
    )
    return both | st.tuples(children, st.integers(1, 6)).map(lambda t: divided(*t))


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=8)


# tries all values of the symbols, independent of the machine's speed
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@unhurried
@given(EXPRESSIONS, EXPRESSIONS, st.sampled_from(sorted(OPERATIONS)), st.integers(1, 9))
def test_expression_arithmetic_matches_integers(x, y, sign, divisor):
    found = OPERATIONS[sign](x, y)
    quotient, remainder = found // divisor, found % divisor
    for names in VALUES:
        number = OPERATIONS[sign](at(x, names), at(y, names))
        assert at(found, names) == number
        assert at(quotient, names) == number // divisor
        assert at(remainder, names) == number % divisor


@unhurried
@given(EXPRESSIONS)
def test_bounds_hold_all_values(x):
    low, high = bounds(x)
    found = [at(x, names) for names in VALUES]
    assert low <= min(found) and max(found) <= high


@unhurried
@given(EXPRESSIONS, EXPRESSIONS)
def test_equal_expressions_are_equal_at_all_values(x, y):
    if x == y:
        assert all(at(x, names) == at(y, names) for names in VALUES)


@unhurried
@given(EXPRESSIONS, EXPRESSIONS)
def test_comparisons_hold_at_all_values(x, y):
    try:
        below = x < y
    except UndecidedExtent:
        return
    assert all((at(x, names) < at(y, names)) == below for names in VALUES)


@unhurried
@given(EXPRESSIONS, EXPRESSIONS)
def test_exact_quotient_is_folded(x, y):
    assume(y != 0)
    found = exact_quotient(x, y)
    if found is not None:
        assert found * y == x


@unhurried
@given(EXPRESSIONS)
def test_c_computes_the_same(x):
    """The text is a C expression; Python evaluates it, with equal division of nonnegative
    integers."""
    text = re.sub(r"(\d)LL", r"\1", str(x)).replace("/", "//")
    for names in VALUES:
        assert eval(text, {"n_a": names["a"], "n_b": names["b"]}) == at(x, names)


def stages(extent, count):
    """Return layers that halve an extent, rounded up."""
    for _ in range(count):
        extent = (extent + 1) // 2
    return extent


@pytest.mark.parametrize(
    "found, text",
    [
        pytest.param(stages(H, 5), "((H + 31) / 32)", id="five halvings"),
        pytest.param(H // 2 // 2 // 2, "(H / 8)", id="three floors"),
        pytest.param((6 * SEQ + 5) // 4, "((seq / 2) + seq + 1)", id="whole parts go out"),
        pytest.param((SEQ + H) - H, "seq", id="cancels"),
        pytest.param((B * SEQ * 768) // (B * 12 * 64), "seq", id="a reshape of heads"),
        pytest.param((2 * SEQ + 4) // 2, "(seq + 2)", id="divides"),
    ],
)
def test_canonical_forms(found, text):
    assert repr(found).lower() == text.lower()


@pytest.mark.parametrize(
    "found, expected",
    [
        pytest.param(SEQ * (128 - SEQ), (0, 4096), id="neither end is the most"),
        pytest.param(8 * ((SEQ + 7) // 8) - SEQ, (0, 7), id="padding to eights"),
        pytest.param(B * 16 * ((SEQ + 15) // 16), (16, 7 * 128), id="rows of sixteens"),
        pytest.param(
            B * (8 * ((H + 7) // 8) - H + 1) * (W - W // 3),
            (1, 7 * 8 * 427),
            id="a product of more sizes than are tried",
        ),
        pytest.param(B * (H - 300) * (W % 2), (-299 * 7, 340 * 7), id="factors of either sign"),
    ],
)
def test_worked_bounds(found, expected):
    assert bounds(found) == expected


def test_undecidable_comparison_is_reported():
    message = (
        r"whether seq > 3 is known only at run time \(seq = 1..128\); .* closer bounds with dims"
    )
    with pytest.raises(UndecidedExtent, match=message):
        bool(SEQ > 3)
    with pytest.raises(UndecidedExtent, match="whether a is 0 is known only"):
        bool(A)
    with pytest.raises(UndecidedExtent, match="the extent seq is known only"):
        range(SEQ)
    assert SEQ > 0 and SEQ <= 128 and SEQ != 0 and bool(SEQ)
    assert not bool((SEQ + 1) // 2 + SEQ // 2 - SEQ)


def test_large_products_are_long_in_c():
    wide = Symbol("w", 1, 1 << 20, "n_w").extent
    assert str(wide * wide) == "(1LL * n_w * n_w)"
    assert str(wide * 2) == "(n_w * 2)"
    assert (lower_bound(wide * wide), upper_bound(wide * wide)) == (1, 1 << 40)
    n, m = (Symbol(name, 1, INT_MAX, f"n_{name}").extent for name in "nm")
    assert str(n * m) == "(n_m * n_n)"  # a run checks the elements of its tensors
    assert str(n - m) == "(n_n - n_m)"
    assert str(n * m - n * 2) == "(1LL * n_m * n_n - 2LL * n_n)"
    assert str((n + 255) // 256) == "((1LL * n_n + 255) / 256)"
    assert str(n // 256) == "(n_n / 256)"
    assert (
        str(sym_max(2 * n - m, 0)) == "((2LL * n_n - 1LL * n_m) > 0 ? (2LL * n_n - 1LL * n_m) : 0)"
    )


def test_the_order_of_terms_does_not_depend_on_the_process():
    """Generated C is the same in each process."""
    code = (
        "from tvmrt.compiler.ir.sizes import Symbol\n"
        "s = [Symbol(n, 1, 9, 'n_' + n).extent for n in 'wxyz']\n"
        "print((s[0] + s[1] * s[2]) * (s[3] + 1) // 3)"
    )
    seeds = random.sample(range(1, 1000), 3)
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": str(seed), "PATH": ""},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in seeds
    }  # fmt: skip
    assert len(texts) == 1


def test_counts_of_one_name_with_other_limits_keep_their_own_bounds():
    """Two networks of one process use one name with different bounds, in either order."""
    rows = Symbol("rows", 0, 100, "n_rows")
    checked = Symbol("found", 0, 100, "n_found", object(), rows.extent)
    free = Symbol("found", 0, 100, "n_found", object())
    assert upper_bound(checked.extent - rows.extent) == 0
    assert upper_bound(free.extent - rows.extent) == 100
    assert upper_bound(checked.extent - rows.extent) == 0


LARGE = [Symbol(name, 0, 1 << 20, f"n_{name}").extent for name in "pqr"]
CLIPPING = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "smallest": sym_min,
    "largest": sym_max,
}
CLIPPED = st.recursive(
    st.sampled_from(LARGE) | st.integers(-300, 300),
    lambda parts: st.tuples(st.sampled_from(sorted(CLIPPING)), parts, parts).map(
        lambda t: CLIPPING[t[0]](t[1], t[2])
    ),
    max_leaves=8,
)
SIZES = st.fixed_dictionaries(dict.fromkeys("pqr", st.integers(0, 1 << 20) | st.integers(0, 400)))


@unhurried
@given(CLIPPED, st.lists(SIZES, min_size=8, max_size=8))
def test_bounds_of_clipped_sums_hold(x, sizes):
    """The symbols have too many values to try all."""
    low, high = bounds(x)
    assert all(low <= at(x, names) <= high for names in sizes)


def test_bounds_of_clipped_concatenations_are_exact():
    rows = sum(LARGE)
    cut = sym_min(rows, 128)
    assert bounds(cut) == (0, 128)
    assert sym_max(-cut, 0) == 0


def test_bounds_of_many_clipped_sizes_are_fast():
    """As with the boxes of ninety classes, each of which keeps a few."""
    kept = [sym_min(Symbol(f"s{i}", 0, 1 << 20, f"n_s{i}").extent, 50) for i in range(90)]
    assert bounds(sum(kept)) == (0, 90 * 50)
    assert bounds(sym_min(sum(kept), 300))[1] >= 300
