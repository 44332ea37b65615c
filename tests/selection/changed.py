"""Run the tests that reach changed lines: ``./run test --changed [BASE] [PYTEST_ARGUMENTS]``.

Changes are those of the working tree against BASE, a revision (HEAD). The everyday tests that run
a changed function are run, fastest first, with changed tests, and the C tests if C changed. Changed
lines that no everyday test runs are named. The map of functions is what ``record.py`` wrote;
without it, the tests nearest to the changed files are run.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from packages import nearest
from record import MAP, MODULE, ROOT, functions, read_map

PRODUCT = ("include/", "plugins/", "python/", "src_backend/", "src_runtime/")


@dataclass
class Selection:
    """Tests of the changes, and remarks on changed lines that no test reaches."""

    tests: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)
    c_tests: bool = False


def git(*arguments: str) -> str:
    """Return what git prints. Exit with its error."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)} fails: {done.stderr.strip()}")
    return done.stdout


def changes(base: str) -> Iterator[tuple[str, list[tuple[int, int, list[str]]]]]:
    """Yield each changed file with its hunks: first new line, number of new lines, old lines."""
    for name in git("ls-files", "--others", "--exclude-standard").splitlines():
        yield name, []
    for part in git("diff", "-U0", "--no-renames", "--no-ext-diff", base).split("diff --git ")[1:]:
        name = re.search(r"^\+\+\+ b/(.+)$", part, re.MULTILINE)
        hunks = re.split(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@.*\n", part, flags=re.MULTILINE)[1:]
        if name:
            yield (
                name[1],
                [
                    (int(begin), int(count or 1), re.findall(r"^-(.*)", text, re.MULTILINE))
                    for begin, count, text in zip(hunks[::3], hunks[1::3], hunks[2::3])
                ],
            )


def select_python(source: str, hunks: Sequence, entry: dict, selection: Selection) -> None:
    """Add the tests of the functions of changed lines, and remarks on lines without a test."""
    rows = (ROOT / source).read_text(encoding="utf-8").splitlines()
    names = functions(ast.parse("\n".join(rows)))
    for begin, count, old in hunks:
        # where lines were only deleted or added, the line before them says whether it is reached
        lines = range(begin, begin + count) if count else [max(begin, 1)]
        texts = [each.strip() for each in old] or [rows[max(begin - 2, 0)].strip()]
        for name in dict.fromkeys(names.get(line, MODULE) for line in lines):
            known = entry.get(name)
            tests = known["tests"] if known and name != MODULE else []
            # a table outside of functions is used by the functions of its file
            selection.tests.update(tests or (t for each in entry.values() for t in each["tests"]))
            unreached = list(known["unreached"].values()) if known else []
            if known and not tests and name != MODULE:
                reason = f"no everyday test runs {name}"
            elif any(text in unreached for text in texts):
                reason = "no everyday test runs this line"
            elif not known:
                reason = f"{name} is not in the map"
            else:
                continue
            first = next(line for line in lines if names.get(line, MODULE) == name)
            selection.remarks.append(f"{source}:{first}: {reason}: {rows[first - 1].strip()}")


def select(base: str, map: dict) -> Selection:
    """Return the tests of the changes since a revision."""
    selection = Selection()
    for name, hunks in changes(base):
        if fnmatch(name, "tests/*/test_*.py") or fnmatch(name, "plugins/*/tests/test_*.py"):
            selection.tests.add(name)
            continue
        if (
            not name.startswith(PRODUCT)
            or "/tests/" in name
            or not name.endswith((".py", ".c", ".h"))
        ):
            continue
        entry = map["functions"].get(name)
        compiled = [test for test, files in map["files"].items() if name in files]
        if entry and hunks:
            select_python(name, hunks, entry, selection)
            continue
        selection.tests.update(compiled)
        selection.c_tests |= not name.endswith(".py")
        if not compiled:
            near = nearest(name)
            selection.tests.update(near)
            what = "no everyday test is known to use this file"
            selection.remarks.append(
                f"{name}: {what}; {len(near)} files of tests are nearest to it"
            )
    return selection


def main(arguments: Sequence[str]) -> int:
    named = bool(arguments) and not arguments[0].startswith("-")
    base, options = (arguments[0], arguments[1:]) if named else ("HEAD", arguments)
    map = read_map()
    if not MAP.exists():
        where = MAP.relative_to(ROOT)
        print(f"there is no {where}, so the nearest tests are run; './run test --record' makes it")
    selection = select(base, map)
    tests = [test for test in selection.tests if (ROOT / test).exists()]
    tests.sort(key=lambda test: (map["seconds"].get(test, 0), test))
    for remark in selection.remarks:
        print(remark)
    seconds = sum(map["seconds"].get(test, 0) for test in tests)
    print(f"files of tests for the changes since {base}: {len(tests)}, {seconds:.0f} s", flush=True)
    code = 0
    if selection.c_tests:
        code = subprocess.run([ROOT / "run", "test", "tests/c"], check=False).returncode
    if not tests:
        return code
    marks = ["-m", "not slow"] if MAP.exists() else ["-m", "not slow or extended"]
    command = [sys.executable, "-m", "pytest", *marks, *options, *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode or code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
