"""``tvmrt verify``: compare a compiled network with onnxruntime, output by output, node by node."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt import plugin
from tvmrt.cli import (
    app,
    connections,
    console,
    dynamic_sizes,
    onnx_reference,
    options,
    sequence_io,
    tolerance,
    verify_differences,
)
from tvmrt.cli.console import format_shape
from tvmrt.cli.describe import describe
from tvmrt.cli.tolerance import TensorComparison
from tvmrt.file_suffix import suffix_of

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.cli.session import Session

ROWS_SHOWN = 20


@click.command("verify", cls=connections.ConnectedCommand, rows=())
@click.argument("model", type=options.PATH)
@options.inputs_option
@click.option(
    "--outputs-only", is_flag=True, help="Compare the outputs only, with one compilation."
)
@click.option("--all", "show_all", is_flag=True, help="Show every tensor, not only the worst ones.")
@options.threads
@console.json_option
def command(
    model: Path, inputs_file: Path | None, threads: int, outputs_only: bool, show_all: bool,
    remote: connections.RemoteExecution, as_json: bool, **choices: Any,
) -> int:  # fmt: skip
    """Check every node of the network MODEL against onnxruntime, or its format's own runtime.

    The network is compiled twice: as it is, to compare its outputs, and with all intermediate
    tensors kept, to compare the result of each node on its actual inputs. The evaluator of the onnx
    package runs nodes that onnxruntime cannot run, and nodes whose result onnxruntime does not
    confirm: a result is right if one of the two confirms it, since both compute some nodes wrongly
    (docs/reference/accuracy.md); the last line names these nodes. Without onnxruntime, the
    evaluator is the only reference. Random results are not compared. Nodes that
    permit int8 activations (accuracy_level of MatMulNBits) are compared with float32 kernels. The
    exit code is 1 if anything is wrong.

    MODEL may also be a folder of tvmrt compile --evidence, whose files and C code are checked.

    A network of another format is compared with the reference kernels of that format's runtime; its
    integers must be equal.

    With --precision bf16 or int8, and after an operator for which a plug-in allows rounding, such
    as DynamicQuantizeLSTM, outputs may be off by half of their maximum, because a network may
    amplify rounding errors by any amount, and so may results of an If, a Loop or a function with
    rounded layers inside. Rely on the comparison of every node then, not on --outputs-only.
    """
    if remote.is_remote and suffix_of(model) != ".onnx":
        raise click.UsageError(
            f"only ONNX networks can be verified on another machine; give an .onnx file for {model}"
        )
    is_library = suffix_of(model) in (".so", ".dylib", ".dll") or plugin.linker_of(model)
    if is_library and "executor" in describe(model).properties:
        raise ValueError(
            f"{model} is a compiled network; give the "
            f"{' or '.join(plugin.network_suffixes())} file it was compiled from"
        )
    remote_machine = remote.open()
    with console.progress(not as_json) as progress:
        choices["remote_machine"], choices["progress"] = remote_machine, progress
        rows, judge = compare_tensors(model, inputs_file, threads, outputs_only, choices)
    return _report(rows, judge, show_all, as_json)


def compare_tensors(
    model: Path, inputs_file: Path | None, threads: int, outputs_only: bool, choices: dict[str, Any]
) -> tuple[list[TensorComparison], str]:
    """Compare every tensor of a network; also return the name of the reference. ``choices`` are
    options of the compiler and ``remote_machine``, which runs an ONNX network."""
    from tvmrt.compiler.custom import gather

    result: tuple[list[TensorComparison], str]
    known = {name: value for name, value in choices.items() if name != "remote_machine"}
    if model.is_dir():
        result = plugin.hook("verify folder", f"{model} is a folder; its check")(model, known)
        return result
    importer = plugin.importer_of_file(model)
    if importer is not None:
        result = importer.verify(model, inputs_file, threads, outputs_only, known)
        return result
    network = onnx_reference.load_model(model)
    network, choices = sequence_io.sequences_to_tensors(network, choices)
    network, choices = dynamic_sizes.with_chosen_dims(network, choices)
    tried = dynamic_sizes.trials(network, choices, inputs_file)
    choices["operators"] = gather(choices["operators"])
    if outputs_only:
        return _check_outputs(network, tried, threads, choices, None)
    nodes, chosen = _check_nodes(network, tried, threads, choices)
    rows, judge = _check_outputs(network, tried, threads, choices, chosen)
    return rows + nodes, judge


def _report(rows: list[TensorComparison], judge: str, show_all: bool, as_json: bool) -> int:
    wrong = [row for row in rows if not row.verdict.right]
    if as_json:
        tensors = [{**asdict(row), "right": row.verdict.right} for row in rows]
        console.print_json("verify", {"judge": judge, "wrong": len(wrong), "tensors": tensors})
    else:
        _print(rows, wrong, judge, show_all)
    return app.WRONG_RESULT if wrong else app.DONE


def _check_outputs(
    model: onnx.ModelProto,
    tried: Sequence[dynamic_sizes.Trial],
    threads: int,
    choices: Mapping,
    chosen: dict[int, str] | None,
) -> tuple[list[TensorComparison], str]:
    """Compare the outputs of the network; also return the name of the reference. ``chosen``: see
    verify_differences.compare_outputs."""
    rows, judge = [], ""
    runs, known, reduced = _run(model, tried, threads, choices)
    rounded = verify_differences.bfloat16_outputs(model)
    if reduced:
        rounded.update(dict.fromkeys(_makers(model), tolerance.ROUNDED_NETWORK))
    else:
        rounded.update(tolerance.of_plugins(model, with_followers=True))
    steps = onnx_reference.dequantize_scales(model)
    for trial, actual in zip(tried, runs):
        compare = partial(
            _compare_outputs, _part("outputs", trial), model, actual, rounded=rounded, steps=steps
        )
        found, judge = verify_differences.compare_outputs(
            model, trial.inputs, choices["operators"], known, compare, chosen
        )
        rows += found
    return rows, judge


def _part(name: str, trial: dynamic_sizes.Trial) -> str:
    return f"{name} at {trial.sizes}" if trial.sizes else name


def _check_nodes(
    model: onnx.ModelProto, tried: Sequence[dynamic_sizes.Trial], threads: int, choices: Mapping
) -> tuple[list[TensorComparison], dict[int, str]]:
    """Compare the result of each node on the inputs that it had in the compiled network; also
    return the nodes that the evaluator of onnx judges, with the reason, by index."""
    untyped = bool(onnx_reference.operators_used(model, choices["operators"]))
    observed = onnx_reference.with_all_tensors_as_outputs(model, untyped)
    rows: list[TensorComparison] = []
    chosen: dict[int, str] = {}
    # all tensors are kept, so that no plan fits the limit
    runs, known, reduced = _run(observed, tried, threads, {**choices, "ram": None})
    rounded = tolerance.of_plugins(model)
    rounded.update(verify_differences.rounded_tensors(model, reduced))
    alone = {onnx_reference.ISOLATED_PREFIX + name: each for name, each in known.items()}
    for trial, actual in zip(tried, runs):
        values = {**trial.inputs, **sequence_io.indices_to_strings(actual, known)}
        isolated, feeds = onnx_reference.isolate_nodes(observed, values)
        if not isolated.graph.output:
            continue  # all results are sequences

        compare = partial(
            _compare_isolated, _part("every node", trial), model, actual, rounded=rounded
        )
        found, places = verify_differences.compare_nodes(
            isolated, feeds, choices["operators"], alone, compare
        )
        rows += found
        chosen.update(places)
    return rows, chosen


def _run(
    model: onnx.ModelProto, tried: Sequence[dynamic_sizes.Trial], threads: int, choices: Mapping
) -> tuple[list[dict[str, np.ndarray]], sequence_io.Labels, frozenset[str]]:
    """Return the outputs of one library at each of the sizes, the labels of outputs that have some,
    and the names of the nodes computed in reduced precision."""
    from tvmrt.cli.session import compile_session

    with tempfile.TemporaryDirectory(prefix="tvmrt-verify-") as folder:
        session = compile_session(model, Path(folder), threads, choices)
        runs = [_run_at(session, trial) for trial in tried]
        gathered = [sequence_io.joined_sequences(run, session.bundles) for run in runs]
        return gathered, session.labels, session.reduced


def _run_at(session: Session, trial: dynamic_sizes.Trial) -> dict[str, np.ndarray]:
    try:
        return session.run(session.checked_inputs(trial.inputs, "inputs"))
    except ValueError as problem:
        raise trial.with_advice(problem) from None


def _compare(
    part: str,
    model: onnx.ModelProto,
    actual: Mapping[str, np.ndarray],
    right: Mapping[str, onnx_reference.Expected],
    rounded: Mapping[str, float],
    steps: Mapping[str, float],
) -> list[TensorComparison]:
    makers = _makers(model)
    rows = []
    for name, expected in right.items():
        given = actual.get(name)
        if given is None:  # an element of a sequence, or an optional value
            verdict = tolerance.Verdict(float("inf"), 0.0, float("inf"), "missing")
        else:
            off = rounded.get(name, 0.0)
            step = steps.get(name, 0.0)
            verdict = tolerance.judge(given, expected.value, expected.noise, off, step)
        value = expected.value
        maker = makers.get(name, "input")
        rows.append(
            TensorComparison(part, name, maker, str(value.dtype), tuple(value.shape), verdict)
        )
    return rows


def _compare_outputs(
    part: str,
    model: onnx.ModelProto,
    actual: Mapping[str, np.ndarray],
    right: Mapping[str, onnx_reference.Expected],
    **tolerances: Mapping[str, float],
) -> list[TensorComparison]:
    """Compare outputs; elements of sequences that the reference does not have are wrong."""
    rows = _compare(part, model, actual, right, **tolerances)
    verdict = tolerance.Verdict(float("inf"), 0.0, float("inf"), "not in the reference")
    for name in actual.keys() - right.keys() if right else ():
        if name.endswith("]"):
            dtype, shape = str(actual[name].dtype), tuple(actual[name].shape)
            rows.append(TensorComparison(part, name, "", dtype, shape, verdict))
    return rows


def _compare_isolated(
    part: str,
    model: onnx.ModelProto,
    actual: Mapping[str, np.ndarray],
    right: Mapping[str, onnx_reference.Expected],
    rounded: Mapping[str, float],
) -> list[TensorComparison]:
    """Compare the results of isolated nodes."""
    by_name = {name[len(onnx_reference.ISOLATED_PREFIX) :]: value for name, value in right.items()}
    halves = (name for name, each in by_name.items() if each.value.dtype == "bfloat16")
    allowed = {**dict.fromkeys(halves, tolerance.ROUNDED_LAYER), **rounded}
    return _compare(part, model, actual, by_name, allowed, {})


def _makers(model: onnx.ModelProto) -> dict[str, str]:
    """Return the node that computes each tensor, by tensor name."""
    return {out: _label(n) for n in model.graph.node for out in n.output}


def _label(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name}".strip()


def _print(
    rows: list[TensorComparison], wrong: list[TensorComparison], judge: str, show_all: bool
) -> None:
    shown = rows if show_all else _worst(rows, wrong)
    columns = (
        "part", "tensor", "node", "dtype", "shape", "error", "relative", "allowed", "verdict",
    )  # fmt: skip
    cells = [
        (
            row.part, console.shorten(row.tensor), console.shorten(row.made_by),
            row.dtype, format_shape(row.shape),
            f"{row.verdict.error:.3g}", f"{row.verdict.relative:.2g}", f"{row.verdict.allowed:.3g}",
            row.verdict.note or "right"
            if row.verdict.right
            else f"WRONG {row.verdict.problem}".strip(),
        )
        for row in shown
    ]  # fmt: skip
    title = (
        "all tensors" if len(shown) == len(rows) else f"worst {len(shown)} of {len(rows)} tensors"
    )
    console.print_table(
        title, columns, cells, left=("part", "tensor", "node", "dtype", "shape", "verdict")
    )
    click.echo(f"{len(rows) - len(wrong)} of {len(rows)} tensors agree with {judge}")
    if wrong and judge == onnx_reference.EVALUATOR:
        click.echo(
            "this evaluator computes some nodes wrongly (docs/reference/accuracy.md); for a second "
            "reference: pip install onnxruntime"
        )


def _worst(rows: list[TensorComparison], wrong: list[TensorComparison]) -> list[TensorComparison]:
    """Return wrong tensors in network order, then those nearest to the limit."""
    nearest = sorted((r for r in rows if r.verdict.right), key=lambda r: -r.verdict.excess)
    return wrong + nearest[: max(0, ROWS_SHOWN - len(wrong))]
