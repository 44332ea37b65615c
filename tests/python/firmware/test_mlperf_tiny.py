"""The page of MLPerf Tiny has the numbers that its script prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from boards import BOARDS

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "bench" / "firmware" / "mlperf_tiny.py"
PAGE = ROOT / "docs" / "reference" / "mlperf-tiny.md"
# Other releases of the cross compilers differ by this fraction.
SLACK = 0.02
NETWORKS = ("ad", "kws", "ic", "vww", "sww", "mcunet_vww1", "mobilenet_v2")


def rows(text: str) -> dict[tuple[str, str], list[list[str]]]:
    """Return the rows of all tables by their first two cells."""
    found: dict[tuple[str, str], list[list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            first, second, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            found.setdefault((first, second), []).append(cells)
    return found


def number(cell: str) -> float | None:
    match = re.match(r"[\d,]+(\.\d+)?(?= \(|$)", cell)
    return float(match[0].replace(",", "")) if match else None


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_page_has_the_numbers_of_the_script(name):
    pytest.importorskip("ai_edge_litert")
    for target in ("cortex-m4", "cortex-m55", "riscv32"):
        if BOARDS[target].missing_tool():
            pytest.skip(f"{BOARDS[target].missing_tool()} is not installed")
    command = [sys.executable, str(SCRIPT), "--task", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed, page = rows(done.stdout), rows(PAGE.read_text(encoding="utf-8"))
    for key, lines in printed.items():
        if (key[0], "official") in page and key[1] == "random":
            pytest.skip("the page has the official network")
        assert len(page[key]) == len(lines)
        for line, expected in zip(page[key], lines):
            assert len(line) == len(expected)
            for cell, wanted in zip(line, expected):
                value = number(wanted)
                if value is None:
                    assert cell == wanted, key
                else:
                    assert number(cell) == pytest.approx(value, rel=SLACK), (key, cell, wanted)
