"""``tvmrt weights``: write the weights of a new training for a program that is flashed already."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import console, files, options
from tvmrt.libinfo import __version__

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# lines with numbers that follow from the others
_DERIVED = re.compile(r"_CHECKSUM|needs_the_library_of_this_header|\.layout = |TVMGEN_ASSERT")


@click.command("weights")
@click.argument("model", type=options.PATH)
@click.option(
    "--for", "archive", required=True, type=options.PATH, metavar="NET.tar",
    help="Archive of the program, compiled with --params file.",
)  # fmt: skip
@click.option(
    "-o", "--output", required=True, type=options.PATH, metavar="OUT.bin",
    help="File to write: the bytes for tvmgen_<name>_set_weights().",
)  # fmt: skip
@console.json_option
def command(model: Path, archive: Path, output: Path, as_json: bool) -> None:
    """Write the weights of MODEL, a new training of the network in an archive, for its program.

    MODEL is compiled with the options of the archive. If its program differs in more than
    weights, the error shows the first difference, and nothing is written.
    """
    files.check_file(model)
    files.check_file(archive)
    files.check_target(output)
    module_name, module, code = _read(archive)
    library = _compile(model, archive, module_name, module)
    found = f"{library.sources.layout:016x}"
    if found != module["weights"]["layout"]:
        raise ValueError(_difference(model, archive, module, code, library))
    with files.writing(output):
        size = library.export_weights(output)
    if as_json:
        row = {"output": str(output), "layout": found, "bytes": size}
        console.print_json("weights", row)
    else:
        console.print_pairs(
            {"wrote": str(output), "weights": f"{size:,} B", "layout": f"0x{found}"}
        )


def _read(path: Path) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return the name and metadata of the archive's network, and its C texts by file name."""
    from tvmrt.cli.describe.archive import METADATA, read_member

    try:
        with tarfile.open(path, "r:") as archive:
            modules = json.loads(read_member(archive, METADATA))["modules"]
            names = [each.name for each in archive.getmembers() if each.name.endswith((".c", ".h"))]
            code = {
                Path(name).name: read_member(archive, name).decode()
                for name in names
                if "codegen/host/" in name
            }
            ((name, module),) = modules.items()
            _ = module["weights"]["layout"], module["manifest"]["options"]  # read later
    except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(
            f"{path} is not the archive of one network with replaceable weights; compile the "
            "program's network with its options, its --target and its --module-name to an archive, "
            "with --interface-api c --params file -o NET.tar"
        ) from problem
    return name, module, code


def _compile(model: Path, archive: Path, name: str, module: dict[str, Any]) -> Any:
    """Compile the network with the options of the archive."""
    from tvmrt.compiler.pipeline import compile

    chosen = {key: _restored(value) for key, value in module["manifest"]["options"].items()}
    if "board" not in chosen:
        chosen["target"] = str(module["manifest"].get("target"))
    try:
        return compile(str(model), module_name=name, **chosen)
    except TypeError as problem:
        raise ValueError(
            f"{archive} was compiled with options that this version of tvmrt does not have: "
            f"{problem}; use the version that compiled it, {module.get('tvmrt_version')}"
        ) from problem


def _restored(value: Any) -> Any:
    """Return an option's value from JSON, which has no tuples."""
    if isinstance(value, list):
        return tuple(_restored(each) for each in value)
    if isinstance(value, dict):
        return {key: _restored(each) for key, each in value.items()}
    return value


def _difference(
    model: Path, archive: Path, module: dict[str, Any], code: dict[str, str], library: Any
) -> str:
    """Return the error text for a network whose program differs from the archive's."""
    head = f"{model} needs another program than the one in {archive}: "
    if module.get("tvmrt_version") != __version__:
        return (
            f"{head}tvmrt {module.get('tvmrt_version')} compiled it, and this is {__version__}; "
            "use the version that compiled it"
        )
    from tvmrt.compiler.export.model_library_format import source_files

    ours = source_files(library)
    for name in sorted(ours, key=lambda name: (name.endswith(".h"), name.endswith("_lib0.c"))):
        old, new = list(_statements(code.get(name, ""))), list(_statements(ours[name]))
        for (line, where), (other, _) in zip(old, new):
            if line != other:
                return (
                    f"{head}{where} has '{line}', and the new network needs '{other}'; train and "
                    "quantise it with the same layers, scales and zero points, or flash its program"
                )
    return f"{head}they have other layers; compile and flash its program"


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of C text without comments, each with the function that contains it."""
    where = "its code"
    for row in _COMMENT.sub("", text).splitlines():
        line = row.strip()
        start = re.match(r"(?:static |inline |const )*\w+ \**(\w+)(?:\(| = \{)", row)
        where = start[1] if start else where
        if line and not _DERIVED.search(line):
            yield line, where
