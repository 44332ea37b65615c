"""Test the page in a browser: no script errors, all parts respond, also by keyboard, no axe
findings.

It needs Chromium and the extra ``browser``; without them, all tests are skipped.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import chromium
import pytest
from report_networks import branched, long

import tvmrt
from tvmrt.plugins.report.network_report import report as report_of

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
READY = "html[data-ready=yes]"
SIZES = {"desk": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser():
    with chromium.launched() as opened:
        yield opened


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a report; any script error, console error or request fails the test."""
    opened = []

    def open_one(report, size="desk", scheme="light"):
        file = tmp_path / "report.html"
        report.save(file)
        watched = chromium.Watched(browser, SIZES.get(size, size), scheme)
        opened.append(watched)
        watched.page.goto(file.as_uri())
        watched.page.wait_for_selector(READY, state="attached")
        return watched.page

    yield open_one
    for watched in opened:
        assert not watched.wrong
        watched.page.close()


def open_tensors(page):
    """Open the table of tensors; return its rows. The browser fills it some time later."""
    page.click("#memory summary")
    page.wait_for_selector("#memory tbody tr")
    return page.query_selector_all("#memory tbody tr")


@pytest.fixture(scope="module")
def report():
    return tvmrt.load(branched(), cache=False).report()


def test_operators_are_found_and_described_by_keyboard(open_page, report):
    page = open_page(report)
    page.keyboard.press("/")
    page.keyboard.type("rectifier")
    assert page.text_content("#found") == "1 found"
    page.keyboard.press("Enter")
    details = page.text_content("#details")
    assert "convolution" in details
    assert "rectifier" in details
    page.focus("#net")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    selected = page.query_selector_all('.vertex[aria-selected="true"]')
    assert [v.get_attribute("id") for v in selected] == ["v2"]
    name = report.data["operators"][1]["name"]
    assert page.text_content("#details h3") == name
    assert name in page.text_content("tr.lit")
    page.keyboard.press("Escape")
    assert page.query_selector('.vertex[aria-selected="true"]') is None


def test_tables_sort_and_tensors_open(open_page, report):
    page = open_page(report)
    page.click("#operators th >> text=operator")
    names = [each.text_content() for each in page.query_selector_all("#operators tbody .link")]
    assert names == sorted(row["name"] for row in report.data["operators"])
    assert len(open_tensors(page)) == len(report.data["memory"]["tensors"])


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 600, 1000, 1600])
def test_labels_of_the_memory_keep_apart(open_page, width):
    """Tensors share addresses."""
    found = tvmrt.load(DIGITS, cache=False).report()
    tensors = [
        {"buffer": f"model_conv2d_{number}", "pool": "shared", "size": size, "offset": at,
         "first": first, "last": last}
        for number, (at, size, first, last) in enumerate(
            [(0, 1600, 0, 2), (0, 1600, 1, 4), (1600, 800, 2, 3), (2400, 800, 3, 5),
             (2400, 800, 4, 6), (0, 400, 5, 6)])
    ]  # fmt: skip
    found.data["memory"]["tensors"] = tensors
    found.data["memory"]["pools"] = [{**found.data["memory"]["pools"][0], "name": "shared"}]
    page = open_page(found, (width, 900))
    labels = page.evaluate(
        """() => [...document.querySelectorAll("#pools text.name")].map((text) => {
            const { left, right, top, bottom } = text.getBoundingClientRect();
            return [text.textContent, left, right, top, bottom];
          })"""
    )
    assert len(labels) > 2
    for one, other in itertools.combinations(labels, 2):
        apart = one[1] >= other[2] or other[1] >= one[2]
        assert apart or one[3] >= other[4] or other[3] >= one[4], (one, other)


@pytest.mark.slow
def test_wide_windows_show_a_narrow_graph_and_its_memory_side_by_side(open_page):
    chain = tvmrt.load(DIGITS, cache=False).report()
    page = open_page(chain, (1600, 1000))
    graph, memory = (page.locator(f"#{name}").bounding_box() for name in ("graph", "memory"))
    assert abs(graph["y"] - memory["y"]) < 5
    assert memory["x"] > graph["x"] + graph["width"]
    assert chromium.overflow(page) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_page_is_accessible_and_fits_every_width(open_page, report, width, scheme):
    page = open_page(report, (width, 900), scheme)
    page.click("#net .vertex:not(.end)")
    open_tensors(page)
    assert not chromium.violations(page)
    assert chromium.overflow(page) <= 0
    if width >= 1000:  # tables are scrolled on phones only
        inside = "each => each.map((e) => [e.ariaLabel, e.scrollWidth - e.clientWidth])"
        tables = page.eval_on_selector_all(".scroll:not(.chart)", inside)
        assert len(tables) >= 3
        assert not [table for table in tables if table[1] > 0]
    found = [
        float(each) for each in re.findall(r"(\d+(?:\.\d+)?) % \(", page.inner_text("#profile"))
    ]
    assert found
    assert max(found) <= 100


FOCUSED = """() => {
  const box = document.activeElement.getBoundingClientRect();
  const part = document.activeElement.closest("section")?.id ?? document.activeElement.tagName;
  return [part, Math.round(box.top + scrollY), Math.round(box.left)];
}"""


def test_focus_follows_the_page_and_every_stop_has_a_name(open_page, report):
    page = open_page(report)
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
    sections = [part for part, *_ in stops if part.islower()]
    order = list(dict.fromkeys(sections))
    shown = page.eval_on_selector_all("main section:not([hidden])", "e => e.map((s) => s.id)")
    assert order == shown[: len(order)]
    assert len(order) >= 3
    assert sections == sorted(sections, key=order.index), "no section is entered twice"
    client = page.context.new_cdp_session(page)
    nodes = client.send("Accessibility.getFullAXTree")["nodes"]
    stops = [
        node
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] != "RootWebArea"
        and any(p["name"] == "focusable" and p["value"]["value"] for p in node["properties"])
    ]
    assert len(stops) > 20
    nameless = [
        node["role"]["value"] for node in stops if not node["name"].get("value", "").strip()
    ]
    assert nameless in ([], ["main"])  # the skip link's goal


def test_nodes_have_the_speed_of_the_operator_that_computes_them(open_page, report):
    page = open_page(report)
    heads = [each.text_content() for each in page.query_selector_all("#node-table thead th")]
    rows = {}
    for row in page.query_selector_all("#node-table tbody tr"):
        cells = [cell.text_content() for cell in row.query_selector_all("td")]
        rows[cells[0]] = dict(zip(heads, cells))
    named = {row["name"]: row for row in report.data["nodes"]}
    assert rows.keys() == named.keys()
    for name, cells in rows.items():
        parts = [report.data["operators"][number] for number in named[name]["operators"]]
        total = {key: sum(part[key] for part in parts) for key in ("macs", "seconds")}
        if total["macs"]:
            speed = 2e-9 * total["macs"] / total["seconds"]
            assert float(cells["GFLOP/s"]) == pytest.approx(speed, rel=0.05, abs=0.006)
    # the convolution and its ReLU are one operator
    assert rows["first"]["in one with"] == rows["rectifier"]["in one with"] == "1 more"
    assert rows["first"]["time"] == rows["rectifier"]["time"]
    assert rows["second"]["GFLOP/s"] != "–"


@pytest.mark.slow
def test_page_with_two_thousand_nodes_is_responsive(open_page, tmp_path):
    made = report_of(tvmrt.compile(long(500)), "long")
    opened = [open_page(made) for _ in range(3)]
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
    ready = [page.evaluate("performance.getEntriesByName('ready')[0].startTime") for page in opened]
    page = opened[-1]
    page.click("#fit")
    page.fill("#search", "block499/pool")
    assert page.text_content("#found") == "1 found"
    assert min(ready) < 2000
