"""Test that the compatibility page names existing tests and covers each requirement of loaders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tvmrt

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "compatibility.md"


def test_tests_named_on_the_page_exist():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 40
    for file, function in named:
        text = (HERE / file).read_text(encoding="utf-8")
        assert f"def {function}(" in text, f"{file} has no {function}"


def test_every_row_has_a_test():
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 16))
    assert all("test" in shown for _, shown in rows)


def _names(text: str) -> list[str]:
    """Return names of global functions in the first column; a.{b,c} stands for a.b and a.c."""
    names = []
    for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE):
        for name in re.findall(r"`([\w.]+[\w.{},]*)`", row):
            head, brace, tail = name.partition("{")
            inner, _, end = tail.partition("}")
            names += [head + part + end for part in inner.split(",")] if brace else [name]
    return names


def _table(head: str) -> str:
    text = PAGE.read_text(encoding="utf-8").partition("## Global functions")[2]
    return re.search(rf"^\| {head} \|.*?\n\n", text, re.MULTILINE | re.DOTALL)[0]


@pytest.mark.parametrize("column, is_there", [("available", True), ("not available", False)])
def test_global_functions_are_where_the_page_says(column, is_there):
    names = _names(_table(column))
    assert len(names) > (20 if is_there else 10)
    wrong = [n for n in names if (tvmrt.get_global_func(n, True) is not None) != is_there]
    assert not wrong


def test_global_functions_of_plugins_are_there_as_long_as_their_folders():
    rows = _table("available in a plug-in").splitlines()[2:-1]
    assert len(rows) > 3
    for row in rows:
        folder = re.search(r"plugins/(\w+)/", row)
        assert folder is not None, row
        if (PAGE.parents[2] / "plugins" / folder[1]).is_dir():
            names = _names(row)
            assert names and all(tvmrt.get_global_func(name, True) for name in names), row
