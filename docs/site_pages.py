"""The pages of the site: where each one is shown, and links that lead there.

Pages of the core are shown at their paths in the repository, except those of ``MOVED``. A page of a
plug-in, ``plugins/<name>/docs/<page>.md``, is shown as ``docs/how-to/<page>.md``. The file
``pages.ini`` next to it has its ``section`` and ``title`` in the navigation, and its ``folder``, if
that is not ``how-to``. A page with the name of a page in ``docs/reference`` adds its sections to
that page. The README of each plug-in is listed in the section ``Plug-ins``. Generated pages
(``generate_reference.py``) are only on the site: in the repository, links lead to a section of
``docs/reference/generated.md``.

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
# Pages of the core at another path: a README is the index of a folder on the site, too.
MOVED = {"docs/README.md": "docs/all-pages.md"}
# Sections of the page on generated references, and the pages that the site has instead.
_STAND_IN = "docs/reference/generated.md"
GENERATED = {
    f"{_STAND_IN}#command-line": "docs/reference/command-line.md",
    f"{_STAND_IN}#json-output": "docs/reference/json.md",
    f"{_STAND_IN}#c-interface": "docs/reference/c.md",
    f"{_STAND_IN}#onnx-operators": "docs/reference/onnx-operators.md",
    f"{_STAND_IN}#operators-of-commicrosoft": "plugins/onnx_microsoft/docs/microsoft-operators.md",
    f"{_STAND_IN}#internal-operators": "docs/reference/operators.md",
    f"{_STAND_IN}#names-for-plug-ins": "docs/reference/plugin-sdk.md",
}
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
    for folder in sorted(root.glob("plugins/*/docs")):
        config = ConfigParser(interpolation=None)
        config.read(folder / "pages.ini", encoding="utf-8")
        for name in sorted({*(page.name for page in folder.glob("*.md")), *config.sections()}):
            source = (folder / name).relative_to(root).as_posix()
            if (root / "docs" / "reference" / name).is_file():
                result.append(PluginPage(source, f"docs/reference/{name}"))
                continue
            entry = config[name] if config.has_section(name) else {}
            site_path = f"docs/{entry.get('folder', 'how-to')}/{name}"
            title = entry.get("title", Path(name).stem)
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
    for page in (page for page in pages if page.section):
        section = rf"(?m)^( +)- {re.escape(page.section)}:\n(?:\1 .*\n)*"
        found = re.search(section, nav)
        if found is None:
            raise ValueError(f"{page.source}: the site has no section {page.section}")
        entry = f"{found[1]}    - {page.title}: {page.site_path}\n"
        nav = nav[: found.end()] + entry + nav[found.end() :]
    return head + mark + nav


def is_deleted(path: str, root: Path = ROOT) -> bool:
    """Tell whether a path of the repository lies in a plug-in's folder that is not there."""
    parts = Path(path).parts
    return len(parts) > 1 and parts[0] == "plugins" and not (root / parts[0] / parts[1]).is_dir()


def adapted(text: str, page: PluginPage, pages: list[PluginPage], root: Path = ROOT) -> str:
    """Return the text of a plug-in's page with links that hold on the site; of sections of another
    page, without the title."""
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
        if f"{goal}{anchor}" in GENERATED:
            goal, anchor = GENERATED[f"{goal}{anchor}"], ""
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
