"""Compare every prototype, struct and constant of TVM's C headers with ours, by the compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tvmrt import libinfo

HERE = Path(__file__).parent
SNAPSHOT = HERE.parent / "abi" / "snapshot"
RELEASES = [f"0.{minor}" for minor in range(8, 19)]

pytestmark = pytest.mark.skipif(sys.maxsize < 2**32, reason="offsets are those of 64 bits")


class DeclarationFact(NamedTuple):
    """A line of interface.txt."""

    kind: str
    releases: str
    header: str
    name: str
    fact: str
    ours: str = ""
    why: str = ""


def rows() -> list[DeclarationFact]:
    lines = (HERE / "interface.txt").read_text().splitlines()
    return [
        DeclarationFact(*line.split(" | ")) for line in lines if line and not line.startswith("#")
    ]


def claim(row: DeclarationFact) -> str:
    """Return the C assertion of the row."""
    fact = row.ours or row.fact
    if row.kind == "constant":
        return f"({row.name}) == ({fact})"
    if row.kind == "struct":
        return f"sizeof({row.name}) == {fact}"
    if row.kind != "member":
        return f"__builtin_types_compatible_p(__typeof__({row.name}), {fact})"
    struct, member = row.name.split(".")
    of_type, offset = fact.rsplit(" at ", 1)
    same = f"__builtin_types_compatible_p(__typeof__((({struct}*)0)->{member}), {of_type})"
    return f"{same} && offsetof({struct}, {member}) == {offset}"


def wrong(compiler: str, given: list[DeclarationFact]) -> list[str]:
    """Return the rows that the compiler rejects."""
    headers = sorted({row.header for row in given if row.kind != "absent"})
    lines = ["#include <stdarg.h>", "#include <stddef.h>"]
    lines += [f"#include <tvm/runtime/{header}>" for header in headers]
    for row in given:
        if row.kind != "absent":
            lines.append(f'_Static_assert({claim(row)}, "{row.header}: {row.name}");')
    command = [compiler, "-std=c11", "-fsyntax-only", "-fmax-errors=0", "-x", "c", "-"]
    command[4:4] = [f"-I{path}" for path in libinfo.find_include_path()]
    if compiler == "clang":
        command.remove("-fmax-errors=0")
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    return [line for line in done.stderr.splitlines() if "error:" in line]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_headers_declare_all_of_tvm(compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    assert wrong(compiler, rows()) == []


def test_differences_are_found():
    """Change a fact of each kind of row."""
    table = {row.name: row for row in rows()}
    changed = {
        "TVMFuncCall": "void(void)",
        "TVMArrayHandle": "void*",
        "DLTensor.ndim": "int32_t at 20",
        "TVMValue": "16",
        "kTVMStr": "12",
    }
    found = wrong("gcc" if shutil.which("gcc") else "cc", [
        table[name]._replace(fact=fact) for name, fact in changed.items()
    ])  # fmt: skip
    for name in changed:
        assert any(name in line for line in found), found
    assert len(found) == len(changed)


def test_rows_are_complete_and_in_form():
    """The table contains everything exported under a TVM name."""
    table = rows()
    for row in table:
        first, last = row.releases.split("-")
        assert RELEASES.index(first) <= RELEASES.index(last), row
        assert bool(row.ours) == bool(row.why), row
    names = {row.name for row in table}
    assert len(names) == len(table)
    exported = set()
    for path in SNAPSHOT.glob("lib*.txt"):
        exported |= set(re.findall(r"\b(TVM\w+|StackMemory\w+|PageMemory\w+)\(", path.read_text()))
    assert exported - names == {"TVMPackedFuncSetLastError"}
    absent = {row.name for row in table if row.kind == "absent"}
    assert not absent & exported
