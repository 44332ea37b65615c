"""C files call each other's functions in one direction: no cycles but the allowed ones.

test_c_includes.py sees the folders of includes only, not calls between files of one folder.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
# The head of a function with external linkage, at the beginning of a line.
DEFINITION = re.compile(r"^(?!static)[A-Za-z_][\w \*\n]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)

# Files that must call each other, and why.
ALLOWED = {
    "a module tree contains modules of kinds, whose loaders load module trees": {
        "src_runtime/modules/binary_loaders.c",
        "src_runtime/modules/library.c",
        "src_runtime/modules/loader.c",
        "src_runtime/modules/mblob.c",
    },
    "a look-up loads the plug-in that has the function, which registers it": {
        "src_runtime/core/plugins.c",
        "src_runtime/core/registry.c",
    },
}


def sources() -> dict[str, str]:
    """Return the C files of the runtime and of plug-ins."""
    paths = [*ROOT.glob("src_runtime/**/*.c"), *ROOT.glob("plugins/*/src/**/*.c")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def calls_of(texts: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return by file the files whose functions it names, with one name for each.

    Functions with a definition for each system are left out.
    """
    texts = {file: COMMENT_OR_TEXT.sub("", text) for file, text in texts.items()}
    owners: dict[str, set[str]] = {}
    for file, text in texts.items():
        for name in DEFINITION.findall(text):
            owners.setdefault(name, set()).add(file)
    calls: dict[str, dict[str, str]] = {file: {} for file in texts}
    for file, text in texts.items():
        for name in sorted(set(re.findall(r"\w+", text))):
            if len(owners.get(name, ())) == 1 and file not in owners[name]:
                calls[file].setdefault(next(iter(owners[name])), name)
    return calls


def cycles_of(calls: dict[str, dict[str, str]]) -> list[set[str]]:
    """Return the sets of files that reach each other."""
    reached = {}
    for file in calls:
        seen, waiting = set(), [file]
        while waiting:
            new = calls[waiting.pop()].keys() - seen
            seen |= new
            waiting += new
        reached[file] = seen
    found = []
    for file in sorted(calls):
        cycle = {other for other in reached[file] if file in reached[other]}
        if cycle and cycle not in found:
            found.append(cycle)
    return found


def test_files_call_in_one_direction():
    calls = calls_of(sources())
    assert len(calls) > 100
    problems = [
        f"{a} calls {calls[a][b]}() of {b}"
        for cycle in cycles_of(calls)
        if cycle not in ALLOWED.values()
        for a in sorted(cycle)
        for b in sorted(cycle & calls[a].keys())
    ]
    assert problems == [], "these files call each other: " + "; ".join(problems)


def test_allowed_cycles_exist():
    cycles = cycles_of(calls_of(sources()))
    assert [why for why, files in ALLOWED.items() if files not in cycles] == []


def test_a_cycle_of_three_files_is_found():
    texts = {
        "a.c": "int first(void) { return second(); }",
        "b.c": "static int own(void) { return third(1); }\nint second(void) { return own(); }",
        "c.c": "int third(\n    int x) {\n  return x == 0 ? 0 : first();\n}",
        "d.c": 'int last(void) { return first(); /* as second() */ }\nconst char* text = "third";',
    }
    calls = calls_of(texts)
    assert calls["d.c"] == {"a.c": "first"}
    assert cycles_of(calls) == [{"a.c", "b.c", "c.c"}]
