"""Record which functions each everyday test file runs: ``./run test --record [TEST_FILE...]``.

Each file of tests runs in a process of its own. The map, ``out/tests.json.gz``, has for each
function of Python the tests that run it and its lines that no test runs, and for each C file the
tests that compile it or copy it into generated code. Named files are recorded again, and replace
their part of the map. ``changed.py`` reads it.
"""

from __future__ import annotations

import ast
import dis
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "out" / "tests.json.gz"
MODULE = ""  # the name of the lines outside of functions
SETTINGS = """[run]
parallel = true
data_file = {folder}/lines
include = */tvmrt/*,*/plugins/*
omit = */tests/*
"""


def read_map() -> dict:
    """Return the recorded map; an empty one if there is none."""
    if not MAP.exists():
        return {"seconds": {}, "functions": {}, "files": {}}
    return json.loads(gzip.decompress(MAP.read_bytes()))


def functions(tree: ast.Module) -> dict[int, str]:
    """Return the qualified name of the innermost function whose body a line is in, by line."""
    names: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = f"{name}.{child.name}".lstrip(".") if hasattr(child, "name") else name
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = range(child.body[0].lineno, child.end_lineno + 1)
                names.update(dict.fromkeys(lines, inner))
            visit(child, inner if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else name)

    visit(tree, "")
    return names


def code_lines(code: CodeType) -> Iterator[int]:
    """Yield the lines that have code."""
    yield from (line for _, line in dis.findlinestarts(code) if line)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from list(code_lines(each))[1:]  # the first one is that of its definition


def source_of(path: str) -> str | None:
    """Return the source of an installed or an editable file, relative to the root."""
    place = Path(path)
    if place.is_relative_to(ROOT) and "site-packages" not in place.parts:
        return place.relative_to(ROOT).as_posix()
    for pattern, source in (
        (r".*/site-packages/tvmrt/plugins/(\w+)/(.+)", r"plugins/\1/python/\2"),
        (r".*/site-packages/(tvmrt/.+\.py)", r"python/\1"),
        (r".*/(tvm/runtime/.+\.h)", r"include/\1"),
    ):
        found = re.fullmatch(pattern, place.as_posix())
        if found and (ROOT / found.expand(source)).exists():
            return found.expand(source)
    return None


def record_file(test: str, marks: str) -> tuple[float, dict[str, list[int]], set[str], bool]:
    """Run a file of tests. Return its seconds, lines by source, C files, and whether it passed."""
    from coverage import CoverageData

    with tempfile.TemporaryDirectory() as folder:
        settings, headers, compiled = (
            Path(folder) / name for name in ("rc", "headers", "compiled")
        )
        settings.write_text(SETTINGS.format(folder=folder), encoding="utf-8")
        path = [
            str(ROOT / "tests/selection/startup"),
            *filter(None, [os.environ.get("PYTHONPATH")]),
        ]
        # ccache fails with dependencies as a by-product, so it is left out
        tools = [p for p in os.environ["PATH"].split(os.pathsep) if not p.endswith("/ccache")]
        variables = {
            "PYTHONPATH": os.pathsep.join(path), "COVERAGE_PROCESS_START": str(settings),
            "TVMRT_RECORD_HEADERS": str(headers), "SUNPRO_DEPENDENCIES": str(compiled),
            "PATH": os.pathsep.join(tools),
        }  # fmt: skip
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            marks,
            test,
        ]
        begun = time.perf_counter()
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, check=False
        )
        seconds, lines = round(time.perf_counter() - begun, 1), dict[str, list[int]]()
        for each in Path(folder).glob("lines.*"):
            data = CoverageData(str(each))
            data.read()
            for path in data.measured_files():
                source = source_of(path)
                if source:
                    lines[source] = sorted({*lines.get(source, ()), *(data.lines(path) or ())})
        names = [p.read_text(encoding="utf-8").split() for p in (headers, compiled) if p.exists()]
        files = {source_of(name) for name in {n for each in names for n in each if "/" in n}}
    return seconds, lines, files - {None, *lines}, done.returncode in (0, 5)


@cache
def read_source(source: str) -> tuple[dict[int, str], list[str], list[int]]:
    """Return the functions by line, the text of the lines, and the lines that have code."""
    text = (ROOT / source).read_text(encoding="utf-8")
    lines = sorted({*code_lines(compile(text, source, "exec"))})
    return functions(ast.parse(text)), text.splitlines(), lines


def add(table: dict[str, dict], test: str, lines: dict[str, list[int]]) -> None:
    """Enter the lines that a file of tests ran."""
    for functions in table.values():
        for entry in functions.values():
            entry["tests"] = [each for each in entry["tests"] if each != test]
    for source, reached in lines.items():
        names, rows, code = read_source(source)
        if source not in table:
            table[source] = {n: {"tests": [], "unreached": {}} for n in (MODULE, *names.values())}
            for line in code:
                entry = table[source][names.get(line, MODULE)]
                entry["unreached"][str(line)] = rows[line - 1].strip()
        for name in sorted({names.get(line, MODULE) for line in reached}):
            entry = table[source].setdefault(name, {"tests": [], "unreached": {}})
            entry["tests"].append(test)
            for line in reached:
                entry["unreached"].pop(str(line), None)


def everyday_files(marks: str) -> list[str]:
    """Return the files with tests that these marks select."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", marks]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return sorted({line.partition("::")[0] for line in listed.splitlines() if "::" in line})


def record(tests: Sequence[str], marks: str = "not slow") -> list[str]:
    """Record files of tests, all everyday ones if none is named, and write the map. Return those
    that failed."""
    if not tests:
        MAP.unlink(missing_ok=True)
    known = read_map()
    chosen = list(tests) or everyday_files(marks)
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for test, result in zip(chosen, pool.map(lambda test: record_file(test, marks), chosen)):
            known["seconds"][test], lines, files, passed = result
            known["files"][test] = sorted(files)
            add(known["functions"], test, lines)
            failed += [] if passed else [test]
    MAP.parent.mkdir(exist_ok=True)
    MAP.write_bytes(gzip.compress(json.dumps(known).encode(), mtime=0))
    return failed


if __name__ == "__main__":
    failures = record(sys.argv[1:])
    print(f"{MAP} has the functions that {len(read_map()['seconds'])} files of tests run")
    sys.exit(f"these files failed, and are recorded all the same: {failures}" if failures else 0)
