"""``tvmrt schema``: print the JSON Schemas of the output of ``--json``."""

from __future__ import annotations

import json

import click
from click.shell_completion import CompletionItem

from tvmrt.cli.schemas import description, names, schema

REGIONS = "regions"


def _complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list:
    return [CompletionItem(name) for name in (*names(), REGIONS) if name.startswith(begun)]


@click.command("schema")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=_complete)
def command(name: str | None) -> None:
    """Print the JSON Schema of an output of --json, or the names of all schemas.

    NAME is that of the command: compile, run, device-list. The member "schema" of an output names
    its schema. "regions" is the schema of the text that devices receive.
    """
    if name is None:
        for each in names():
            click.echo(f"{each:<17} {description(each).splitlines()[0]}")
        click.echo(f"{REGIONS:<17} Regions that `tvmrt compile --device` passes to devices.")
    elif name == REGIONS:
        from tvmrt.compiler.devices.region_schema import SCHEMA

        click.echo(json.dumps(SCHEMA, indent=2))
    else:
        click.echo(json.dumps(schema(name), indent=2))
