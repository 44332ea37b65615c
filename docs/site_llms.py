"""The file llms.txt of the site: its pages as Markdown, with one sentence each, for programs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_ENTRY = re.compile(r"^( +)- (.+?):(?: (\S+\.md))?$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)(?:\{[^}]*\})?")
_AS_HTML = "docs/reference/python.md"  # only the site has its docstrings


def write(site: Path, pages: Path, nav: str, description: str) -> None:
    """Copy the pages to the site, and list them by the sections of the navigation.

    Parameters
    ----------
    site
        Folder of the built version.
    pages
        Folder of the pages with their paths on the site.
    nav
        The navigation, in mkdocs' format.
    description
        What the project is, in one sentence.
    """
    lines = ["# tvmrt", "", f"> {description}", ""]
    for indent, title, path in _ENTRY.findall(nav):
        if not path:
            lines += ["", f"{'#' * (1 + len(indent) // 2)} {title}".replace("####", "###"), ""]
            continue
        if path != _AS_HTML:
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pages / path, site / path)
        target = path.replace(".md", ".html") if path == _AS_HTML else path
        sentence = _sentence((pages / path).read_text(encoding="utf-8"))
        lines.append(f"- [{title}]({target})" + (f": {sentence}" if sentence else ""))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"
    (site / "llms.txt").write_text(text, encoding="utf-8")


def _sentence(page: str) -> str:
    """Return the first sentence after the title of a page; empty if a list or table is there."""
    paragraphs = page.partition("\n# ")[2] if page.startswith("---") else page
    paragraphs = paragraphs.partition("\n\n")[2].strip().split("\n\n")
    first = " ".join(_LINK.sub(r"\1", paragraphs[0]).split())
    if not re.match(r"[\w`]", first):
        return ""
    return re.split(r"(?<=\w[.:])\s", first.removeprefix("Goal: "))[0].rstrip(":.") + "."
