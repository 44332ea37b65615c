"""Every test named on the page of the source documents exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_pages import is_deleted

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "seeds.md"
NAMED = re.compile(r"`((?:[\w/]+/)?(?:test|check)_\w+\.(?:py|c))(?:::(\w+))?`|`…::(\w+)`")


def named_tests() -> list[tuple[str, str]]:
    """Return files and functions, "" for a whole file; `…::name` refers to the last named file."""
    found, last = [], ""
    for match in NAMED.finditer(PAGE.read_text(encoding="utf-8")):
        last = match[1] or last
        found.append((last, match[2] or match[3] or ""))
    return list(dict.fromkeys(found))


def test_page_names_tests():
    assert len(named_tests()) > 20


@pytest.mark.parametrize(
    ("file", "function"), named_tests(), ids=["::".join(row) for row in named_tests()]
)
def test_named_test_exists(file, function):
    if is_deleted(ROOT / file):
        pytest.skip("its plug-in is deleted")
    places = [ROOT / folder / file for folder in ("tests/python", "tests/c", "tests", "")]
    path = next((p for p in places if p.is_file()), None)
    assert path is not None, f"{PAGE.name} names {file}, which is not there"
    text = path.read_text(encoding="utf-8")
    assert not function or re.search(rf"\b{function}\b", text), f"{file} has no {function}"
