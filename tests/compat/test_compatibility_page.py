"""The page on compatibility names tests that exist, and each row of what a loader must do."""

from __future__ import annotations

import re
from pathlib import Path

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
