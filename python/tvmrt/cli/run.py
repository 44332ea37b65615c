"""``tvmrt run``: run a compiled network on inputs from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import connections, console, files, onnx_reference, options
from tvmrt.cli.console import format_shape
from tvmrt.compiler.symbols import PACKED_SUFFIX, prefix_of
from tvmrt.units import COUNT

if TYPE_CHECKING:
    import numpy as np

VALUES_SHOWN = 8


@click.command("run", cls=connections.ConnectedCommand)
@click.argument("library", type=options.PATH)
@click.option(
    "--inputs",
    "inputs_file",
    type=options.PATH,
    metavar="IN.npz",
    help="Inputs by name; arrays named out:... are ignored.",
)
@click.option("--random", is_flag=True, help="Use random inputs with a fixed seed.")
@click.option(
    "--outputs",
    "outputs_file",
    type=options.PATH,
    metavar="OUT.npz",
    help="Write the outputs by name to this file.",
)
@click.option(
    "--repeat",
    type=options.Quantity(COUNT, 1),
    default=1,
    show_default=True,
    help="Number of runs; reports their times.",
)
@click.option("--profile", is_flag=True, help="Report the time of every operator.")
@click.option(
    "--threads", type=options.Quantity(COUNT, 1), help="Maximum number of threads for one operator."
)
@console.json_option
def command(
    library: Path, inputs_file: Path | None, random: bool, outputs_file: Path | None, repeat: int,
    profile: bool, threads: int | None, remote: connections.RemoteExecution, as_json: bool,
) -> None:  # fmt: skip
    """Run the compiled network LIBRARY: a .so, a .tar of tvmc compile, or an .elf on a board."""
    from tvmrt.cli.session import Session
    from tvmrt.network.loaded_library import check_compiled

    files.check_file(library)
    if outputs_file:
        files.check_target(outputs_file)
    if not remote.takes(library):
        check_compiled(library)
    if (inputs_file is None) != random:
        end = ", not both" if random else " to make them up"
        raise click.UsageError(f"give the inputs, --inputs IN.npz, or --random{end}")
    inputs = None if inputs_file is None else files.load_inputs(inputs_file)
    session = Session(library, threads, remote_machine=remote.open())
    if inputs is None:
        inputs = onnx_reference.random_inputs(session.largest_inputs())
    outputs = session.run(session.checked_inputs(inputs, str(inputs_file or "the inputs")))
    times = session.time(repeat) if repeat > 1 else []
    operators = session.profile() if profile else []
    if outputs_file:
        files.save_arrays(outputs_file, outputs)
    if as_json:
        console.print_json("run", _as_dict(outputs, times, operators, outputs_file))
    else:
        _print(outputs, times, operators, outputs_file)


def _as_dict(
    outputs: Mapping[str, np.ndarray],
    times: Sequence[float],
    operators: Sequence[Mapping[str, Any]],
    outputs_file: Path | None,
) -> dict[str, Any]:
    described = {
        name: {"dtype": str(value.dtype), "shape": list(value.shape)}
        for name, value in outputs.items()
    }
    if not outputs_file:
        for name, value in outputs.items():
            described[name]["values"] = value.tolist()
    return {"outputs": described, "seconds": list(times), "operators": list(operators)}


def _print(
    outputs: Mapping[str, np.ndarray],
    times: Sequence[float],
    operators: Sequence[Mapping[str, Any]],
    outputs_file: Path | None,
) -> None:
    rows = [
        (name, value.dtype, format_shape(value.shape), _excerpt(value))
        for name, value in outputs.items()
    ]
    columns = ("output", "dtype", "shape", "values")
    console.print_table("outputs", columns, rows, left=columns)
    if outputs_file:
        click.echo(f"wrote {outputs_file}")
    if times:
        ordered, size = sorted(times), len(times)
        shown = {
            "median": median(times), "fastest": ordered[0],
            "p99": ordered[ceil(0.99 * size) - 1], "slowest": ordered[-1],
        }  # fmt: skip
        texts = [f"{name} {console.format_seconds(value)}" for name, value in shown.items()]
        click.echo(f"{size} runs: {', '.join(texts)}")
    if operators:
        _print_profile(operators)


def _excerpt(value: np.ndarray) -> str:
    """Return the first few values."""
    shown = " ".join(
        f"{v:.6g}" if value.dtype.kind == "f" else str(v) for v in value.ravel()[:VALUES_SHOWN]
    )
    return shown + (" ..." if value.size > VALUES_SHOWN else "")


def _own_name(symbol: str) -> str:
    """Return an operator's name without the prefix and the suffix of its symbol."""
    return symbol.removeprefix(f"{prefix_of('default')}_").removesuffix(PACKED_SUFFIX)


def _print_profile(operators: Sequence[Mapping[str, Any]]) -> None:
    total = sum(operator["seconds"] for operator in operators)
    rows = [
        (
            console.shorten(_own_name(o["name"])), o["count"],
            console.format_seconds(o["seconds"]), f"{o['seconds'] / (total or 1.0):.1%}",
        )
        for o in operators
    ]  # fmt: skip
    rows.append(("all", "", console.format_seconds(total), ""))
    console.print_table("operators", ("operator", "calls", "time", "share"), rows, ("operator",))
