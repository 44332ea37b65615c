"""Compare the ABI with the snapshot in this folder: symbols, signatures, layouts, constants.

Usage: abi.py [--update] [--compiler CC] [--include FOLDER] [LIBRARY...]

Without names it looks at the headers and libraries of the tvmrt that this Python imports. Types
come from the debug information of one object that includes every public header, so that neither the
compiler nor how the libraries were built is seen. The snapshot is for 64-bit machines;
tests/c/abi_layout.c holds the layouts for others.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import dwarf_types

SNAPSHOT = Path(__file__).with_name("snapshot")
LIBRARIES = ("libtvm_runtime.so", "libtvm_backend.a", "libtvm_firmware.a")
# Symbols that begin with tvmrt__ are internal to one library. Another test checks what a library
# needs from the C library.
PUBLIC = re.compile(r"(?!tvmrt__|_)\w")
SUPPLIED = re.compile(r"TVM|tvmrt_(?!_)")
SIGNATURE = "abi_signature_"
ADVICE = "what may change when, and how to update the snapshot: docs/reference/abi-stability.md"


def public_headers(include: Path) -> list[Path]:
    """Return all public headers except kernels and C++ headers, which are compiled into their
    users."""
    headers = sorted(path.relative_to(include) for path in include.rglob("*.h"))
    other = re.compile(r"^namespace tvm \{|^#include <tvm/runtime/cxx_", re.MULTILINE)
    return [
        path
        for path in headers
        if "kernels" not in path.parts and not other.search((include / path).read_text())
    ]


def _output(*command: str | Path, text: str | None = None) -> str:
    result = subprocess.run(
        list(map(str, command)), input=text, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ValueError(f"{command[0]} failed: {result.stderr.strip()}")
    return result.stdout


def symbols(library: Path) -> tuple[set[str], set[str]]:
    """Return the symbols that the library defines and those that it needs."""
    options = ["-D"] if library.suffix == ".so" else ["-g"]
    defined, needed = set(), set()
    for line in _output("nm", *options, library).splitlines():
        kind, _, name = line[17:].partition(" ")
        (needed if kind in "Uwv" else defined).add(name.split("@")[0])
    return set(filter(PUBLIC.match, defined)), set(filter(SUPPLIED.match, needed - defined))


def constants(compiler: str, include: Path, source: str) -> list[str]:
    """Return the object-like macros of the public headers with their text."""
    headers = [(include / header).read_text() for header in public_headers(include)]
    ours = {name for text in headers for name in re.findall(r"#\s*define (\w+)(?!\w*\()", text)}
    macros = _output(compiler, "-E", "-dM", "-x", "c", f"-I{include}", "-", text=source)
    facts = []
    for name, value in re.findall(r"^#define (\w+) (.+)$", macros, re.MULTILINE):
        if name in ours and not re.search(r"__attribute__|__declspec|extern", value):
            facts.append(f"macro {name} = {' '.join(value.split())}")
    return sorted(facts)


def describe(compiler: str, include: Path, libraries: Iterable[Path]) -> dict[str, list[str]]:
    """Return the facts of the ABI, one line each, by name of the snapshot's file."""
    source = "".join(f"#include <{header}>\n" for header in public_headers(include))
    declared = set(re.findall(r"\b\w+\b", _declarations(compiler, include, source)))
    of_library = {}
    for library in libraries:
        defined, needed = symbols(library)
        of_library[library.name] = defined, needed
    names = sorted({n for pair in of_library.values() for group in pair for n in group})
    undeclared = [name for name in names if name not in declared]
    pointers = "".join(f"__typeof__({n})* {SIGNATURE}{n};\n" for n in names if n in declared)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "all.o")
        # strict: the portable type, where GNU C gets a different one
        options = ["-g", "-std=c11", "-fno-eliminate-unused-debug-types", "-c", f"-I{include}"]
        _output(compiler, *options, "-x", "c", "-", "-o", path, text=source + pointers)
        types = dwarf_types.type_facts(path, include)
        signatures = dwarf_types.pointed_types(path, SIGNATURE)
    signatures.update({name: f"{name}: in no public header" for name in undeclared})
    facts = {"types.txt": types, "constants.txt": constants(compiler, include, source)}
    for name, (defined, needed) in of_library.items():
        lines = [f"defines {signatures[n]}" for n in sorted(defined)]
        facts[f"{name}.txt"] = lines + [f"needs {signatures[n]}" for n in sorted(needed)]
    return facts


def _declarations(compiler: str, include: Path, source: str) -> str:
    return _output(compiler, "-E", "-P", "-x", "c", f"-I{include}", "-", text=source)


def _key(fact: str) -> str:
    """Return the subject of a fact: an equal subject with another text is a change."""
    if fact.startswith(("defines ", "needs ")):
        return " ".join(
            [fact.split(maxsplit=1)[0], *re.findall(r"(\w+)(?=\(| *$|: in no)", fact)[:1]]
        )
    return re.split(r" at |: | = ", fact)[0]


def differences(old: dict[str, list[str]], new: dict[str, list[str]]) -> list[str]:
    """Return one line for each fact that only one side has."""
    found = []
    for name in sorted({*old, *new}):
        gone = {_key(f): f for f in old.get(name, []) if f not in set(new.get(name, []))}
        come = {_key(f): f for f in new.get(name, []) if f not in set(old.get(name, []))}
        for key in sorted({*gone, *come}):
            if key in gone and key in come:
                found.append(
                    f"{name}: changed: {gone[key]}\n{' ' * len(name)}  now:     {come[key]}"
                )
            elif key in gone:
                found.append(f"{name}: removed: {gone[key]}")
            else:
                found.append(f"{name}: added:   {come[key]}")
    return found


def read_snapshot(folder: Path = SNAPSHOT) -> dict[str, list[str]]:
    """Return the committed facts."""
    return {path.name: path.read_text().splitlines() for path in sorted(folder.glob("*.txt"))}


def installed() -> tuple[Path, list[Path]]:
    """Return the headers and the libraries of the package."""
    from tvmrt import libinfo

    libraries = [Path(libinfo.find_lib_path(name)[0]) for name in LIBRARIES]
    return Path(libinfo.find_include_path()[0]).resolve(), libraries


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the snapshot")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--include", type=Path)
    parser.add_argument("libraries", nargs="*", type=Path)
    given = parser.parse_args()
    include, libraries = given.include, given.libraries
    if include is None or not libraries:
        found = installed()
        include, libraries = include or found[0], libraries or found[1]
    facts = describe(given.compiler, include.resolve(), libraries)
    if given.update:
        for name, lines in facts.items():
            (SNAPSHOT / name).write_text("\n".join(lines) + "\n")
        return 0
    kept = {name: lines for name, lines in read_snapshot().items() if name in facts}
    found = differences(kept, facts)
    print("\n".join([*found, ADVICE] if found else ["the ABI equals the snapshot"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
