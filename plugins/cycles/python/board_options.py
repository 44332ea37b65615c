"""The options of ``tvmrt inspect FILE --board NAME``."""

from __future__ import annotations

import click

from tvmrt.cli.options import PATH, Quantity
from tvmrt.units import NUMBER


def _boards(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Return the names of boards with this prefix."""
    from tvmrt.compiler.sdk.codegen import FIRMWARE, board_names

    return [name for name in (*board_names(), *FIRMWARE) if name.startswith(begun)]


OPTIONS = [
    click.Option(
        ["--board"],
        metavar="NAME",
        shell_complete=_boards,
        help="Estimate a run on this board (a family such as nrf52, or a processor) instead: "
        "cycles, time and energy by a model of its core, RAM and flash. QEMU counts the "
        "instructions. FILE is an archive for the board, or a network.",
    ),
    click.Option(
        ["--wait-states"],
        type=Quantity(NUMBER),
        metavar="CYCLES",
        help="With --board: wait states of an uncached flash access. Default: those of the board.",
    ),
    click.Option(
        ["--clock"],
        type=Quantity(NUMBER, above=True),
        metavar="MHZ",
        help="With --board: clock. Default: that of the board.",
    ),
    click.Option(
        ["--picojoules"],
        type=Quantity(NUMBER, above=True),
        metavar="PJ",
        help="With --board: energy per cycle. Default: that of the board, if known.",
    ),
    click.Option(
        ["--scale"],
        type=Quantity(NUMBER, above=True),
        default=1.0,
        metavar="FACTOR",
        help="With --board: ratio of measured to modelled cycles.",
    ),
    click.Option(
        ["--kernels-in-ram"],
        is_flag=True,
        help="With --board: build the kernels with TVMRT_KERNEL_SECTION, so that they run from "
        "RAM.",
    ),
    click.Option(
        ["--port"],
        metavar="LINE",
        help="With --board: read the cycles that the board measures from serial:PATH[:BAUD], and "
        "print them next to the model. The example of a package (compile --format) prints them.",
    ),
    click.Option(
        ["--timing"],
        is_flag=True,
        help="With --board: run with several inputs, compare their instructions, look for branches "
        "on inputs with valgrind, and print an upper bound of the cycles.",
    ),
    click.Option(
        ["--inputs", "inputs_file"],
        type=PATH,
        metavar="IN.npz",
        help="With --board: inputs by name. Default: random inputs.",
    ),
]
