"""The ceiling for the lines of the product, in tests/lint/budget.toml."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath
from runpy import run_path

LINES = run_path(str(Path(__file__).parents[3] / "tests" / "lint" / "lines.py"))


def test_the_product_stays_below_its_ceiling():
    lines, ceiling = sum(LINES["count"](LINES["files_here"]()).values()), LINES["ceiling"]()
    assert lines <= ceiling, (
        f"{lines:,} of {ceiling:,} lines; 'python tests/lint/lines.py' shows the folders"
    )


def test_lines_count_for_folders():
    files = {
        "python/tvmrt/compiler/ir/core/a.py": b"1\n2\n",
        "python/tvmrt/cli/run.py": b"1\n",
        "plugins/mine/src/a.c": b"1\n2\n3\n",
        "plugins/mine/tests/a.py": b"1\n",
        "plugins/mine/docs/a.md": b"1\n",
        "tests/c/a.c": b"1\n",
    }
    found = LINES["count"]((PurePosixPath(name), text) for name, text in files.items())
    assert found == {"python/tvmrt/compiler/ir": 2, "python/tvmrt/cli": 1, "plugins/mine": 3}
    text = LINES["table"](found, Counter({"python/tvmrt/cli": 3}))
    assert "        1       -2  python/tvmrt/cli" in text.splitlines()
