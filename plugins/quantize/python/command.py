"""``tvmrt quantize``: write an int8 network."""

from __future__ import annotations

from pathlib import Path

import click

from tvmrt.cli import console, files, options
from tvmrt.cli.schema_types import list_of, number, of, or_null, record, text
from tvmrt.units import FRACTION

SCHEMA = ("tvmrt quantize --json.", lambda: record(
    calibration=text("The method of onnxruntime that chose the ranges."),
    error=number("Error of the outputs, relative to their root mean square."),
    accuracy_float32=or_null(number("Share of right answers of the float32 network.")),
    accuracy=or_null(number("Share of right answers of the quantised network.")),
    layers=list_of(of("tvmrt.plugins.quantize.quantization:Layer")),
))  # fmt: skip


@click.command("quantize")
@click.argument("model", type=options.PATH)
@click.option(
    "--data", "data_file", type=options.PATH, required=True, metavar="SAMPLES.npz",
    help="Example inputs by name; the first dimension counts samples.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=options.PATH, required=True, metavar="OUT.onnx",
    help="The quantised network.",
)  # fmt: skip
@click.option(
    "--labels", metavar="ARRAY",
    help="Array of SAMPLES.npz with the right class of each sample, to measure the accuracy.",
)  # fmt: skip
@click.option(
    "--max-error", type=options.Quantity(FRACTION, above=True), metavar="FRACTION",
    help="Largest error of the outputs, relative to their root mean square; the most expensive "
        "layers stay in float32 until it holds.",
)  # fmt: skip
@console.json_option
def command(
    model: Path, data_file: Path, output: Path, labels: str | None, max_error: float | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Quantise the float32 network MODEL to int8 activations and weights.

    onnxruntime calibrates with the samples by three methods; the one with the smallest error is
    taken. The table has what each layer costs: the error of the outputs if it alone is in int8.
    """
    from tvmrt.plugins.quantize.quantization import quantize

    files.check_file(model)
    files.check_target(output)
    if output.suffix != ".onnx":
        raise ValueError(f"{output} must end in .onnx; a network is quantised to an ONNX file")
    arrays = files.load_inputs(data_file)
    if labels is not None and labels not in arrays:
        raise ValueError(f"{data_file} has no array {labels}; it has {', '.join(arrays)}")
    right = None if labels is None else arrays[labels]
    with console.progress(not as_json) as progress:
        result = quantize(
            model, arrays, output, labels=right, max_error=max_error, progress=progress
        )
    if as_json:
        names = ("calibration", "error", "accuracy_float32", "accuracy", "layers")
        console.print_json("quantize", {name: getattr(result, name) for name in names})
        return
    rows = [
        (console.shorten(each.name), each.operator, _text(each.cost), each.precision)
        for each in result.layers
    ]
    columns = ("node", "operator", "cost", "precision")
    console.print_table("layers", columns, rows, ("node", "operator", "precision"))
    kept = sum(layer.precision == "float32" for layer in result.layers)
    pairs = {
        "wrote": output,
        "layers": f"{len(rows) - kept} in int8" + (f", {kept} in float32" if kept else ""),
        "error": f"{result.error:.3g} over {result.samples} runs, ranges by {result.calibration}",
    }
    if result.accuracy is not None and result.accuracy_float32 is not None:
        pairs["accuracy"] = f"{result.accuracy:.2%}, in float32 {result.accuracy_float32:.2%}"
    console.print_pairs(pairs)


def _text(cost: float | None) -> str:
    return "cannot be int8" if cost is None else f"{cost:.2g}"
