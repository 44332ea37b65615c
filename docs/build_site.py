"""Build the site of all pages: ``python docs/build_site.py [FOLDER]`` writes it into out/site.

Pages of the core keep their paths; pages of plug-ins go to their paths on the site
(``site_pages.py``). mkdocs fails at the first broken link. mkdocstrings replaces
the repository's page of the Python API by one with links between names.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import python_reference
import site_pages

ROOT = Path(__file__).resolve().parent.parent
CONFIG = Path(__file__).with_name("mkdocs.yml")
TOPS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
PLAIN = ("LICENSE", "CITATION.cff")  # what pages link to besides
SHOWN = (".md", ".c", ".h", ".py", ".png", ".svg", ".json", ".ipynb", "")  # "" for a Makefile


def lay_out(pages: Path) -> None:
    """Copy what the site shows and what its pages link to."""
    for name in (*TOPS, *PLAIN):
        shutil.copy(ROOT / name, pages / name)
    for top in ("docs", "examples", "include", "src_runtime/sdk"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.is_file() and path.suffix in SHOWN and "__pycache__" not in path.parts:
                target = pages / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    plugins = site_pages.plugin_pages()
    for page in plugins:
        (pages / page.site_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page.source, pages / page.site_path)
    sources = {page.site_path: page.source for page in plugins}
    for path in sorted(pages.rglob("*.md")):
        site_path = path.relative_to(pages).as_posix()
        text = path.read_text(encoding="utf-8")
        text = site_pages.adapt_links(text, sources.get(site_path, site_path), site_path, plugins)
        path.write_text(text, encoding="utf-8")
    for addition in site_pages.additions():
        text = site_pages.adapt_links(addition.text, addition.source, addition.site_path, plugins)
        with (pages / addition.site_path).open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")
    (pages / "docs" / "reference" / "python.md").write_text(python_page(), encoding="utf-8")


def python_page() -> str:
    """The page of the Python API as mkdocstrings' directives."""
    parts = ["# The Python API", "Made by mkdocstrings from the docstrings."]
    for title, entries in python_reference.all_sections().items():
        parts.append(f"## {title}")
        for entry in entries:
            module = entry.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            # the options are put into a docstring when it is imported
            inspected = entry.public in ("tvmrt.load", "tvmrt.compile")
            options = "\n    options:\n      force_inspection: true" if inspected else ""
            parts.append(f"::: tvmrt.{module}.{entry.name}{options}")
    return "\n\n".join(parts) + "\n"


def package_root() -> Path:
    """Return the folder of the installed package; sources alone lack the extension module."""
    spec = importlib.util.find_spec("tvmrt")
    if spec is None or spec.origin is None:
        raise SystemExit("build_site: tvmrt is not installed here; pip install '.[docs]'")
    return Path(spec.origin).parents[1]


def main() -> int:
    """Build; the exit code is that of mkdocs."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out" / "site").resolve()
    with tempfile.TemporaryDirectory(prefix="tvmrt-site-") as folder:
        pages = Path(folder, "pages")
        pages.mkdir()
        lay_out(pages)
        config = Path(folder, CONFIG.name)
        text = CONFIG.read_text(encoding="utf-8")
        config.write_text(site_pages.navigation(text, site_pages.plugin_pages()), encoding="utf-8")
        environment = {
            **os.environ,
            "TVMRT_SITE": str(site),
            "TVMRT_SITE_PAGES": str(pages),
            "TVMRT_SITE_SOURCES": str(package_root()),
            "NO_MKDOCS_2_WARNING": "1",
        }
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
        code = subprocess.run(command, env=environment, check=False).returncode
    if code == 0:
        print(f"{site / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
