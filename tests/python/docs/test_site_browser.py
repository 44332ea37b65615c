"""The built documentation site, as files and in Chromium: it needs no network and no server."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import shutil
import sys
from pathlib import Path

import chromium
import pytest
from markdown_pages import ROOT

import tvmrt

sys.path.insert(0, str(ROOT / "docs"))
import build_site
import site_versions

BUILT = "TVMRT_BUILT_SITE"  # the variable with the folder that build_site.py has filled
NEEDED = ("mkdocs", "material", "mkdocstrings", "mermaidx")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in NEEDED),
        reason="mkdocs is not installed: pip install tvmrt[docs]",
    ),
]
PAGES = (  # with tabs, diagrams, code and many tables
    "index.html",
    "docs/all-pages.html",
    "docs/reference/command-line.html",
    "docs/explanation/architecture.html",
    "docs/how-to/firmware.html",
    "docs/reference/limits.html",
)
# Diagrams are in closed shadow roots, which scripts of a page cannot look into.
OPEN_SHADOWS = """
const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (options) {
  return attach.call(this, { ...options, mode: "open" });
};"""
DIAGRAMS = """() => [...document.querySelectorAll("div.mermaid")].map((each) => {
  const svg = each.shadowRoot?.querySelector("svg");
  return svg ? [svg.getBoundingClientRect().height, svg.textContent] : [0, ""];
})"""
GROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the built version, in a site that also has an older one."""
    folder = tmp_path_factory.mktemp("site")
    if BUILT in os.environ:
        built = Path(os.environ[BUILT], tvmrt.__version__)
        shutil.copytree(built, folder / tvmrt.__version__)
    else:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "argv", ["build_site.py", str(folder)])
            assert build_site.main() == 0
    older = folder / "0.0.1"
    older.mkdir()
    shutil.copy(folder / tvmrt.__version__ / "index.html", older)
    site_versions.update_list(folder)
    return folder / tvmrt.__version__


@pytest.fixture(scope="module")
def browser():
    with chromium.launched() as opened:
        yield opened


@pytest.fixture(scope="module", params=["folder", "server"])
def address(request, site):
    """Return the address of the built version, in a folder or on a static server."""
    if request.param == "folder":
        yield site.as_uri()
        return
    with chromium.served(site.parent) as server:
        yield f"{server}/{site.name}"


def test_search_index_and_python_page_are_complete(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"] for entry in index["docs"] if "acall" in entry["text"]}
    assert any("call-a-network" in location for location in found)
    python = (site / "docs" / "reference" / "python.html").read_text(encoding="utf-8")
    assert 'id="tvmrt.Network.acall"' in python
    assert "workspace_io" in python, "the options of compile, from its docstring at run time"
    rejected = python.partition("Rejected combinations of options")[2]
    assert 'schedule="async" is for hosts; choose runtime="host"' in html.unescape(rejected)
    for page in site.rglob("*.html"):
        assert not re.search(r'<(script|link)[^>]*(src|href)="https?:', page.read_text("utf-8"))


def test_search_finds_a_page(browser, address):
    watched = chromium.Watched(browser)
    page = watched.page
    page.goto(f"{address}/index.html")
    page.fill("input.md-search__input", "microcontroller")
    page.click('.md-search-result__item a[href*="docs/how-to/firmware.html"]')
    page.wait_for_url("**/docs/how-to/firmware.html*")
    assert page.text_content("h1").startswith("A network on a microcontroller")
    assert not watched.wrong


def test_every_diagram_is_drawn(browser, site):
    with_diagrams = [
        page for page in site.rglob("*.html") if 'class="mermaid"' in page.read_text("utf-8")
    ]
    assert with_diagrams
    for path in with_diagrams:
        watched = chromium.Watched(browser)
        watched.page.add_init_script(OPEN_SHADOWS)
        watched.page.goto(path.as_uri())
        watched.page.wait_for_function(f"({DIAGRAMS})().every(([height]) => height > 50)")
        expected = path.read_text("utf-8").count('class="mermaid"')
        found = watched.page.evaluate(DIAGRAMS)
        assert len(found) == expected, path
        assert not any("Syntax error" in text for _, text in found), path
        assert not watched.wrong, path
        watched.page.close()


def test_tabs_and_dark_mode_switch(browser, address):
    watched = chromium.Watched(browser)
    page = watched.page
    page.goto(f"{address}/index.html")
    labels = page.locator(".tabbed-labels label")
    assert labels.all_inner_texts() == ["Python", "C and microcontrollers", "Command line"]
    assert not page.is_visible("text=tvmrt verify examples")
    labels.nth(2).click()
    assert page.is_visible("text=tvmrt verify examples")
    light = page.evaluate(GROUND)
    page.click("label[title=Light]")
    page.click("label[title=Dark]")
    page.wait_for_function(f"{GROUND} !== '{light}'")
    page.reload()
    assert page.evaluate(GROUND) != light, "the choice is kept"
    assert not watched.wrong


def test_colours_follow_the_system_until_the_reader_chooses(browser, address):
    page = chromium.Watched(browser).page
    page.goto(f"{address}/index.html")
    light = page.evaluate(GROUND)
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert page.evaluate(GROUND) != light


def test_first_page_says_what_it_is_for(browser, site):
    watched = chromium.Watched(browser)
    page = watched.page
    page.goto((site / "index.html").as_uri())
    assert page.text_content("h1").startswith("Trained networks as plain C")
    assert page.locator(".md-tabs__item").count() <= 7
    assert page.is_visible("text=pip install")
    assert page.is_visible("text=No telemetry, no network access.")
    logo = page.locator("a.md-logo img, .tvmrt-hero img").all()
    assert [image.evaluate("each => each.naturalWidth > 0") for image in logo] == [True] * 3
    card = page.get_attribute("meta[property='og:image']", "content")
    assert (site / card).is_file()
    assert not watched.wrong


def test_llms_txt_leads_to_pages_as_markdown(site):
    for file in (site / "llms.txt", site.parent / "llms.txt"):
        text = file.read_text(encoding="utf-8")
        assert text.startswith("# tvmrt\n\n> ")
        targets = re.findall(r"^- \[.+?\]\((\S+?)\)", text, re.MULTILINE)
        assert len(targets) > 100
        assert [target for target in targets if not (file.parent / target).is_file()] == []
        assert "- [Call a network](" in text
    assert "onnx_node" in (site / "docs/reference/operators.md").read_text(encoding="utf-8")


def test_selector_leads_to_the_page_of_another_version(browser, address):
    watched = chromium.Watched(browser)
    page = watched.page
    page.goto(f"{address}/docs/how-to/firmware.html")
    selector = page.locator("select.tvmrt-versions")
    assert selector.locator("option").all_inner_texts() == [tvmrt.__version__, "0.0.1"]
    selector.select_option("0.0.1")  # has no page on firmware
    page.wait_for_url("**/0.0.1/index.html")


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_accessible_and_fit_a_phone(browser, site, name):
    for scheme in ("light", "dark"):
        watched = chromium.Watched(browser, (400, 800), scheme)
        watched.page.goto((site / name).as_uri())
        assert chromium.overflow(watched.page) <= 0
        watched.page.set_viewport_size({"width": 1280, "height": 900})
        assert not chromium.violations(watched.page)
        assert not watched.wrong
        watched.page.close()
