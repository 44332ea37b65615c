"""``tvmrt weights``: write the weights of a new training for a program that is flashed already."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import console, files, options
from tvmrt.libinfo import __version__


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
    weights, nothing is written.
    """
    files.check_file(model)
    files.check_file(archive)
    files.check_target(output)
    module_name, module = _read(archive)
    library = _compile(model, archive, module_name, module)
    found = f"{library.sources.layout:016x}"
    if found != module["weights"]["layout"]:
        raise ValueError(
            f"{model} needs another program than the one in {archive}, of tvmrt "
            f"{module.get('tvmrt_version')} (this is {__version__}): train and quantise it with "
            "the same layers, scales and zero points, or compile and flash its program"
        )
    with files.writing(output):
        size = library.export_weights(output)
    if as_json:
        row = {"output": str(output), "layout": found, "bytes": size}
        console.print_json("weights", row)
    else:
        console.print_pairs(
            {"wrote": str(output), "weights": f"{size:,} B", "layout": f"0x{found}"}
        )


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and metadata of the archive's network."""
    from tvmrt.cli.archive import METADATA, read_member

    try:
        with tarfile.open(path, "r:") as archive:
            modules = json.loads(read_member(archive, METADATA))["modules"]
            ((name, module),) = modules.items()
            _ = module["weights"]["layout"], module["manifest"]["options"]  # read later
    except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(
            f"{path} is not the archive of one network with replaceable weights; compile the "
            "program's network with its options, its --target and its --module-name to an archive, "
            "with --interface-api c --params file -o NET.tar"
        ) from problem
    return name, module


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
