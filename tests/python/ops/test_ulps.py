"""Every float function is within its documented error limit over its whole range."""

from __future__ import annotations

from pathlib import Path

import pytest
import ulps


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return the largest error of every function by type, target and stride, measured once."""
    known = {}

    def measure(*case):
        if case not in known:
            known[case] = ulps.measure(*case, tmp_path_factory.mktemp("ulps"))
        return known[case]

    return measure


CASES = {
    "float32-native": ("float32", "native", 16411),
    "float32-host": ("float32", "host", 16411),
    "float16": ("float16", "native", 1),
    "bfloat16": ("bfloat16", "native", 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("function", ulps.FUNCTIONS, ids=lambda f: f.name.replace(", ", "-"))
@pytest.mark.parametrize("case", CASES)
def test_largest_error(measured, case, function):
    kind = CASES[case][0]
    worst = measured(*CASES[case])[function.name]
    assert worst.units <= ulps.limit_of(function, kind), worst


@pytest.mark.slow
@pytest.mark.parametrize(("target", "step"), [("native", 257), ("host", 1021)])
def test_largest_error_of_many(measured, target, step):
    worst = measured("float32", target, step)
    assert all(worst[each.name].units <= each.limit for each in ulps.FUNCTIONS), worst


def test_the_page_has_every_function_within_its_limit():
    """`python tests/bench/measure_ulps.py --update` writes docs/reference/accuracy.md."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "accuracy.md"
    lines = page.read_text("utf-8").split("<!-- made by tests/bench/measure_ulps.py -->")[1]
    rows = [line.strip("| ").split(" | ") for line in lines.split("\n") if line.startswith("| ")]
    listed = {name: row[1:] for row in rows[1:] for name in row[0].split("; ")}
    assert sorted(listed) == sorted(each.name for each in ulps.FUNCTIONS)
    for each in ulps.FUNCTIONS:
        units, limit = listed[each.name]
        assert float(units) <= float(limit.split()[0].strip(",")) == each.limit
