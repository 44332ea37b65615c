"""Measure reports in a browser: bytes of the page, loading time, script errors, axe violations.

    python tests/bench/bench_report.py [--rounds N] [NETWORK.onnx ...]

A network of 2,000 nodes comes first. The time is the fastest of some openings, from the call to
open the file to the last script's end. It takes Chromium and the extra ``browser``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from axe_core_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

import tvmrt
from tvmrt import plugin

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))
from report_networks import long

READY = "performance.getEntriesByName('ready')[0].startTime"


def measure(browser: Any, file: Path, rounds: int) -> tuple[float, list[str], list[str]]:
    """Return the milliseconds until a page is ready, its script errors, and serious axe
    violations."""
    times: list[float] = []
    wrong: list[str] = []
    for _ in range(rounds):
        page = browser.new_page(bypass_csp=True)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        times.append(page.evaluate(READY))
        if len(times) == rounds:
            page.press("#net", "ArrowDown")
            found = Axe().run(page)["violations"]
        page.close()
    serious = [each["id"] for each in found if each["impact"] in ("serious", "critical")]
    return min(times), wrong, serious


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK.onnx")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    report = plugin.hook("network report", "a report")
    made = {"2,000 nodes": lambda: report(tvmrt.compile(long(500)), "long")}
    made.update({Path(path).name: tvmrt.load(path).report for path in options.networks})
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, make in made.items():
            file = Path(folder) / "report.html"
            make().save(file)
            ready, wrong, serious = measure(browser, file, options.rounds)
            print(
                f"{name:34} {file.stat().st_size:>10,} bytes   ready in {ready:6.0f} ms   "
                f"errors of scripts: {len(wrong)}   serious by axe: {', '.join(serious) or 'none'}"
            )
        browser.close()


if __name__ == "__main__":
    main()
