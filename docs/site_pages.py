"""The pages of the site: where each one is shown, and links that lead there.

Pages of the core are shown at their paths in the repository, except those of ``MOVED``. A page of a
plug-in, ``plugins/<name>/docs/<page>.md``, is shown as ``docs/how-to/<page>.md``. The file
``pages.ini`` next to it has its ``section`` and ``title`` in the navigation, and its ``folder``, if
that is not ``how-to``. A page with the name of a page in ``docs/reference`` adds its sections to
that page. The README of each plug-in is listed in the section ``Plug-ins``.

Links in the repository are relative to the page, so that they hold there. A link into the folder of
a plug-in that was deleted is shown as its text.
"""

from __future__ import annotations

import os
import re
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Pages of the core at another path: the site begins with the overview of the documentation.
MOVED = {"docs/README.md": "README.md", "README.md": "docs/overview.md"}
_SECTION = "Plug-ins"  # of READMEs, and of pages that name no other
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`)*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


@dataclass(frozen=True)
class PluginPage:
    """A page of a plug-in.

    Attributes
    ----------
    source
        Path in the repository.
    site_path
        Path on the site.
    section, title
        Section of the navigation, and title there; empty for sections of a page of the core.
    """

    source: str
    site_path: str
    section: str = ""
    title: str = ""


def plugin_pages(root: Path = ROOT) -> list[PluginPage]:
    """Return the pages of all plug-ins, their READMEs last."""
    result = []
    for page in sorted(root.glob("plugins/*/docs/*.md")):
        source = page.relative_to(root).as_posix()
        if (root / "docs" / "reference" / page.name).is_file():
            result.append(PluginPage(source, f"docs/reference/{page.name}"))
            continue
        config = ConfigParser(interpolation=None)
        config.read(page.parent / "pages.ini", encoding="utf-8")
        entry = config[page.name] if config.has_section(page.name) else {}
        site_path = f"docs/{entry.get('folder', 'how-to')}/{page.name}"
        title = entry.get("title", page.stem)
        result.append(PluginPage(source, site_path, entry.get("section", _SECTION), title))
    for page in sorted(root.glob("plugins/*/README.md")):
        path = page.relative_to(root).as_posix()
        result.append(PluginPage(path, path, _SECTION, page.parent.name))
    return result


def navigation(config: str, pages: list[PluginPage]) -> str:
    """Return mkdocs' configuration with the pages of plug-ins at the ends of their sections.

    Raises
    ------
    ValueError
        If a page names a section that the configuration does not have.
    """
    head, mark, nav = config.partition("\nnav:\n")
    sections = re.split(r"(?m)^(?=  - )", nav)
    for page in (page for page in pages if page.section):
        starts = [i for i, text in enumerate(sections) if text.startswith(f"  - {page.section}:\n")]
        if not starts:
            raise ValueError(f"{page.source}: the site has no section {page.section}")
        sections[starts[0]] += f"      - {page.title}: {page.site_path}\n"
    return head + mark + "".join(sections)


def is_deleted(path: str, root: Path = ROOT) -> bool:
    """Tell whether a path of the repository lies in a plug-in's folder that is not there."""
    parts = Path(path).parts
    return len(parts) > 1 and parts[0] == "plugins" and not (root / parts[0] / parts[1]).is_dir()


def adapted(page: PluginPage, pages: list[PluginPage], root: Path = ROOT) -> str:
    """Return the text of a page with links that hold on the site; of sections of another page,
    without the title."""
    text = (root / page.source).read_text(encoding="utf-8")
    if not page.section:
        _, mark, sections = text.partition("\n## ")
        text = mark + sections
    return adapt_links(text, page.source, page.site_path, pages, root)


def adapt_links(
    text: str, source: str, site_path: str, pages: list[PluginPage], root: Path = ROOT
) -> str:
    """Return a page with links that hold on the site.

    Parameters
    ----------
    text
        The page, with links relative to its path in the repository.
    source, site_path
        Paths of the page in the repository and on the site.
    pages
        Pages of plug-ins.
    root
        The repository.
    """
    site_paths = {**MOVED, **{page.source: page.site_path for page in pages}}

    def link(found: re.Match[str]) -> str:
        mark, label, target, anchor = found.groups()
        goal = os.path.normpath(os.path.join(os.path.dirname(source), target)).replace("\\", "/")
        if is_deleted(goal, root):
            return "" if mark else label
        shown = os.path.relpath(site_paths.get(goal, goal), os.path.dirname(site_path) or ".")
        return f"{mark}[{label}]({shown.replace(os.sep, '/')}{anchor or ''})"

    parts, end = [], 0
    for code in _CODE.finditer(text):
        if code[0].startswith("```"):
            parts += [_LINK.sub(link, text[end : code.start()]), code[0]]
            end = code.end()
    return "".join([*parts, _LINK.sub(link, text[end:])])
