"""Limits of the lengths of functions, files and the documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
LONGEST_FUNCTION = 60  # lines, with signature and documentation
LONGEST_FILE = 500
MOST_WORDS = 42_000  # of all pages but generated references, and tables that scripts write
WRITTEN_TABLE = re.compile(r"<!-- \w+ -->\n\n?\|.*?<!-- end -->", re.DOTALL)
LONGEST_README = 130
PRODUCT = ("include", "src_backend", "src_runtime", "python", "plugins")
# In this code style functions begin and end in the first column; other blocks end differently.
HEAD = re.compile(r"[A-Za-z_].*\(.*[^;}]$")


def _files(*suffixes: str) -> list[Path]:
    return [
        path
        for top in PRODUCT
        for path in sorted((ROOT / top).rglob("*"))
        if path.suffix in suffixes and not {"build", "tests"} & {*path.relative_to(ROOT).parts}
    ]


def _python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def _c_functions(path: Path) -> Iterator[tuple[str, int]]:
    head, first, has_body = "", 0, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if HEAD.match(line):
            head, first, has_body = line, number, False
        has_body |= line.endswith("{")
        if line == "}" and head and has_body:
            yield head, number - first + 1
        if line in ("}", "};") or (line.endswith(";") and not has_body):
            head = ""


def test_functions_are_short():
    found = [(path, *one) for path in _files(".py") for one in _python_functions(path)]
    found += [(path, *one) for path in _files(".c", ".h") for one in _c_functions(path)]
    assert len(found) > 7000  # both kinds are found
    long = [
        f"{path.relative_to(ROOT)}: {name}: {lines}"
        for path, name, lines in found
        if lines > LONGEST_FUNCTION
    ]
    assert long == []


def test_files_are_short():
    files = _files(".py", ".c", ".h", ".js")
    lines = {path: path.read_text().count("\n") for path in files}
    long = [f"{path.relative_to(ROOT)}: {n}" for path, n in lines.items() if n > LONGEST_FILE]
    assert long == []


def test_documentation_is_short():
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("plugins/*/docs/*.md")]
    assert len(pages) > 60
    texts = [WRITTEN_TABLE.sub("", page.read_text(encoding="utf-8")) for page in pages]
    assert sum(len(text.split()) for text in texts) <= MOST_WORDS
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= LONGEST_README
