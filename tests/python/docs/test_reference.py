"""The generated reference pages match the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """Return a folder with newly generated pages."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, ROOT / "docs" / "generate_reference.py", folder], check=True)
    return folder


ADVICE = "run './run docs' and commit what it writes"


@pytest.mark.parametrize("page", ["command-line.md"])
def test_page_is_up_to_date(written, page):
    if not (ROOT / "plugins").is_dir():
        pytest.skip("the pages have options that plug-ins add to commands of the core")
    committed = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    assert (written / "docs" / "reference" / page).read_text(encoding="utf-8") == committed, ADVICE


def test_pages_of_plugins_are_up_to_date(written):
    for page in sorted(written.glob("plugins/*/docs/*.md")):
        committed = ROOT / page.relative_to(written)
        assert committed.is_file(), f"{committed}: {ADVICE}"
        text = committed.read_text(encoding="utf-8")
        assert page.read_text(encoding="utf-8") == text, f"{committed}: {ADVICE}"
