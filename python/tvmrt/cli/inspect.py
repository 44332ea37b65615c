"""``tvmrt inspect``: describe the contents, requirements and costs of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tvmrt import plugin
from tvmrt.cli import console, files, options
from tvmrt.units import NUMBER


@click.command("inspect")
@click.argument("file", type=options.PATH)
@click.option(
    "--board",
    metavar="NAME",
    shell_complete=lambda _c, _o, begun: complete_board(begun),
    help="Estimate a run on this board (a family such as nrf52, or a processor) instead: "
    "cycles, time and energy by a model of its core, RAM and flash. QEMU counts the "
    "instructions. FILE is an archive for the board, or a network.",
)
@click.option(
    "--wait-states",
    type=options.Quantity(NUMBER),
    metavar="CYCLES",
    help="With --board: wait states of an uncached flash access. Default: those of the board.",
)
@click.option(
    "--clock",
    type=options.Quantity(NUMBER, above=True),
    metavar="MHZ",
    help="With --board: clock. Default: that of the board.",
)
@click.option(
    "--picojoules",
    type=options.Quantity(NUMBER, above=True),
    metavar="PJ",
    help="With --board: energy per cycle. Default: that of the board, if known.",
)
@click.option(
    "--scale",
    type=options.Quantity(NUMBER, above=True),
    default=1.0,
    metavar="FACTOR",
    help="With --board: ratio of measured to modelled cycles.",
)
@click.option(
    "--kernels-in-ram",
    is_flag=True,
    help="With --board: build the kernels with TVMRT_KERNEL_SECTION, so that they run from RAM.",
)
@click.option(
    "--timing",
    is_flag=True,
    help="With --board: run with several inputs, compare their instructions, look for branches on "
    "inputs with valgrind, and print an upper bound of the cycles.",
)
@click.option(
    "--inputs",
    "inputs_file",
    type=options.PATH,
    metavar="IN.npz",
    help="With --board: inputs by name. Default: random inputs.",
)
@click.option(
    "-o", "--output", type=options.PATH, metavar="OUT.html",
    help="With --board: write a self-contained HTML page, or OUT.json for the data.",
)  # fmt: skip
@console.json_option
def command(
    file: Path,
    board: str | None,
    wait_states: float | None,
    clock: float | None,
    picojoules: float | None,
    scale: float,
    kernels_in_ram: bool,
    timing: bool,
    inputs_file: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Describe FILE: .onnx, .tflite, .so, .tar, .params or .json.

    No code in it is executed, except with --board."""
    from tvmrt.cli.describe import describe

    files.check_file(file)
    if board is not None:
        tell = plugin.hook("inspect board", "inspect --board")
        tell(
            file, output, as_json, board=board, wait_states=wait_states, clock=clock,
            picojoules=picojoules, scale=scale, inputs_file=inputs_file,
            kernels_in_ram=kernels_in_ram, timing=timing,
        )  # fmt: skip
        return
    board_options = (wait_states, clock, picojoules, inputs_file, output)
    flags = scale != 1 or kernels_in_ram or timing
    if flags or any(each is not None for each in board_options):
        raise click.UsageError(
            "--wait-states, --clock, --picojoules, --scale, --kernels-in-ram, --timing, --inputs "
            "and --output are for --board"
        )
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


def complete_board(begun: str) -> list[str]:
    """Return the names of boards with this prefix."""
    from tvmrt.compiler.codegen.mcu_families import board_names
    from tvmrt.compiler.codegen.target import FIRMWARE

    return [name for name in (*board_names(), *FIRMWARE) if name.startswith(begun)]


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
