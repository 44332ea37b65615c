"""Scripts of the site, so that it needs no network: diagrams, search from a folder, versions.

Browsers draw the diagrams, in the colours of the page. The package mermaidx has the script for it;
pages without a diagram do not load it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
from pathlib import Path

SCRIPTS = Path(__file__).with_name("site")
FOLDER = "javascripts"  # on the site
MERMAID = "mermaid.min.js"
# of dist/mermaid.min.js in the package mermaid of npm, by version
MERMAID_SHA256 = {
    "11.16.0": "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b",
}
_SEARCH = 'data-md-component="search" role="dialog"'
_DIAGRAM = 'class="mermaid"'
_BUNDLE = re.compile(r'(?=<script src="[^"]*assets/javascripts/bundle\.[^"]*"></script>)')


def copy(pages: Path) -> None:
    """Copy scripts and styles to the pages. Raises SystemExit without the script for diagrams."""
    target = pages / FOLDER
    target.mkdir()
    shutil.copyfile(mermaid_script(), target / MERMAID)
    for name in ("versions.js", "site.css"):
        shutil.copyfile(SCRIPTS / name, target / name)
    (target / "file_worker.js").write_text(_file_worker(), encoding="utf-8")


def finish(site: Path) -> None:
    """Complete the pages that mkdocs has built: diagrams, a label for screen readers that the theme
    lacks, and the search index as a script."""
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    (site / "search" / "search_index.js").write_text(f"var __index = {index};\n", encoding="utf-8")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = text.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
        if _DIAGRAM in text:
            address = os.path.relpath(site / FOLDER / MERMAID, page.parent).replace(os.sep, "/")
            text, count = _BUNDLE.subn(f'<script src="{address}"></script>\n', text, count=1)
            if count != 1:
                raise SystemExit(f"build_site: {page.name} lacks the theme's script; see _BUNDLE")
        page.write_text(text, encoding="utf-8")


def mermaid_script() -> Path:
    """Return the script that draws diagrams, from the package mermaidx.

    Raises SystemExit if the package is missing, or if its script is not one that npm publishes.
    """
    spec = importlib.util.find_spec("mermaidx")
    if spec is None or spec.origin is None:
        raise SystemExit("build_site: mermaidx is not installed; pip install '.[docs]'")
    path = Path(spec.origin).with_name("assets") / "mermaid.js"
    if not path.is_file():
        raise SystemExit(f"build_site: {path} is missing; install mermaidx 0.10")
    if hashlib.sha256(path.read_bytes()).hexdigest() not in MERMAID_SHA256.values():
        raise SystemExit(
            f"build_site: {path} is not mermaid {', '.join(MERMAID_SHA256)}; install mermaidx 0.10 "
            "or add the version to MERMAID_SHA256"
        )
    return path


def _file_worker() -> str:
    """Return the script that starts the theme's search worker from its text."""
    spec = importlib.util.find_spec("material")
    if spec is None or spec.origin is None:
        raise SystemExit("build_site: mkdocs-material is not installed; pip install '.[docs]'")
    workers = Path(spec.origin).parent / "templates" / "assets" / "javascripts" / "workers"
    (worker,) = workers.glob("search.*.min.js")
    text = worker.read_text(encoding="utf-8").partition("//# sourceMappingURL")[0]
    script = (SCRIPTS / "file_worker.js").read_text(encoding="utf-8")
    return f"const TVMRT_WORKER = {json.dumps(text)};\n{script}"
