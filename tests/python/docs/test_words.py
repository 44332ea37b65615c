"""Text, comments and pages use standard terms: tests/lint/words.py finds nothing."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[3]
PARTS = 4  # of the files, because a test has a limit of time
WORDS = run_path(str(ROOT / "tests" / "lint" / "words.py"))


@pytest.mark.parametrize("part", range(PARTS))
def test_no_text_has_a_listed_word(part):
    found = [
        line
        for path in WORDS["files"]()[part::PARTS]
        for line in WORDS["findings"](path, path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("suffix", "text", "count"),
    [
        (".py", '"""The same of two files."""\n', 1),
        (".py", 'raise ValueError(f"{name} is no tensor")\n', 1),
        (".py", "x = 1  # anew\n", 1),
        (".py", 'behind = told(beside)  # a name\nraise ValueError("there is no tensor")\n', 3),
        (".py", "class Row:\n    pass\n", 1),
        (".py", "retold = household = 1\n", 0),
        (".py", '"""Return it.\n\n    behind\n        A parameter.\n    """\n', 0),
        (".c", '/* told */ int told; const char* s = "is no\\n longer"; // behind\n', 3),
        (".md", "The list, of which\none is `told`.\n\n```c\nint told;\n```\n", 1),
        (".md", "A server is no longer needed, the last of which ran.\n", 0),
    ],
)
def test_words_are_found_in_prose_and_names(suffix, text, count):
    path = WORDS["ROOT"] / f"example{suffix}"
    assert len(list(WORDS["findings"](path, text))) == count
