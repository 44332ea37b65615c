"""``tvmrt device``: list devices and write the skeleton of a new one; plug-ins add subcommands."""

from __future__ import annotations

from pathlib import Path

import click

from tvmrt.cli import console, options
from tvmrt.cli.known_devices import KnownDevice, described
from tvmrt.cli.plugin_commands import PluginGroup


@click.group("device", cls=PluginGroup)
def command() -> None:
    """List devices, create a skeleton for a new one, or test one."""


@command.command("list")
@console.json_option
def list_devices(as_json: bool) -> None:
    """List the devices known to the compiler, how each gets its regions, and why this machine
    cannot run some of them."""
    rows = described()
    if as_json:
        console.print_json("device-list", {"devices": rows})
        return
    columns = ("device", "layout", "precisions", "description")
    table = [(row.name, row.layout, ", ".join(row.precisions) or "-", _shown(row)) for row in rows]
    console.print_table("devices", columns, table, columns)


def _shown(row: KnownDevice) -> str:
    return row.text if row.absent is None else f"absent: {row.absent}"


@command.command("new")
@click.argument("name")
@click.option("--python", is_flag=True, help="Write the device in Python instead of C.")
@click.option(
    "-o", "--output", type=options.PATH, default=".", show_default=True, metavar="DIR",
    help="Folder in which the device's folder is created.",
)  # fmt: skip
@console.json_option
def new(name: str, python: bool, output: Path, as_json: bool) -> None:
    """Create the folder of a new device NAME: source, build file, README and a passing test."""
    from tvmrt.compiler.devices.skeleton import write_skeleton

    _refuse_taken(name)
    written = write_skeleton(name, output, python)
    if as_json:
        console.print_json("device-new", {"files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(f"wrote {path}")


def _refuse_taken(name: str) -> None:
    from tvmrt.compiler import devices

    for taken in devices.names():
        if taken.replace("_", "-") == name.replace("_", "-"):  # both use the same file names
            raise ValueError(
                f"there is a device {taken} already, and no two may have one name; choose another: "
                "'tvmrt device list' shows those that are taken"
            )
