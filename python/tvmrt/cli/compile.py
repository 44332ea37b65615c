"""``tvmrt compile``: an ONNX file to a shared library, an archive, or a folder of C sources."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import console, files, options


@click.command("compile")
@click.argument("model", type=options.PATH)
@click.option(
    "-o",
    "--output",
    required=True,
    type=options.PATH,
    help="OUT.so (shared library), OUT.tar (Model Library Format) or a folder (C sources).",
)
@click.option("--executor", type=click.Choice(["graph", "aot"]), default="graph", show_default=True)
@click.option(
    "--interface-api",
    type=click.Choice(["packed", "c"]),
    default="packed",
    show_default=True,
    help="How a program calls the network.",
)
@click.option("--unpacked-api", is_flag=True, help="Call operators with plain pointers.")
@click.option(
    "--runtime",
    type=click.Choice(["host", "crt"]),
    default="host",
    show_default=True,
    help="Runtime on the target: with an operating system (host) or without (crt).",
)
@click.option(
    "--target",
    default="native",
    show_default=True,
    help="native (this machine), host (any of its kind), cortex-m4, cortex-m55, riscv32.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Devices that may take parts of the network, in order of preference.",
)
@click.option(
    "--require-device",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Fail where one of these takes nothing.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="INPUT=DIM,...",
    help="Shape of an input whose dimensions the file leaves open.",
)
@click.option(
    "--params",
    type=click.Choice(["embed", "file", "flash"]),
    default="embed",
    show_default=True,
    help="Where the weights go.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="NAME=BYTES",
    help="A memory that the plan may use, and its size.",
)
@click.option("--module-name", default="default", show_default=True)
@click.option("--cc", help="C compiler to use instead of the one found.")
@click.option(
    "--dump",
    type=options.PATH,
    metavar="DIR",
    help="Write the graph after every step into this folder.",
)
@click.option("--explain", is_flag=True, help="Say which device takes each operator, and why.")
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
    dump: Path | None,
    memory_plan: Path | None,
    explain: bool,
    as_json: bool,
    **choices: Any,
) -> None:
    """Compile the ONNX network MODEL."""
    from tvmrt.pipeline import compile as compile_network

    files.check_file(model)
    for path in filter(None, (output, memory_plan)):
        _check_parent(path)
    start = time.perf_counter()
    with console.progress(not as_json) as report:
        library = compile_network(
            str(model),
            shapes=options.parse_shapes(shapes),
            pools=options.parse_pools(pools),
            devices=options.parse_names(devices),
            require_device=options.parse_names(require_device),
            dump_dir=str(dump) if dump else None,
            explain=explain,
            progress=report,
            **choices,
        )
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
        _print_explanation(library)
    _print_result(output, seconds, summary)


def _check_parent(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: there is no folder {path.absolute().parent}; make it first"
        )


def as_dict(summary: Any) -> dict[str, Any]:
    """Return a summary as plain dictionaries and lists."""
    import dataclasses

    return dataclasses.asdict(summary)


def _print_explanation(library: Any) -> None:
    for line in library.explanation:
        console.print_text(line)


def _print_result(output: Path, seconds: float, summary: Any) -> None:
    size = console.format_bytes
    bound = summary.lower_bound_bytes
    ratio = f", {summary.arena_bytes / bound:.3f} of it" if bound else ""
    console.print_pairs(
        {
            "wrote": f"{output} in {console.format_seconds(seconds)}",
            "operators": len(summary.operators),
            "weights": size(summary.weights_bytes),
            "memory": f"{size(summary.arena_bytes)} for tensors "
            f"(at least {size(bound)} by their lifetimes{ratio}), "
            f"{size(summary.scratch_bytes)} of scratch a thread",
        }
    )
