"""``tvmrt profile``: time of each operator of a network, as a table and as a trace."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import console, files, options
from tvmrt.cli.option_groups import GroupedCommand
from tvmrt.compiler.codegen.target import UNHOSTED
from tvmrt.units import COUNT

if TYPE_CHECKING:
    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.plugins.report.trace import Run


@click.command(
    "profile",
    cls=GroupedCommand,
    rows=(
        "executor", "target", "levels", "precision", "devices", "device_fallback",
        "device_options", "operators", "shapes", "dims", "sequences", "cc",
    ),
)  # fmt: skip
@click.argument("model", type=options.PATH)
@options.inputs_option
@click.option(
    "--runs", type=options.Quantity(COUNT, 1), default=20, show_default=True,
    help="Number of runs; the table shows the median of each operator.",
)  # fmt: skip
@click.option(
    "--trace", "trace_file", type=options.PATH, metavar="OUT.json",
    help="Write a trace for ui.perfetto.dev or chrome://tracing.",
)  # fmt: skip
@options.threads
@console.json_option
def command(
    model: Path, inputs_file: Path | None, runs: int, trace_file: Path | None, threads: int,
    as_json: bool, **requested: Any,
) -> None:  # fmt: skip
    """Time every operator of the network MODEL: an .onnx, a .tflite, or a compiled .so.

    For a library only function names are known; for a network also each operator, its nodes and its
    device.
    """
    from tvmrt.plugins.report.trace import chrome_trace

    files.check_file(model)
    if trace_file is not None:
        files.check_target(trace_file)
    if requested["target"] in UNHOSTED:
        raise click.UsageError(
            "this machine cannot profile boards; use 'tvmrt compile --profile' and 'tvmrt replay'"
        )
    inputs = {} if inputs_file is None else files.load_inputs(inputs_file)
    from tvmrt.cli.session import THREADS_VARIABLE

    os.environ[THREADS_VARIABLE] = str(threads)
    with console.progress(not as_json) as progress:
        executor, operators = _prepare(model, inputs, progress, requested)
    timed = _time_runs(executor, runs)
    if trace_file is not None:
        import json

        files.save_text(trace_file, json.dumps(chrome_trace(model.name, timed, operators, threads)))
    rows = _rows(timed, operators)
    if as_json:
        console.print_json("profile", {"runs": runs, "threads": threads, "operators": rows})
    else:
        _print(rows, trace_file)


def _prepare(
    model: Path, inputs: dict[str, Any], progress: Any, requested: dict[str, Any]
) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Return an executor that has run, and the known data of its operators by symbol."""
    from tvmrt.network.loading import load
    from tvmrt.plugin import is_network

    if not is_network(model):
        return load(model).warm_executor(**inputs), {}
    from tvmrt.compiler.pipeline import compile as compile_network
    from tvmrt.plugins.report.sizes import compile_at_sizes

    def compile_for(dims: Mapping[str, Any]) -> CompiledLibrary:
        more = {**requested, "dims": {**(requested["dims"] or {}), **dims}}
        return compile_network(str(model), progress=progress, **more)

    library, _ = compile_at_sizes(compile_for, inputs)
    return load(library).warm_executor(**inputs), _known(library, model.name)


def _known(library: CompiledLibrary, name: str) -> dict[str, dict[str, Any]]:
    from tvmrt.plugins.report.collect import collect
    from tvmrt.plugins.report.timing import names_of

    result: dict[str, dict[str, Any]] = {}
    for each in collect(library, name)["operators"]:
        row = {
            "name": each["name"], "device": each["device"], "operator": each["op"],
            "nodes": each["onnx_nodes"], "macs": each["macs"],
        }  # fmt: skip
        result.update({key: row for key in names_of(each)})
    return result


def _time_runs(executor: Any, runs: int) -> list[Run]:
    from tvmrt.plugins.report.trace import Run

    timed = []
    for _ in range(runs):
        begin = time.perf_counter()
        calls = executor.profile().calls
        timed.append(Run(begin, time.perf_counter(), calls))
    return timed


def _rows(timed: list[Run], operators: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each operator with its median time in seconds, in execution order."""
    rows = []
    for index, call in enumerate(timed[0].calls):
        seconds = median(run.calls[index]["seconds"] for run in timed)
        known = operators.get(call["name"], {"name": call["name"]})
        rows.append({**known, "function": call["name"], "seconds": seconds})
    return rows


def _print(rows: list[dict[str, Any]], trace_file: Path | None) -> None:
    total = sum(row["seconds"] for row in rows)
    table = [
        (
            console.shorten(row["name"]), row.get("operator", ""), row.get("device", ""),
            console.format_seconds(row["seconds"]), f"{row['seconds'] / (total or 1.0):.1%}",
            f"{2e-9 * row['macs'] / row['seconds']:.1f}" if row.get("macs") else "",
        )
        for row in sorted(rows, key=lambda row: -row["seconds"])
    ]  # fmt: skip
    table.append(("all", "", "", console.format_seconds(total), "", ""))
    columns = ("name", "operator", "device", "time", "share", "GFLOP/s")
    console.print_table("operators", columns, table, left=columns[:3])
    if trace_file is not None:
        click.echo(f"wrote {trace_file}; open it at https://ui.perfetto.dev")
