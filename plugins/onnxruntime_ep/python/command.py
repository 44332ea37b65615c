"""``tvmrt onnxruntime-ep``: the compiler as the execution provider calls it."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

import click

from tvmrt.cli import options
from tvmrt.units import COUNT


@click.command("onnxruntime-ep")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write: a library, or a text with --parts.",
)
@click.option(
    "--parts", is_flag=True, help="Write the node indices of each part that can be compiled."
)
@click.option(
    "--dims",
    metavar="NAME=LOW..HIGH,...",
    default="",
    help="Bounds of dynamic dimensions: batch=1..8,seq<=128.",
)
@click.option(
    "--min-nodes",
    type=options.Quantity(COUNT, 1),
    default=3,
    show_default=True,
    help="Fewest nodes of a part.",
)
@click.option("--target", help="Processor to compile for. Default: this machine.")
def command(
    model: Path, output: Path, parts: bool, dims: str, min_nodes: int, target: str | None
) -> None:
    """Compile the ONNX network MODEL for tvmrt's execution provider in onnxruntime."""
    import onnx

    from tvmrt.plugins.onnxruntime_ep import compiling, option_checks, partition

    request = compiling.make_request(option_checks.parse_dims(dims), target)

    def compile_part(part: onnx.ModelProto) -> None:
        with compiling.compiled_library(part, request):
            pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # inferred bounds; the session reports errors only
        network = onnx.load(model)
        if parts:
            option_checks.check(request, network)
            found = partition.find_parts(network, compile_part, min_nodes)
            _write(output, "".join(" ".join(map(str, each)) + "\n" for each in found).encode())
        else:
            with compiling.compiled_library(network, request) as library:
                _write(output, library.read_bytes())


def _write(path: Path, data: bytes) -> None:
    """Write a file aside, then rename it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    shutil.move(file.name, path)
