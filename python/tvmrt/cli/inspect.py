"""``tvmrt inspect``: what is in a file, what it needs, what it costs."""

from __future__ import annotations

from pathlib import Path

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
        console.print_json({"file": str(file), **description.as_dict()})
        return
    console.print_pairs({"file": file, **{k: _fact(k, v) for k, v in description.facts.items()}})
    for title, table in description.tables.items():
        click.echo()
        console.print_table(title, table.columns, table.rows, table.left)


def _fact(name: str, value) -> str:
    return console.format_bytes(value) if name.endswith("bytes") else str(value)
