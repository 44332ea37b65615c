"""``tvmrt report``: all data of a network on one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import console, files, options
from tvmrt.cli.option_groups import GroupedCommand

if TYPE_CHECKING:
    from tvmrt.compiler.sdk.export import CompiledLibrary


@click.command(
    "report",
    cls=GroupedCommand,
    rows=(
        "executor", "runtime", "target", "levels", "precision", "board", "devices",
        "device_fallback", "device_options", "operators", "shapes", "dims", "sequences", "params",
        "pools", "place", "cc",
    ),
)  # fmt: skip
@click.argument("model", type=options.PATH)
@click.option(
    "-o", "--output", type=options.PATH, metavar="OUT.html",
    help="HTML page, or OUT.json for the data. Default: the name of MODEL with .html, in the "
        "current folder.",
)  # fmt: skip
@options.inputs_option
@click.option("--no-run", is_flag=True, help="Do not run the network: no times, no C compiler.")
@options.threads
@console.json_option
def command(
    model: Path, output: Path | None, inputs_file: Path | None, no_run: bool, threads: int,
    as_json: bool, **requested: Any,
) -> None:  # fmt: skip
    """Write all data of the network MODEL to one self-contained page.

    It shows the graph, memory over time with its lower bound, and the time of each operator on this
    machine; for boards also flash and stack, for devices the reason why a node is unsupported.
    """
    from tvmrt.plugins.report import page

    files.check_file(model)
    target = output or Path(f"{model.stem}.html")
    page.check_name(target)
    files.check_target(target)
    inputs = None if inputs_file is None else files.load_inputs(inputs_file)
    with console.progress(not as_json) as progress:
        data, sizes = _data(model, requested, threads, inputs, not no_run, progress)
    if output is not None or not as_json:
        with files.writing(target):
            page.write(target, data)
    if as_json:
        console.print_json("report", data)
    else:
        at = {"sizes": sizes} if sizes else {}
        console.print_pairs({"wrote": target, "operators": len(data["operators"]), **at})


def _data(
    model: Path, requested: dict[str, Any], threads: int, inputs: Any, run: bool, progress: Any
) -> tuple[dict[str, Any], str]:
    """Return the data of the report, for boards with code and stack sizes from the C compiler, and
    a text with the sizes that were chosen for dimensions without bounds."""
    from tvmrt.cli import memory_report
    from tvmrt.cli.compile import measure_code
    from tvmrt.compiler.sdk.export import metadata
    from tvmrt.compiler.sdk.pipeline import compile as compile_network
    from tvmrt.compiler.sdk.pipeline import make
    from tvmrt.plugins.report import operator_times
    from tvmrt.plugins.report.network_report import report
    from tvmrt.plugins.report.sizes import compile_at_sizes

    request = make({**requested, "progress": progress}).for_here()

    def compile_for(dims: Mapping[str, Any]) -> CompiledLibrary:
        return compile_network(
            str(model), replace(request, dims={**(request.dims or {}), **dims} or None)
        )

    library, sizes = compile_at_sizes(compile_for, inputs)
    if not library.options.firmware:
        here = run and library.target.hosted
        executor = _executor(library, threads, inputs) if here else None
        peaks = operator_times.layer_peaks(library) if here else None
        return report(library, model.name, executor, peaks).data, sizes
    data = report(library, model.name).data
    costs = measure_code(library, requested["cc"])
    data["footprint"] = memory_report.as_dict(metadata([library])["modules"], costs)
    return data, sizes


def _executor(library: CompiledLibrary, threads: int, inputs: Any) -> Any:
    """Return an executor that has run once."""
    import os

    from tvmrt.cli.session import THREADS_VARIABLE

    os.environ[THREADS_VARIABLE] = str(threads)
    from tvmrt.network.loading import load

    return load(library).warm_executor(**(inputs or {}))
