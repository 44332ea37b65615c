"""``tvmrt inspect``: describe the contents, requirements and costs of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tvmrt import plugin
from tvmrt.cli import console, files, options

ESTIMATE = "inspect board"  # the hook


class InspectCommand(click.Command):
    """The command, with the options of the plug-in that estimates runs on boards."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; those of the plug-in come last."""
        estimate = plugin.find("hooks", ESTIMATE)
        return [*super().get_params(ctx), *(() if estimate is None else estimate.OPTIONS)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; the error for --board names an unused plug-in that has it."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            reason = plugin.why_missing("hooks", ESTIMATE)
            if error.option_name == "--board" and reason:
                raise click.UsageError(reason, ctx) from error
            raise


@click.command("inspect", cls=InspectCommand)
@click.argument("file", type=options.PATH)
@console.json_option
def command(file: Path, as_json: bool, **estimate_options: Any) -> None:
    """Describe FILE: .onnx, .tflite, .so, .tar, .params or .json.

    No code in it is executed, except with --board."""
    from tvmrt.cli.describe import describe

    files.check_file(file)
    source = click.get_current_context().get_parameter_source
    if any(source(name) is not ParameterSource.DEFAULT for name in estimate_options):
        plugin.find("hooks", ESTIMATE).report(file, as_json, **estimate_options)
        return
    description = describe(file)
    if as_json:
        console.print_json("inspect", {"file": str(file), **description.as_dict()})
        return
    properties = {name: _fact(name, value) for name, value in description.properties.items()}
    console.print_pairs({"file": file, **properties, **description.texts})
    if description.manifest:
        click.echo("\nmanifest")
        console.print_pairs(dict(_lines_of(description.manifest)))
    for title, table in description.tables.items():
        click.echo()
        console.print_table(
            title, table.columns, [list(map(_text, row)) for row in table.rows], table.left
        )


def _lines_of(manifest: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the members of a manifest; nested members have their parent's name as prefix."""
    for name, value in manifest.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value:
            yield from _lines_of(value, f"{path}.")
        else:
            size = above == "bytes." and isinstance(value, int)
            yield path, console.format_bytes(value) if size else _text(value) or "unknown"


def _fact(name: str, value: Any) -> str:
    return console.format_bytes(value) if name.endswith("bytes") else _text(value)


def _text(value: Any) -> str:
    """Format data for people: tuples as shapes, lists and dictionaries with commas."""
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
