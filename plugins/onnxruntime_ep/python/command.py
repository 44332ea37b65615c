"""``tvmrt onnxruntime-ep``: the compiler as the execution provider calls it."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path

import click

from tvmrt.cli import options
from tvmrt.units import COUNT

_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command("onnxruntime-ep")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", required=True, type=_PATH,
    help="File to write: a library, or a text with --parts.",
)  # fmt: skip
@click.option(
    "--parts", is_flag=True, help="Write the node indices of each part that can be compiled."
)
@click.option(
    "--dims", metavar="NAME=LOW..HIGH,...", default="",
    help="Bounds of dynamic dimensions: batch=1..8,seq<=128.",
)  # fmt: skip
@click.option(
    "--min-nodes", type=options.Quantity(COUNT, 1), default=3, show_default=True,
    help="Fewest nodes of a part.",
)  # fmt: skip
@click.option("--target", help="Processor to compile for. Default: this machine.")
def command(
    model: Path, output: Path, parts: bool, dims: str, min_nodes: int, target: str | None
) -> None:
    """Compile the ONNX network MODEL for tvmrt's execution provider in onnxruntime."""
    import onnx

    from tvmrt.compiler.export.atomic import replacing
    from tvmrt.plugins.onnxruntime_ep import compiling, partition

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a host's SIG_IGN is inherited
    request = compiling.make_request(dims, target)
    with warnings.catch_warnings(), replacing(output) as aside:
        warnings.simplefilter("ignore")  # inferred bounds; the session reports errors only
        network = onnx.load(model)
        if parts:
            compiling.check_dimensions(dims, request, network)
            found = partition.find_parts(
                network, lambda part: compiling.write_library(part, request, aside), min_nodes
            )
            aside.write_text("".join(" ".join(map(str, each)) + "\n" for each in found))
        else:
            compiling.write_library(network, request, aside)
