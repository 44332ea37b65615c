"""``tvmrt onnxruntime-ep``: the compiler as the execution provider calls it."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import files, onnx_reference, options
from tvmrt.error import UnsupportedError
from tvmrt.units import COUNT

_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command("onnxruntime-ep", hidden=True)  # programs in other languages start it
@click.argument("model", type=options.PATH)
@click.option(
    "-o", "--output", required=True, type=_PATH,
    help="File to write: a model with EPContext nodes (.onnx), whose digests are printed; a"
    " library; or a text with --parts.",
)  # fmt: skip
@click.option(
    "--parts",
    is_flag=True,
    help="Write the node indices of each part that can be compiled, and INDEX.so next to it.",
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
    from tvmrt.compiler.sdk.export import replacing
    from tvmrt.plugins.onnxruntime_ep.libraries import write_libraries

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a host's SIG_IGN is inherited
    files.check_file(model)
    try:
        if output.suffix == ".onnx":
            values = {"dims": dims, "min_nodes": min_nodes, "target": target}
            given = {name: value for name, value in values.items() if value}
            click.echo(f"allow_compiled={_write_compiled_model(model, output, given)}")
        else:
            with warnings.catch_warnings(), replacing(output) as aside:
                warnings.simplefilter("ignore")  # the session reports errors only
                write_libraries(model, aside, parts, dims, min_nodes, target)
    except Exception:
        onnx_reference.load_model(model)  # names a remedy if the file is not a network
        raise


def _write_compiled_model(model: Path, output: Path, values: dict[str, Any]) -> str:
    """Compile a model in a session of onnxruntime; return the digests of its libraries."""
    import onnxruntime

    from tvmrt.compiler.sdk.export import replacing
    from tvmrt.plugins import onnxruntime_ep

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    onnxruntime_ep.add_to(options, values)
    with replacing(output) as aside:
        aside.unlink(missing_ok=True)  # onnxruntime replaces no file
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_file_path", str(aside))
        try:
            onnxruntime.InferenceSession(str(model), options)
        except Exception as error:  # of many types
            reason = str(error).strip().rsplit("tvmrt: ", 1)[-1]
            reason = reason.replace("the provider option ", "--")
            raise UnsupportedError(f"{model}: {reason}") from None
        if not aside.exists():
            raise UnsupportedError(f"{model}: tvmrt compiles no part of this network")
        return onnxruntime_ep.digests(aside)
