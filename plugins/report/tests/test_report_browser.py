"""Test the page in a browser: no script errors, all parts respond, also by keyboard, no axe
findings.

It takes Chromium and the extra ``browser``; where they are missing, all of this is skipped.
"""

from __future__ import annotations

import shutil

import pytest
from report_networks import branched, long

import tvmrt
from tvmrt.plugins.report.network_report import report as report_of

driver = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READY = "html[data-ready=yes]"
SIDES = {"desk": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser():
    with driver.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a report; any script error or network request fails the test."""
    wrong: list[str] = []

    def opened(report, side="desk", scheme="light"):
        file = tmp_path / "report.html"
        report.save(file)
        width, height = SIDES[side]
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda message: wrong.append(message.text) if message.type == "error" else None,
        )
        page.on(
            "request",
            lambda asked: None if asked.url == file.as_uri() else wrong.append(asked.url),
        )
        page.goto(file.as_uri())
        page.wait_for_selector(READY, state="attached")
        return page

    yield opened
    assert not wrong


@pytest.fixture(scope="module")
def report():
    found = tvmrt.load(branched(), cache=False).report()
    found.against = {**found.data, "operators": found.data["operators"][:-1]}
    row = {
        "part": "outputs", "tensor": "y", "made_by": "product", "dtype": "float32",
        "shape": [1], "error": 1e-6, "allowed": None, "excess": 0.1, "problem": "", "right": True,
    }  # fmt: skip
    found.data["verify"] = {"judge": "numpy", "wrong": 0, "tensors": [row]}
    return found


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
    page.click("#memory summary")
    rows = page.query_selector_all("#memory tbody tr")
    assert len(rows) == len(report.data["memory"]["tensors"])
    assert page.is_visible("#against")
    assert "1 of 1 tensors agree with numpy" in page.text_content("#verify")


@pytest.mark.parametrize(("side", "scheme"), [("desk", "light"), ("phone", "dark")])
def test_axe_finds_no_serious_violation(open_page, report, side, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright")
    page = open_page(report, side, scheme)
    page.click("#net .vertex:not(.end)")
    found = axe.Axe().run(page)["violations"]
    assert not [each["id"] for each in found if each["impact"] in ("serious", "critical")]
    assert page.evaluate("document.documentElement.scrollWidth") <= SIDES[side][0]


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
