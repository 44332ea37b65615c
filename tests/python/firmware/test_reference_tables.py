"""The pages with tables of firmware networks have the numbers that their scripts print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from boards import BOARDS

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "tests" / "bench" / "firmware"
# Other releases of the cross compilers differ by this fraction.
SLACK = 0.02
MLPERF = ("ad", "kws", "ic", "vww", "sww", "mcunet_vww1", "mobilenet_v2")
ZOO = ("resnet8", "mobilenet_v1_0.25_96", "mobilenet_v2_0.35_128", "yamnet_256")
RUNS = [("mlperf_tiny", "--task", name) for name in MLPERF]
RUNS += [("model_zoo", "--network", name) for name in ZOO]


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


def page_of(script: str) -> str:
    name = f"{script.replace('_', '-')}.md"
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_the_page_has_the_numbers_of_the_script(run):
    pytest.importorskip("ai_edge_litert")
    for target in ("cortex-m4", "cortex-m7", "cortex-m55", "riscv32"):
        if BOARDS[target].missing_tool():
            pytest.skip(f"{BOARDS[target].missing_tool()} is not installed")
    script, *options = run
    command = [sys.executable, str(SCRIPTS / f"{script}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed, page = rows(done.stdout), rows(page_of(script))
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


def test_the_page_of_the_model_zoo_says_where_st_needs_less():
    page = page_of("model_zoo")
    lines = [line for line in page.splitlines() if re.match(r"\| \S+ \| M\d+ \| \d", line)]
    assert len(lines) == 12
    for line in lines:
        name, _, _, _, ram, _, _, _, *_, cycles = line.strip("| ").split(" | ")
        assert float(cycles) < 1, name
        assert float(ram) <= 0.5 or f"`{name}`:" in page, name
