"""The reference pages are what the sources say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A folder with the pages as they would be written now."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, DOCS / "generate_reference.py", folder], check=True)
    return folder


@pytest.mark.parametrize("page", ["accuracy.md", "command-line.md", "python.md"])
def test_page_is_up_to_date(written, page):
    committed = (DOCS / "reference" / page).read_text(encoding="utf-8")
    advice = "run './run docs' and commit what it writes"
    assert (written / page).read_text(encoding="utf-8") == committed, advice
