"""The ceiling for the lines of the product, in tests/lint/budget.toml."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUDGET = ROOT / "tests" / "lint" / "budget.toml"
TOPS = ("include", "plugins", "python", "src_backend", "src_runtime")
SUFFIXES = (".c", ".css", ".h", ".html", ".js", ".mjs", ".py")


def _lines() -> Counter[str]:
    """Count the lines of the product by folder: two levels deep, packages of the compiler apart."""
    found: Counter[str] = Counter()
    for file in (f for top in TOPS for f in (ROOT / top).rglob("*")):
        place = file.relative_to(ROOT)
        if {"tests", "__pycache__", "build"} & {*place.parts} or file.suffix not in SUFFIXES:
            continue
        depth = 4 if place.parts[:3] == ("python", "tvmrt", "compiler") else 3
        folder = "/".join(place.parent.parts[: depth if place.parts[0] == "python" else 2])
        found[folder] += file.read_text(encoding="utf-8").count("\n")
    return found


def test_the_product_stays_below_its_ceiling():
    (ceiling,) = re.findall(r"^lines = (\d+)$", BUDGET.read_text(encoding="utf-8"), re.MULTILINE)
    lines = _lines()
    total = sum(lines.values())
    table = "\n".join(f"{count:7,}  {folder}" for folder, count in lines.most_common())
    assert total <= int(ceiling), f"{total:,} of {int(ceiling):,} lines:\n{table}"
