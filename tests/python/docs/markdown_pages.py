"""Parser of Markdown pages."""

from __future__ import annotations

import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
NOT_RUN = re.compile(r"<!-- not run: .+ -->")
NEEDS = re.compile(r"<!-- needs: (.+) -->")
WITH = re.compile(r"<!-- with: (.+) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block of code: its language, its text, the line where the text starts.

    ``needs`` names commands that not every machine has, without which the page ends here;
    ``modules`` those of Python without which only this block is passed over.
    """

    language: str
    text: str
    line: int
    runs: bool
    needs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


def pages() -> list[Path]:
    """Return every page that a reader is led to."""
    names = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
    tops = [ROOT / f"{name}.md" for name in names]
    below = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    below += [*ROOT.glob("plugins/*/docs/*.md"), *ROOT.glob("plugins/*/README.md")]
    return [page for page in [*tops, *sorted(below)] if page.is_file()]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page.

    A comment ``not run: REASON`` before one excuses it, ``needs: COMMAND ...`` and ``with: MODULE
    ...`` where these lack.
    """
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    start, language, excused, needs, modules = None, "", False, (), ()
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start, language = number + 1, line.strip().strip("`").split(" ")[0]
            before = "\n".join(lines[max(0, number - 2) : number])
            excused = NOT_RUN.search(before) is not None
            needs, modules = (_names(pattern, before) for pattern in (NEEDS, WITH))
        else:
            text = textwrap.dedent("\n".join(lines[start:number])) + "\n"  # lists indent
            found.append(Block(language, text, start + 1, not excused, needs, modules))
            start = None
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors that forges and the site give to a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found: set[str] = set()
    for title in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        found.add(re.sub(r"[^\w -]", "", plain).replace(" ", "-"))
    return found


def is_deleted(path: Path) -> bool:
    """Return whether a path is in the folder of a missing plug-in: pages may name it."""
    parts = Path(os.path.normpath(path)).relative_to(ROOT).parts
    return len(parts) > 1 and parts[0] == "plugins" and not (ROOT / parts[0] / parts[1]).is_dir()


def _names(pattern: re.Pattern, text: str) -> tuple[str, ...]:
    return tuple(name for found in pattern.findall(text) for name in found.split())


def page_id(page: Path) -> str:
    """Return a page's path relative to the repository, for test reports."""
    return str(page.relative_to(ROOT))
