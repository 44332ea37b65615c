"""``tvmrt inspect``: what is in a file, what it needs, what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import console, files, options


@click.command("inspect")
@click.argument("file", type=options.PATH)
@console.json_option
def command(file: Path, as_json: bool) -> None:
    """Describe FILE: .onnx, .tflite, .so, .tar, .params or .json. Nothing in it is executed."""
    from tvmrt.cli.describe import describe

    files.check_file(file)
    description = describe(file)
    if as_json:
        console.print_json("inspect", {"file": str(file), **description.as_dict()})
        return
    facts = {name: _fact(name, value) for name, value in description.facts.items()}
    console.print_pairs({"file": file, **facts, **description.texts})
    if description.manifest:
        click.echo("\nmanifest")
        console.print_pairs(dict(_lines_of(description.manifest)))
    for title, table in description.tables.items():
        click.echo()
        console.print_table(
            title, table.columns, [list(map(_text, row)) for row in table.rows], table.left
        )


def _lines_of(manifest: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The members of a manifest, those of a member by its name in front."""
    for name, value in manifest.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value:
            yield from _lines_of(value, f"{path}.")
        else:
            size = above == "bytes." and isinstance(value, int)
            yield path, console.format_bytes(value) if size else _text(value) or "not told"


def _fact(name: str, value: Any) -> str:
    return console.format_bytes(value) if name.endswith("bytes") else _text(value)


def _text(value: Any) -> str:
    """Data as people read it: tuples are shapes, lists and dictionaries have commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return console.format_shape(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)
