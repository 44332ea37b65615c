"""Build the site of all pages: ``python docs/build_site.py [FOLDER]`` writes it into out/site.

The pages go to a folder with the name of the version; other versions in FOLDER stay
(``site_versions.py``). Pages of the core keep their paths; pages of plug-ins go to their paths on
the site (``site_pages.py``); reference pages are generated (``generate_reference.py``). mkdocs
fails at the first broken link. mkdocstrings fills in the page of the Python API from the docstrings
of the package. The site needs no network and no server (``site_scripts.py``). ``llms.txt`` lists
its pages for programs (``site_llms.py``). ``TVMRT_SITE_URL`` is the address where the site will be,
for previews of links to it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import generate_reference
import site_llms
import site_pages
import site_scripts
import site_tabs
import site_versions

import tvmrt
from tvmrt import option_syntax
from tvmrt.compiler import option_rules, request

ROOT = Path(__file__).resolve().parent.parent
CONFIG = Path(__file__).with_name("mkdocs.yml")
SITE = Path(__file__).with_name("site")
TOPS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
PLAIN = ("LICENSE", "CITATION.cff")  # what pages link to besides
SHOWN = (".md", ".c", ".h", ".py", ".png", ".svg", ".json", ".ipynb", "")  # "" for a Makefile


def lay_out(pages: Path) -> None:
    """Copy what the site shows and what its pages link to."""
    sources = [ROOT / name for name in (*TOPS, *PLAIN)]
    for top in ("docs", "examples", "include", "src_runtime/sdk"):
        sources += [
            path
            for path in sorted((ROOT / top).rglob("*"))
            if path.is_file() and path.suffix in SHOWN and "__pycache__" not in path.parts
        ]
    texts = {source: make() for source, make in generate_reference.pages().items()}
    for path in sources:
        source = path.relative_to(ROOT).as_posix()
        if path.suffix == ".md":
            texts[source] = path.read_text(encoding="utf-8")
        else:
            (pages / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, pages / source)
    texts["README.md"] = landing(texts["README.md"])
    plugins = site_pages.plugin_pages()
    of_plugins = {page.source: page for page in plugins}
    for source, text in texts.items():
        if source not in of_plugins:
            site_path = site_pages.MOVED.get(source, source)
            shown = site_pages.adapt_links(site_tabs.as_tabs(text), source, site_path, plugins)
            append(pages / site_path, shown)
    for source, page in of_plugins.items():
        text = texts.get(source) or (ROOT / source).read_text(encoding="utf-8")
        append(pages / page.site_path, site_pages.adapted(text, page, plugins))
    append(pages / "docs" / "reference" / "python.md", option_sections())
    site_scripts.copy(pages)


def landing(readme: str) -> str:
    """Return the first page of the site: README.md with its first paragraph as a banner."""
    _, lead, rest = readme.split("\n\n", 2)
    return (SITE / "hero.txt").read_text(encoding="utf-8").replace("LEAD", lead) + rest


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


def package_root(folder: Path) -> Path:
    """Return a folder with the package ``tvmrt``, for a tool that reads its sources.

    An editable installation has the package in several folders; they are joined in ``folder``.
    """
    spec = importlib.util.find_spec("tvmrt")
    if spec is None or spec.origin is None:
        raise SystemExit("build_site: tvmrt is not installed here; pip install '.[docs]'")
    package = Path(spec.origin).parent
    if package != ROOT / "python" / "tvmrt":
        return package.parent
    joined = folder / "sources" / "tvmrt"
    parts = {path: joined for path in (package, *ROOT.glob("plugins/*/public"))}
    for path in ROOT.glob("plugins/*/python"):
        parts[path] = joined / "plugins" / path.parent.name
    for path, target in parts.items():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(path, target, ignore=ignored, dirs_exist_ok=True)
    return joined.parent


def build(folder: Path, site: Path) -> int:
    """Build the pages of this version into a new folder; return the exit code of mkdocs."""
    pages = folder / "pages"
    pages.mkdir()
    lay_out(pages)
    config = folder / CONFIG.name
    text = CONFIG.read_text(encoding="utf-8")
    text = site_pages.navigation(text, site_pages.plugin_pages())
    config.write_text(text, encoding="utf-8")
    url = os.environ.get("TVMRT_SITE_URL", "")
    environment = {
        **os.environ,
        "TVMRT_SITE": str(site),
        "TVMRT_SITE_PAGES": str(pages),
        "TVMRT_SITE_THEME": str(SITE / "theme"),
        "TVMRT_SITE_URL": url and f"{url.rstrip('/')}/{tvmrt.__version__}/",
        "TVMRT_SITE_SOURCES": str(package_root(folder)),
        "NO_MKDOCS_2_WARNING": "1",
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    code = subprocess.run(command, env=environment, check=False).returncode
    if code == 0:
        site_scripts.finish(site)
        description = re.search(r"(?m)^site_description: (.*)", text)
        site_llms.write(site, pages, text.partition("\nnav:\n")[2], description[1])
    return code


def main() -> int:
    """Build this version into the site; the exit code is that of mkdocs."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out" / "site").resolve()
    site.mkdir(parents=True, exist_ok=True)
    version = tvmrt.__version__
    with tempfile.TemporaryDirectory(prefix=".build-", dir=site) as aside:
        built = Path(aside, version)
        with tempfile.TemporaryDirectory(prefix="tvmrt-site-") as folder:
            code = build(Path(folder), built)
        if code == 0:
            site_versions.publish(built, site, version)
            print(f"{site / version / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
