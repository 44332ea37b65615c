"""Tables of pages under docs/reference that a script prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tvmrt.plugins.cycles.board_estimate import BoardOptions, estimate

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(page: Path, tables: dict[str, str]) -> None:
    """Replace the tables of a page, which stand between comments with their names."""
    text = page.read_text(encoding="utf-8")
    for name, body in tables.items():
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, count = re.subn(pattern, rf"\g<1>{body}\g<2>", text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{page} has no table {name}")
    page.write_text(text, encoding="utf-8")


def show(page: Path, tables: dict[str, str], is_written: bool) -> int:
    """Print the tables, and write them to the page if asked; return the exit code."""
    if is_written:
        write(page, tables)
    print("\n\n".join(tables.values()))
    return 0


def one(path: Path, options: BoardOptions) -> dict:
    """Return the estimate of a network on a board."""
    found = estimate(path, options)
    (network,) = found["networks"].values()
    return {**network, "clock_hz": found["clock_hz"]}


def millions(number: float) -> str:
    return f"{number / 1e6:.3f}"
