"""Documentation pages: code runs, links are valid, names exist."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import markdown_pages
import pytest
from markdown_pages import ROOT

RUNNABLE = {"python", "sh"}
PAGES = markdown_pages.pages()
WITH_CODE = [
    page
    for page in PAGES
    if any(block.runs and block.language in RUNNABLE for block in markdown_pages.blocks(page))
]

# Pages that run with the default target; the others are compiled for this machine only.
AS_USERS = (
    "README.md", "docs/tutorial/first-network.md", "docs/how-to/custom-operators.md",
    "docs/how-to/ship-to-other-machines.md",
)  # fmt: skip

every_page = pytest.mark.parametrize("page", PAGES, ids=markdown_pages.page_id)


def _run_shell(block, folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", block.text]
    done = subprocess.run(
        command, cwd=folder, env=environment, timeout=600, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"line {block.line}:\n{block.text}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=markdown_pages.page_id)
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    """Run the blocks of a page in order, in a folder with the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVMRT_CACHE", str(tmp_path / "cache"))
    if page.relative_to(ROOT).as_posix() in AS_USERS:
        monkeypatch.delenv("TVMRT_TARGET", raising=False)
    names = {"__name__": "__main__"}
    for block in markdown_pages.blocks(page):
        if not block.runs or block.language not in RUNNABLE:
            continue
        missing = [name for name in block.needs if shutil.which(name) is None]
        if missing:
            pytest.skip(f"line {block.line} on needs {missing[0]}, which is not installed")
        if not all(importlib.util.find_spec(name) for name in block.modules):
            continue
        if block.language == "sh":
            _run_shell(block, tmp_path)
            continue
        source = "\n" * (block.line - 1) + block.text  # so that a traceback shows the page's line
        exec(compile(source, str(page), "exec"), names)


@every_page
def test_links_lead_to_files_and_to_headings(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / path) if path else page
        if markdown_pages.is_deleted(there):
            continue
        assert there.exists(), f"{page} links to {target}"
        assert not (there / "README.md").exists(), f"{page} links to {target}, not to its page"
        if anchor:
            assert anchor in markdown_pages.anchors(there), f"{page} links to {target}"


@every_page
def test_names_on_the_page_exist(page):
    _check_files(page)
    _check_functions(page)
    if page.name != "CHANGELOG.md":  # entries of earlier versions have names of that time
        _check_python_names(page)


def _check_files(page):
    """Check that names in backticks with a known first folder are in the tree."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()} - {
        "build",
        "out",
    }  # files that commands create
    for name in re.findall(r"`([\w./-]+/[\w./-]*)`", text):
        if name.split("/")[0] in folders:
            if markdown_pages.is_deleted(ROOT / name):
                continue
            assert (ROOT / name).exists() or (page.parent / name).exists(), f"{page} names {name}"


def _check_functions(page):
    """Check tables with rows of the form ``| `file` | `function()`, ... |``."""
    row = r"^\| `([\w./-]+\.(?:py|c|h))` \| (`\w+\(\)`(?:, `\w+\(\)`)*) \|"
    for file, functions in re.findall(row, page.read_text(encoding="utf-8"), re.MULTILINE):
        text = (ROOT / file).read_text(encoding="utf-8")
        for name in re.findall(r"\w+", functions):
            assert re.search(rf"\b{name}\b", text), f"{page} looks for {name} in {file}"


def _check_python_names(page):
    text = page.read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"`(tvmrt(?:\.\w+)+)", text))):
        assert _resolves(name), f"{page} names {name}"


def _resolves(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[cut:]:
                found = getattr(found, part)
        except AttributeError:
            return False
        return True
    return False


def test_architecture_page_names_every_package():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    skipped = {"__pycache__", "tests", "docs", "examples"}
    package = [p for p in (ROOT / "python" / "tvmrt").iterdir() if p.is_dir()]
    tops = [ROOT / "src_backend", ROOT / "src_runtime", ROOT / "include", *package]
    missing = [p.name for p in tops if p.name not in skipped and f"{p.name}/" not in text]
    assert not missing
