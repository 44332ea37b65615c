"""Build the site of all pages: ``python docs/build_site.py [FOLDER]`` writes it into out/site.

Pages of the core keep their paths; pages of plug-ins go to their paths on the site
(``site_pages.py``). mkdocs fails at the first broken link. mkdocstrings fills in the page of the
Python API from the docstrings of the installed package.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import site_pages

from tvmrt import option_syntax
from tvmrt.compiler import option_rules, request

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
    for path in sorted(pages.rglob("*.md")):
        site_path = path.relative_to(pages).as_posix()
        text = path.read_text(encoding="utf-8")
        text = site_pages.adapt_links(text, site_path, site_path, plugins)
        path.write_text(text, encoding="utf-8")
    for page in plugins:
        append(pages / page.site_path, site_pages.adapted(page, plugins))
    append(pages / "docs" / "reference" / "python.md", option_sections())


def option_sections() -> str:
    """Return the sections on options of ``tvmrt.compile`` that its docstring does not have."""
    added = [
        f"- `{name}: {option.type} = {option.default!r}`: {option.text}"
        for name, option in request.plugin_options().items()
    ]
    rules = [
        f"- {option_syntax.options(rule.sentence.replace('=*', '=N'))}"
        for rule in option_rules.RULES
    ]
    added = ["\n## Options of plug-ins\n", *added] if added else []
    return "\n".join([*added, "\n## Rejected combinations of options\n", *rules, ""])


def append(path: Path, text: str) -> None:
    """Append to a file, which may not exist yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


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
