"""The documentation site: complete navigation, links, tabs, the list of versions."""

from __future__ import annotations

import json
import pkgutil
import re
import sys

import pytest
from markdown_pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import site_pages
import site_tabs
import site_versions

CONFIG = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
PLUGIN_PAGES = site_pages.plugin_pages()
NAV = re.findall(
    r": (\S+\.md)$",
    site_pages.navigation(CONFIG, PLUGIN_PAGES).partition("\nnav:\n")[2],
    re.MULTILINE,
)


def test_every_page_is_once_in_the_navigation():
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    here = {str(page.relative_to(ROOT)) for page in pages}
    sources = {page.site_path: page.source for page in PLUGIN_PAGES}
    sources |= {shown: source for source, shown in site_pages.MOVED.items()}
    here = (here - site_pages.MOVED.keys()) | sources.keys()
    assert not here - set(NAV), "put these into the nav of docs/mkdocs.yml"
    shown = {sources.get(page, page) for page in NAV} - set(site_pages.GENERATED.values())
    assert not [page for page in shown if not (ROOT / page).is_file()]
    assert len(NAV) == len(set(NAV))


def test_site_has_at_most_seven_tabs():
    assert 3 < len(re.findall(r"^  - ", CONFIG.partition("\nnav:\n")[2], re.MULTILINE)) <= 7


def test_index_by_task_links_to_every_page_of_a_plugin():
    index = site_pages.adapt_links(
        (ROOT / "docs" / "README.md").read_text(encoding="utf-8"),
        "docs/README.md", "docs/README.md", PLUGIN_PAGES,
    )  # fmt: skip
    pages = {page.site_path for page in PLUGIN_PAGES if page.source != page.site_path}
    linked = {f"docs/{path}" for path in re.findall(r"\]\(([^)#]+\.md)", index)}
    assert pages - linked == set()


@pytest.fixture
def tree(tmp_path):
    """Return a source tree with one plug-in that has a page."""
    for name, text in {
        "docs/how-to/core.md": "",
        "docs/images/x.png": "",
        "plugins/mine/README.md": "",
        "plugins/mine/docs/use.md": "",
        "plugins/mine/docs/list.md": "",
        "docs/reference/names.md": "",
        "plugins/mine/docs/names.md": "# Names\nOn the site elsewhere.\n\n## Mine\n\n[a](use.md)\n",
        "plugins/mine/docs/pages.ini": "[use.md]\nsection = A\ntitle = Use\n"
        "[list.md]\nsection = B\ntitle = List\nfolder = reference\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_plugin_pages_end_their_sections(tree):
    config = "a: b\nnav:\n  - A:\n      - Plug-ins:\n          - z: z.md\n      - x: y.md\n  - B:\n"
    assert site_pages.navigation(config, site_pages.plugin_pages(tree)) == (
        "a: b\nnav:\n  - A:\n      - Plug-ins:\n          - z: z.md\n"
        "          - mine: plugins/mine/README.md\n      - x: y.md\n"
        "      - Use: docs/how-to/use.md\n  - B:\n      - List: docs/reference/list.md\n"
    )
    with pytest.raises(ValueError, match=r"list\.md: the site has no section B"):
        site_pages.navigation(config.removesuffix("  - B:\n"), site_pages.plugin_pages(tree))


def test_page_named_like_a_reference_page_is_part_of_it(tree):
    pages = site_pages.plugin_pages(tree)
    (page,) = [page for page in pages if page.source == "plugins/mine/docs/names.md"]
    assert page.site_path == "docs/reference/names.md"
    text = (tree / page.source).read_text(encoding="utf-8")
    assert site_pages.adapted(text, page, pages, tree) == "\n## Mine\n\n[a](../how-to/use.md)\n"


@pytest.mark.parametrize(
    ("source", "place", "text", "shown"),
    [
        ("docs/how-to/core.md", None, "[a](../../plugins/mine/docs/use.md#x)", "[a](use.md#x)"),
        ("README.md", None, "[a](plugins/mine/docs/list.md)", "[a](docs/reference/list.md)"),
        (
            "plugins/mine/docs/use.md",
            "docs/how-to/use.md",
            "![a](../../../docs/images/x.png) [b](list.md) [c](#d) [e](https://f.org/g.md)",
            "![a](../images/x.png) [b](../reference/list.md) [c](#d) [e](https://f.org/g.md)",
        ),
        (
            "README.md",
            None,
            "[a](docs/reference/generated.md#c-interface)",
            "[a](docs/reference/c.md)",
        ),
        ("README.md", None, "[`a` b](plugins/gone/docs/x.md) ![c](plugins/gone/d.png)", "`a` b "),
        ("README.md", None, "```\n[a](plugins/gone/x.md)\n```", "```\n[a](plugins/gone/x.md)\n```"),
    ],
    ids=["to a plug-in", "from the top", "of a plug-in", "generated", "deleted", "code"],
)
def test_links_lead_to_pages_of_the_site(tree, source, place, text, shown):
    pages = site_pages.plugin_pages(tree)
    assert site_pages.adapt_links(text, source, place or source, pages, tree) == shown


def test_the_names_of_the_python_page_exist_and_have_docstrings():
    pages = [ROOT / "docs" / "reference" / "python.md", *ROOT.glob("plugins/*/docs/python.md")]
    for page in pages:
        names = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert names, page
        for name in names:
            assert pkgutil.resolve_name(name).__doc__, f"{page}: {name}"


def test_marked_sections_become_tabs():
    sections = "## X\n\n```sh\n## no title\n```\n## Y\nb\n"
    page = f"# A\n<!-- tabs -->\n\n{sections}<!-- end of tabs -->\n## Z\n"
    indented = "    ```sh\n    ## no title\n    ```\n\n"
    assert site_tabs.as_tabs(page) == (f'# A\n=== "X"\n\n{indented}=== "Y"\n\n    b\n\n\n## Z\n')


def test_other_versions_stay_when_one_is_built_again(tmp_path):
    for version, text in [("0.9.0", "a"), ("0.10.0", "b"), ("0.10.0.dev0", "c"), ("0.9.0", "d")]:
        built = tmp_path / ".build" / version
        built.mkdir(parents=True)
        (built / "index.html").write_text(text, encoding="utf-8")
        site_versions.publish(built, tmp_path, version)
    listed = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [each["version"] for each in listed] == ["0.10.0", "0.10.0.dev0", "0.9.0"]
    assert listed[0]["aliases"] == ["latest"]
    assert (tmp_path / "latest" / "index.html").read_text(encoding="utf-8") == "b"
    assert (tmp_path / "0.9.0" / "index.html").read_text(encoding="utf-8") == "d"
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text(encoding="utf-8")
