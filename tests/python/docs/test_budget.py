"""Line budgets of the product's folders in tests/lint/budget.toml."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUDGET = ROOT / "tests" / "lint" / "budget.toml"
TOPS = ("include", "plugins", "python", "src_backend", "src_runtime")
SUFFIXES = (
    ".build",
    ".c",
    ".css",
    ".h",
    ".html",
    ".in",
    ".j2",
    ".js",
    ".json",
    ".py",
    ".pyi",
    ".txt",
)


def _budget() -> dict[str, int]:
    rows = re.findall(r'^"([^"]+)" = (\d+)$', BUDGET.read_text(encoding="utf-8"), re.MULTILINE)
    return {folder: int(lines) for folder, lines in rows}


def _lines(budget: dict[str, int]) -> Counter[str]:
    """Count lines by rows; files of no row count for the folder at the top."""
    found: Counter[str] = Counter()
    for file in (f for top in TOPS for f in (ROOT / top).rglob("*")):
        place = file.relative_to(ROOT)
        if {"tests", "__pycache__", "build"} & {*place.parts} or file.suffix not in SUFFIXES:
            continue
        outer = [folder.as_posix() for folder in place.parents]
        row = next((folder for folder in outer if folder in budget), place.parts[0])
        found[row] += file.read_text(encoding="utf-8").count("\n")
    return found


def test_folders_stay_within_their_budget():
    budget = _budget()
    lines = _lines(budget)
    above = {folder: count for folder, count in lines.items() if count > budget.get(folder, 0)}
    assert not above, f"raise the row in {BUDGET.name} and say why, or write less: {above}"


def test_budgets_are_not_too_high():
    """A row must be lowered when its folder shrinks."""
    lines = _lines(_budget())
    slack = {folder: maximum - lines[folder] for folder, maximum in _budget().items()}
    assert not {folder: left for folder, left in slack.items() if left > 300 and lines[folder]}
