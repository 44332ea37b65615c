"""Chromium for tests of pages: start it, serve and open pages, check their accessibility.

Tests need Chromium and the extra ``browser``; without them they are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1:")
SEVERE = ("serious", "critical")


@contextmanager
def launched() -> Iterator[Any]:
    """Yield a browser without a window; skip the test if it is not installed."""
    driver = pytest.importorskip("playwright.sync_api", reason="the extra browser is not installed")
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("chromium is not installed")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the address of a static server of the files of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Watched:
    """A page, and what went wrong on it: script errors, console errors, requests to other machines.

    ``page`` is playwright's page, ``wrong`` the list of texts.
    """

    def __init__(
        self, browser: Any, size: tuple[int, int] = (1280, 900), scheme: str = "light"
    ) -> None:
        width, height = size
        self.wrong: list[str] = []
        self.page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def _request(self, request: Any) -> None:
        if not request.url.startswith(LOCAL):
            self.wrong.append(f"request of {request.url}")


def violations(page: Any) -> list[str]:
    """Return the findings of axe of serious and critical kind, with the elements.

    axe judges no text on a gradient, so that elements have their plain background here.
    """
    axe = pytest.importorskip("axe_core_python.sync_playwright")
    plain = "transition: none !important; animation: none !important;"
    page.add_style_tag(content=f"* {{ {plain} background-image: none !important; }}")
    return [
        f"{found['id']}: {node['target']}: {node.get('failureSummary', '')}"
        for found in axe.Axe().run(page)["violations"]
        if found["impact"] in SEVERE
        for node in found["nodes"]
    ]


def overflow(page: Any) -> int:
    """Return how many pixels a page is wider than its window."""
    width: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width
