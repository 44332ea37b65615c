"""``tvmrt compile``: an ONNX file to a shared library, an archive, or a folder of C sources."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import console, files, options, partition_tables

FILE_SUFFIXES = (".so", ".tar", ".dylib", ".dll")  # anything else becomes a folder


@click.command("compile")
@click.argument("model", type=options.PATH)
@click.option(
    "-o",
    "--output",
    required=True,
    type=options.PATH,
    help="OUT.so (shared library), OUT.tar (Model Library Format) or a folder (C sources).",
)
@click.option(
    "--executor",
    type=click.Choice(["graph", "aot"]),
    help="Run by the runtime from a graph, or by one generated function (ahead of time). "
    "Default: graph; aot for a board.",
)
@click.option(
    "--interface-api",
    type=click.Choice(["packed", "c"]),
    default="packed",
    show_default=True,
    help="How a program calls the network: by packed functions, or by a plain C function.",
)
@click.option("--unpacked-api", is_flag=True, help="Call operators with plain pointers.")
@click.option(
    "--runtime",
    type=click.Choice(["host", "crt"]),
    help="Runtime on the target: with an operating system (host) or without (crt). "
    "Default: host; crt for a board.",
)
@options.target
@options.device
@click.option(
    "--require-device",
    multiple=True,
    metavar="NAME[:OPERATOR][,...]",
    help="Fail where this device takes nothing, or not every ONNX node of the operator: dnnl:Conv.",
)
@click.option(
    "--device-fallback",
    is_flag=True,
    help="Let the CPU compute what a device fails to: its code for each region goes in, too.",
)
@click.option(
    "--device-option",
    "device_options",
    multiple=True,
    metavar="NAME:KEY=VALUE",
    help="An option for a device; see the device's own page.",
)
@options.operators
@options.shape
@click.option(
    "--params",
    type=click.Choice(["embed", "file", "flash"]),
    help="Where the weights go: into the library, a file beside it, or C arrays. "
    "Default: embed; flash for a board.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="NAME=BYTES",
    help="A memory that the program lends for intermediate values, and its size.",
)
@click.option(
    "--module-name",
    default="default",
    show_default=True,
    help="Name of the network in the library, and part of its C names.",
)
@click.option(
    "--profile", is_flag=True, help="Let a board's network count the cycles of its operators."
)
@click.option(
    "--record",
    is_flag=True,
    help="Let a board's network note digests of all tensors, for tvmrt replay.",
)
@click.option(
    "--trace-records",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many records of these two are kept. Default: those of one run.",
)
@options.c_compiler
@click.option(
    "--dump", type=options.PATH, metavar="DIR", help="Write the graph after every step here."
)
@click.option(
    "--explain",
    is_flag=True,
    help="Show every generated function, its work, and the nodes it is made of; with --device, "
    "for every node which device has it, or why not.",
)
@click.option(
    "--memory-plan",
    type=options.PATH,
    metavar="FILE.svg",
    help="Draw which tensor lies where in memory at which step.",
)
@console.json_option
def command(
    model: Path,
    output: Path,
    shapes: tuple,
    pools: tuple,
    devices: tuple,
    require_device: tuple,
    device_options: tuple,
    dump: Path | None,
    memory_plan: Path | None,
    explain: bool,
    as_json: bool,
    **choices: Any,
) -> None:
    """Compile the ONNX network MODEL."""
    from tvmrt.pipeline import compile as compile_network

    files.check_file(model)
    (files.check_target if output.suffix in FILE_SUFFIXES else files.check_target_folder)(output)
    if memory_plan:
        files.check_target(memory_plan)
    start = time.perf_counter()
    with console.progress(not as_json) as report:
        library = compile_network(
            str(model),
            shapes=options.parse_shapes(shapes),
            pools=options.parse_pools(pools),
            devices=options.parse_names(devices),
            require_device=options.parse_names(require_device),
            device_options=options.parse_device_options(device_options),
            dump_dir=str(dump) if dump else None,
            explain=explain,
            progress=report,
            **choices,
        )
        with files.writing(output):
            library.export(str(output))
    seconds = time.perf_counter() - start
    summary = library.summary
    if memory_plan:
        from tvmrt.cli import memory_picture

        files.save_text(memory_plan, memory_picture.svg(memory_picture.of_summary(summary)))
    if as_json:
        console.print_json({"output": str(output), "seconds": seconds, **as_dict(summary)})
        return
    if explain:
        _print_operators(summary)
    if explain and devices:
        partition_tables.print_partition(summary)
    _print_result(output, seconds, summary)


def as_dict(summary: Any) -> dict[str, Any]:
    """Return a summary as plain dictionaries and lists."""
    import dataclasses

    return dataclasses.asdict(summary)


def _print_operators(summary: Any) -> None:
    rows = [
        (
            operator.name,
            operator.op,
            console.format_shape(operator.out_shape),
            f"{operator.macs:,}",
            ", ".join(operator.onnx_nodes),
        )
        for operator in summary.operators
    ]
    columns = ("function", "operator", "result", "multiply-adds", "made of nodes")
    left = ("function", "operator", "result", "made of nodes")
    console.print_table("operators", columns, rows, left)


def _print_result(output: Path, seconds: float, summary: Any) -> None:
    size = console.format_bytes
    regions = {"regions": partition_tables.border_text(summary)} if summary.regions else {}
    console.print_pairs(
        {
            "wrote": f"{output} in {console.format_seconds(seconds)}",
            "operators": len(summary.operators),
            **regions,
            "weights": size(summary.weights_bytes),
            "memory": f"{size(summary.arena_bytes)} for tensors; "
            f"no plan can do with less than {size(summary.lower_bound_bytes)}",
            "scratch": f"{size(summary.scratch_bytes)} a thread",
        }
    )
