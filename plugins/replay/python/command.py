"""``tvmrt replay``: show a board's record of its runs and compare it with a run on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import app, console, files, onnx_reference, options
from tvmrt.cli.option_groups import GroupedCommand
from tvmrt.cli.schema_types import flag, integer, list_of, of, record, text
from tvmrt.units import COUNT

if TYPE_CHECKING:
    from tvmrt.compiler.sdk.export import CompiledLibrary
    from tvmrt.plugins.replay import dump
    from tvmrt.plugins.replay.comparison import RecordComparison

SCHEMA = ("tvmrt replay --json.", lambda: record(
    run=integer(), runs=integer(), finding=text(), wrong=flag(),
    records=list_of(of("tvmrt.plugins.replay.comparison:RecordComparison")),
))  # fmt: skip


@click.command(
    "replay", cls=GroupedCommand, rows=("devices", "operators", "shapes", "values", "dims", "cc")
)
@click.argument("model", type=options.PATH)
@click.argument("dump_file", type=options.PATH, metavar="DUMP")
@click.option(
    "--inputs", "inputs_file", type=options.PATH, metavar="IN.npz",
    help="Inputs of the board's run, by name: run them here and compare.",
)  # fmt: skip
@click.option(
    "--run", "run_number", type=options.Quantity(COUNT, 1), metavar="N",
    help="Number of the run in the dump, 1 is the oldest. Default: the latest.",
)  # fmt: skip
@console.json_option
def command(
    model: Path, dump_file: Path, inputs_file: Path | None, run_number: int | None, as_json: bool,
    **choices: Any,
) -> int:  # fmt: skip
    """Read the trace DUMP of a board that ran the ONNX network MODEL.

    The network must be compiled with --profile or --record. The command shows the cycles and the
    range of values of each operator. With --inputs, it runs the same C on this machine and names
    the first operator whose output differs; the exit code is then 1.
    """
    from tvmrt.custom import gather
    from tvmrt.plugins.replay import dump
    from tvmrt.plugins.replay.comparison import compare, finding

    files.check_file(model)
    noted = dump.load(dump_file)
    number = _check_number(noted, run_number, dump_file)
    choices["operators"] = gather(choices["operators"])
    library = _compile(model, noted, **choices)
    host = None if inputs_file is None else _host_run(library, noted, inputs_file, choices["cc"])
    rows = compare(library.program, noted, noted.runs[number - 1], host)
    sentence, wrong = finding(rows, host is not None)
    if as_json:
        console.print_json("replay", {"run": number, "runs": len(noted.runs), "finding": sentence,
                            "wrong": wrong, "records": rows})  # fmt: skip
    else:
        _print(rows, noted, host is not None)
        click.echo(
            f"run {number} of {len(noted.runs)} in {dump_file}, on {noted.target}: {sentence}"
        )
    return app.WRONG_RESULT if wrong else app.DONE


def _check_number(noted: dump.Dump, number: int | None, where: Path) -> int:
    """Return the number of a run, by default of the latest. ValueError if there is none."""
    count = len(noted.runs)
    if not count:
        raise ValueError(
            f"{where} contains no record: the network has not run since the record was cleared"
        )
    if number is not None and number > count:
        raise ValueError(f"{where} contains {count} runs; run {number} does not exist")
    return number or count


def _compile(model: Path, noted: dump.Dump, **choices: Any) -> CompiledLibrary:
    """Compile the network as on the board, with recording. ValueError if it is another one."""
    from tvmrt.compiler.sdk.codegen import network_hash
    from tvmrt.compiler.sdk.pipeline import compile as compile_network
    from tvmrt.plugins.replay.host_run import NAME

    traced = "profile" if choices["dims"] else "record"
    library = compile_network(
        str(model), executor="aot", runtime="crt", interface_api="c", unpacked_api=True,
        target=noted.target, module_name=NAME, **{traced: True}, **choices,
    )  # fmt: skip
    if network_hash(library.program, library.sources) != noted.network:
        raise ValueError(
            f"the dump is not of {model}: it comes from another network, from other weights or "
            "from another version of tvmrt; compile the network again and flash it"
        )
    return library


def _host_run(
    library: CompiledLibrary, noted: dump.Dump, inputs_file: Path, cc: str | None
) -> list[dump.Record]:
    from tvmrt.network.inputs import TensorInfo
    from tvmrt.plugins.replay import host_run

    if not noted.has_values:
        raise ValueError("the dump contains cycles only; compile with --record to compare values")
    inputs = files.load_inputs(inputs_file)
    tensors = [TensorInfo(each.name, each.dtype, each.shape) for each in library.summary.inputs]
    onnx_reference.check_inputs(inputs, tensors, str(inputs_file))
    with tempfile.TemporaryDirectory(prefix="tvmrt-replay-") as folder:
        return host_run.run(library, inputs, Path(folder), cc).runs[-1]


def _print(rows: Sequence[RecordComparison], noted: dump.Dump, compared: bool) -> None:
    total = sum(row.cycles or 0 for row in rows)
    columns = {"operator": [_text(row.operator, ",") for row in rows],
               "name": [row.name for row in rows]}  # fmt: skip
    if noted.has_cycles:
        shares = [None if row.cycles is None else row.cycles / max(total, 1) for row in rows]
        columns["cycles"] = [_text(row.cycles, ",") for row in rows]
        columns["share"] = [_text(share, ".1%") for share in shares]
    if noted.has_values:
        columns["smallest"] = [_text(row.low, "g") for row in rows]
        columns["largest"] = [_text(row.high, "g") for row in rows]
        columns["hash"] = [_text(row.hash, "08x") for row in rows]
    if compared:
        columns["verdict"] = [row.verdict for row in rows]
    columns["nodes"] = [console.shorten_all(row.nodes) for row in rows]
    console.print_table("records", list(columns), zip(*columns.values()),
                        left=("name", "verdict", "nodes"))  # fmt: skip
    if noted.has_cycles:
        click.echo(f"{total:,} cycles in operators")


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
