"""``tvmrt doctor``: check this machine, or check files that will be linked together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tvmrt.cli import console, files, options
from tvmrt.cli.describe.object_symbols import ObjectFile, read_objects
from tvmrt.file_suffix import suffix_of

PREFIXES = ("TVM", "tvmgen", "tvmrt_", "__tvm")
LOADED = (".so", ".dylib")  # such files find the runtime in the process that loads them
NO_SUPPLIER = "nothing that tvmrt knows"


@dataclass(frozen=True)
class Finding:
    """One symbol: ``missing`` or ``doubled``, the files that need it, and its suppliers."""

    symbol: str
    state: str
    needed_by: list[str]
    supplied_by: list[str]


@click.command("doctor")
@click.argument("paths", nargs=-1, type=options.PATH, metavar="[FILE...]")
@console.json_option
def command(paths: Sequence[Path], as_json: bool) -> int:
    """Look at this machine, or at files as if they were linked together.

    Without FILE, check versions, the C compiler, the processor, compilers and emulators for
    boards, packages and devices. Missing items are listed with the package to install. The exit
    code is 1 without a C compiler and a kernel pack, because no network can run then.

    With FILE (.so, .o or .a), list each symbol of the ABI or of generated code that no file or
    several files define, the files that need it, and its suppliers. The exit code is then 1.
    Shared libraries on their own are checked together with the runtime that loads them.
    """
    if not paths:
        return _machine(as_json)
    objects: list[ObjectFile] = []
    for path in paths:
        files.check_file(path)
        objects += read_objects(path)
    known = suppliers()
    if all(suffix_of(path) in LOADED for path in paths):
        objects += known["libtvm_runtime.so"]
    findings = examine(objects, known)
    if as_json:
        console.print_json("doctor-files", {"findings": findings})
    elif findings:
        rows = [
            (f.symbol, f.state, ", ".join(f.needed_by) or "-", ", ".join(f.supplied_by))
            for f in findings
        ]
        columns = ["symbol", "state", "needed by", "supplied by"]
        console.print_table("symbols", columns, rows, left=columns)
    else:
        click.echo("no symbol is missing or defined twice")
    return 1 if findings else 0


def _machine(as_json: bool) -> int:
    from tvmrt.cli import environment

    checks = environment.examine()
    if as_json:
        console.print_json("doctor", {"checks": checks})
    else:
        columns = ("item", "state", "found", "remedy")
        rows = [(c.what, c.state, c.found, c.remedy) for c in checks]
        console.print_table("this machine", columns, rows, left=columns)
    return 1 if any(check.state == "missing" for check in checks) else 0


def suppliers() -> dict[str, list[ObjectFile]]:
    """Return the package's libraries, by the name that users link."""
    from tvmrt import libinfo

    names = ("libtvm_backend.a", "libtvm_runtime.so")
    return {name: read_objects(Path(libinfo.find_lib_path(name)[0])) for name in names}


def examine(objects: Sequence[ObjectFile], known: dict[str, Sequence[ObjectFile]]) -> list[Finding]:
    """Return missing symbols, then doubled ones, each in alphabetical order."""
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
    result = [
        library
        for library, objects in known.items()
        if any(name in o.defined or name in o.weak for o in objects)
    ]
    if result:
        return result
    if name.startswith("tvmgen"):
        return ["the other C files of the network"]
    return [NO_SUPPLIER]
