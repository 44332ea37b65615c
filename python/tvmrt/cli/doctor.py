"""``tvmrt doctor``: what this machine lacks, or files that are linked together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from tvmrt.cli import console, files, options
from tvmrt.cli.describe.objects import ObjectFile, read_objects

PREFIXES = ("TVM", "tvmgen", "tvmrt_", "__tvm")
LOADED = (".so", ".dylib")  # what is only loaded finds the runtime in the process
NOBODY = "nothing that tvmrt knows"


@dataclass(frozen=True)
class Finding:
    """One symbol: ``missing`` or ``doubled``, the files that need it, what supplies it."""

    symbol: str
    state: str
    needed_by: list[str]
    supplied_by: list[str]


@click.command("doctor")
@click.argument("paths", nargs=-1, type=options.PATH, metavar="[FILE...]")
@console.json_option
def command(paths: Sequence[Path], as_json: bool) -> int:
    """Look at this machine, or at files as if they were linked together.

    Without a FILE: versions, the C compiler, the processor, compilers and emulators for boards,
    packages and devices, with what to install where one is absent. Exit code 1 if the C compiler
    is missing, without which nothing is compiled.

    Of libraries (.so), objects (.o) and archives (.a): each symbol of the ABI or of generated code
    that none of them defines, or that more than one does, who needs it and what supplies it. Exit
    code 1 if there is one. Shared libraries alone are looked at beside the runtime that loads them.
    """
    if not paths:
        return _machine(as_json)
    objects: list[ObjectFile] = []
    for path in paths:
        files.check_file(path)
        objects += read_objects(path)
    known = suppliers()
    if all(path.suffix in LOADED for path in paths):
        objects += known["libtvm_runtime.so"]
    findings = examine(objects, known)
    if as_json:
        console.print_json("doctor-files", {"findings": [asdict(finding) for finding in findings]})
    elif findings:
        rows = [
            (f.symbol, f.state, ", ".join(f.needed_by) or "-", ", ".join(f.supplied_by))
            for f in findings
        ]
        columns = ["symbol", "state", "needed by", "supplied by"]
        console.print_table("symbols", columns, rows, left=columns)
    else:
        click.echo("nothing is missing and nothing doubled")
    return 1 if findings else 0


def _machine(as_json: bool) -> int:
    from tvmrt.cli import environment

    checks = environment.examine()
    if as_json:
        console.print_json("doctor", {"checks": [asdict(check) for check in checks]})
    else:
        columns = ("what", "state", "found", "what to do")
        rows = [(c.what, c.state, c.found, c.remedy) for c in checks]
        console.print_table("this machine", columns, rows, left=columns)
    return 1 if any(check.state == "missing" for check in checks) else 0


def suppliers() -> dict[str, list[ObjectFile]]:
    """The package's own libraries, by what to tell the user to link."""
    from tvmrt import libinfo

    names = ("libtvm_backend.a", "libtvm_runtime.so")
    return {name: read_objects(Path(libinfo.find_lib_path(name)[0])) for name in names}


def examine(objects: Sequence[ObjectFile], known: dict[str, Sequence[ObjectFile]]) -> list[Finding]:
    """Missing symbols first, then doubled ones, each in alphabetical order."""
    defined: dict[str, list[str]] = {}
    needed: dict[str, list[str]] = {}
    weak = {name for o in objects for name in o.weak}
    for o in objects:
        for name in o.defined:
            defined.setdefault(name, []).append(o.name)
        for name in o.needed:
            needed.setdefault(name, []).append(o.name)
    missing = [
        Finding(name, "missing", sorted(needed[name]), _sources(name, known))
        for name in _ours(needed)
        if name not in defined and name not in weak
    ]
    doubled = [
        Finding(name, "doubled", sorted(needed.get(name, [])), sorted(defined[name]))
        for name in _ours(defined)
        if len(defined[name]) > 1
    ]
    return [*missing, *doubled]


def _ours(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(PREFIXES))


def _sources(name: str, known: dict[str, Sequence[ObjectFile]]) -> list[str]:
    found = [
        library
        for library, objects in known.items()
        if any(name in o.defined or name in o.weak for o in objects)
    ]
    if found:
        return found
    if name.startswith("tvmgen"):
        return ["the other C files of the network"]
    return [NOBODY]
