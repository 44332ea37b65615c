"""README.md as a package index shows it, without dead links."""

from __future__ import annotations

import re
import sys

import pytest
from markdown_pages import ROOT, is_deleted

sys.path.insert(0, str(ROOT / "python" / "backend"))
from index_readme import described

README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "https://example.org/us/tvmrt/blob/v1"
TARGET = re.compile(r"\]\(([^)]*)\)")


def _targets(text: str) -> list[str]:
    return TARGET.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_links_become_labels_without_an_address():
    text = described(README, None)
    assert not [target for target in _targets(text) if not target.startswith("http")]
    assert "<!--" not in text
    assert "| tutorial, install | from ONNX to right answers" in text
    assert "*The report of the digits network" in text
    for block in re.findall(r"```(?:sh|python)\n.*?```", README, re.DOTALL):
        assert block in text


def test_links_lead_to_existing_files_with_an_address():
    targets = _targets(described(README, ADDRESS + "/"))
    pictures = [t for t in targets if t.startswith(ADDRESS.replace("blob", "raw"))]
    files = [t for t in targets if t.startswith(ADDRESS)]
    assert len(pictures) == 1
    assert len(files) > 30
    for target in (*pictures, *files):
        file = ROOT / target.partition("/v1/")[2].partition("#")[0]
        assert file.is_file() or is_deleted(file), target
    assert len(pictures) + len(files) == len([t for t in _targets(README) if "://" not in t])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a `x[0]` b](c/d.md#e)", "a `x[0]` b"),
        ("[out](https://other.org/x) [here](#there)", "[out](https://other.org/x) [here](#there)"),
        ("```sh\n[not](a-link)\n```\n", "```sh\n[not](a-link)\n```\n"),
        ("a\n\n<!-- not run: it\n is -->\n```sh\nb\n```\n", "a\n\n```sh\nb\n```\n"),
    ],
)
def test_other_text_is_unchanged(text, expected):
    assert described(text, None) == expected
