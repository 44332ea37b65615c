"""The site: every page has a place in it, and mkdocs builds it without a warning."""

from __future__ import annotations

import importlib.util
import json
import re
import sys

import pytest
from markdown_pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import build_site
import c_reference

CONFIG = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
NAV = re.findall(r": (\S+\.md)$", CONFIG.partition("\nnav:\n")[2], re.MULTILINE)


def test_every_page_has_one_place_in_the_site():
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    pages += (ROOT / "src_runtime" / "devices").rglob("*.md")
    here = {str(page.relative_to(ROOT)) for page in pages}
    here -= set(re.findall(r"^  /(\S+\.md)$", CONFIG, re.MULTILINE))  # not_in_nav
    assert not here - set(NAV), "put these into the nav of docs/mkdocs.yml"
    assert not [page for page in NAV if not (ROOT / page).is_file()]
    assert len(NAV) == len(set(NAV))


def test_the_c_page_has_every_function_of_the_headers_that_it_names():
    text = c_reference.page()
    for names in c_reference.GROUPS.values():
        for name in names:
            header = (c_reference.HEADERS / name).read_text(encoding="utf-8")
            for function in re.findall(r"^TVM_DLL [\w *]+?(\w+)\(", header, re.MULTILINE):
                assert f"{function}(" in text, f"{name}: {function}"


@pytest.mark.slow
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")),
    reason="mkdocs is not installed: pip install tvmrt[docs]",
)
def test_the_site_is_built_and_its_search_finds_pages(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["build_site.py", str(tmp_path)])
    assert build_site.main() == 0, capfd.readouterr().err
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"] for entry in index["docs"] if "acall" in entry["text"]}
    assert any("call-a-network" in location for location in found)
    python = (tmp_path / "docs" / "reference" / "python.html").read_text(encoding="utf-8")
    assert 'id="tvmrt.network.network.Network.acall"' in python
    assert "workspace_io" in python, "the options of compile, from its docstring at run time"
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r'<(script|link)[^>]*(src|href)="https?:', page.read_text("utf-8"))
