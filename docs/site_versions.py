"""Folders of a site, one for each version, and the list of them.

::

    site/index.html      leads to the newest version
    site/llms.txt        the pages of the newest version, for programs
    site/versions.json   the list, in the format of mike
    site/versions.js     the list for pages opened from a folder
    site/0.3.0/          pages of a version
    site/latest          link to the newest version, where the file system has links
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote

LATEST = "latest"
_REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>tvmrt</title>
<meta http-equiv="refresh" content="0; url={address}">
<a href="{address}">Documentation of tvmrt {version}</a>
</html>
"""


def version_key(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Return a sort key: numbers in order, and a release after its pre-releases."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    if numbers is None:
        return (), False, version
    rest = version[numbers.end() :]
    return tuple(map(int, numbers[0].split("."))), not rest, rest


def versions_of(site: Path) -> list[str]:
    """Return the versions that a site has, the newest first."""
    folders = [
        path.parent.name for path in site.glob("*/index.html") if not path.parent.is_symlink()
    ]
    return sorted(folders, key=version_key, reverse=True)


def publish(built: Path, site: Path, version: str) -> None:
    """Move a built version into a site, in place of the same version, and update its list.

    Parameters
    ----------
    built
        Folder of the new pages, on the file system of ``site``.
    site
        Folder of the site; other versions in it stay.
    version
        Name of the version's folder.
    """
    target = site / version
    if target.exists():
        old = built.with_name(f"{built.name}-old")
        target.rename(old)
        built.rename(target)
        shutil.rmtree(old)
    else:
        built.rename(target)
    update_list(site)


def update_list(site: Path) -> None:
    """Write the list of versions, the page that leads to the newest, and its link."""
    versions = versions_of(site)
    newest = versions[0]
    aliases = {newest: [LATEST]} if _link(site, newest) else {}
    entries = [
        {"version": each, "title": each, "aliases": aliases.get(each, [])} for each in versions
    ]
    _write(site / "versions.json", json.dumps(entries, indent=1) + "\n")
    with_pages = [
        {**entry, "pages": _pages(site / version)} for entry, version in zip(entries, versions)
    ]
    _write(site / "versions.js", f"globalThis.TVMRT_VERSIONS = {json.dumps(with_pages)};\n")
    address = f"{quote(newest)}/index.html"
    listed = site / newest / "llms.txt"
    if listed.is_file():
        text = listed.read_text(encoding="utf-8")
        _write(site / "llms.txt", text.replace("](", f"]({quote(newest)}/"))
    _write(site / "index.html", _REDIRECT.format(address=address, version=newest))


def _pages(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))


def _link(site: Path, newest: str) -> bool:
    """Point ``latest`` to a version; return whether the file system has links."""
    link, aside = site / LATEST, site / f".{LATEST}"
    try:
        aside.unlink(missing_ok=True)
        aside.symlink_to(newest, target_is_directory=True)
        os.replace(aside, link)
    except OSError:
        return False
    return True


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)
