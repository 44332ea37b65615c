"""``tvmrt replay``: show a board's record of its runs and compare it with a run on this machine."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import app, console, files, onnx_reference, options, trace_dump
from tvmrt.cli.option_groups import GroupedCommand
from tvmrt.cli.trace_dump import Dump, Record
from tvmrt.units import COUNT

if TYPE_CHECKING:
    import numpy as np

# Floats may differ by rounding between compilers. Minimum and maximum of a tensor count as equal if
# they differ by at most this fraction of the larger magnitude of the two.
ROUNDING = 1e-4

SAME, CLOSE, DIFFERS, MISSING, EXTRA = "same", "rounding", "DIFFERS", "NOT RUN", "extra"


@dataclass(frozen=True)
class RecordComparison:
    """A record of the board and of the host. ``low`` and ``high`` are None if not recorded."""

    operator: int | None
    name: str
    nodes: tuple[str, ...]
    cycles: int | None
    hash: int | None
    low: float | None
    high: float | None
    host_hash: int | None
    host_low: float | None
    host_high: float | None
    verdict: str


@click.command("replay", cls=GroupedCommand, rows=())
@click.argument("model", type=options.PATH)
@click.argument("dump", type=options.PATH)
@click.option(
    "--inputs",
    "inputs_file",
    type=options.PATH,
    metavar="IN.npz",
    help="Inputs of the board's run, by name: run them here and compare.",
)
@click.option(
    "--run",
    "run_number",
    type=options.Quantity(COUNT, 1),
    metavar="N",
    help="Number of the run in the dump, 1 is the oldest. Default: the latest.",
)
@console.json_option
def command(
    model: Path, dump: Path, inputs_file: Path | None, run_number: int | None, as_json: bool,
    **choices: Any,
) -> int:  # fmt: skip
    """Read the trace DUMP of a board that ran the ONNX network MODEL.

    The network must be compiled with --profile or --record. The command shows the cycles and the
    range of values of each operator. With --inputs, it runs the same C on this machine and names
    the first operator whose output differs; the exit code is then 1.
    """
    files.check_file(model)
    noted = trace_dump.load(dump)
    number, records = _pick(noted, run_number, str(dump))
    choices["operators"] = options.load_operators(choices["operators"])
    library = _compile(model, noted, **choices)
    host = None
    if inputs_file is not None:
        host = _host_run(model, library, noted, inputs_file, choices["shapes"], choices["cc"])
    rows = _rows(library, noted, records, host)
    text, wrong = _finding(rows, host is not None)
    if as_json:
        console.print_json("replay", {"run": number, "runs": len(noted.runs), "finding": text,
                            "wrong": wrong, "records": rows})  # fmt: skip
    else:
        _print(rows, noted, host is not None)
        click.echo(f"run {number} of {len(noted.runs)} in {dump}, on {noted.target}: {text}")
    return app.WRONG_RESULT if wrong else app.DONE


def _compile(model: Path, noted: Dump, **choices: Any):
    """Compile the network as on the board, with recording. ValueError if it is another one."""
    from tvmrt.cli.replay_host import NAME
    from tvmrt.compiler.codegen.firmware.trace import network_hash
    from tvmrt.compiler.pipeline import compile as compile_network

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


def _pick(noted: Dump, number: int | None, where: str) -> tuple[int, list[Record]]:
    if not noted.runs:
        raise ValueError(
            f"{where} contains no record: the network has not run since the record was cleared"
        )
    number = number or len(noted.runs)
    if number > len(noted.runs):
        raise ValueError(f"{where} contains {len(noted.runs)} runs; run {number} does not exist")
    return number, noted.runs[number - 1]


def _host_run(
    model: Path, library, noted: Dump, inputs_file: Path, shapes: Mapping, cc: str | None
) -> list[Record]:
    from tvmrt.cli import replay_host
    from tvmrt.compiler.frontend.onnx.inputs import make_given_inputs

    if not noted.has_values:
        raise ValueError("the dump contains cycles only; compile with --record to compare values")
    network = make_given_inputs(onnx_reference.load_model(model), shapes)
    inputs: dict[str, np.ndarray] = onnx_reference.inputs_for(network, shapes, inputs_file)
    with tempfile.TemporaryDirectory(prefix="tvmrt-replay-") as folder:
        return replay_host.run(library, inputs, Path(folder), cc).runs[-1]


def _rows(
    library, noted: Dump, records: list[Record], host: list[Record] | None
) -> list[RecordComparison]:
    """Return the records of the board and, after a host run, those of only the host, in order."""
    from tvmrt.compiler.codegen.firmware.trace import traced_tensors

    tensors = {(t.op, t.result): t for t in traced_tensors(library.program, True)}
    ours = {r.key: r for r in records}
    theirs = {r.key: r for r in host or ()}
    first = records[0].key  # earlier records may be overwritten in the ring buffer
    rows = []
    for key in sorted({*ours, *(key for key in theirs if key >= first)}):
        record, other = ours.get(key), theirs.get(key)
        known = record or other
        tensor = tensors.get((known.op, known.result))
        if tensor is None:
            raise ValueError(f"the dump is damaged: output {known.result} of {known.op} is missing")
        rows.append(_row(library.program, tensor, noted, record, other, host is not None))
    return rows


def _row(program, tensor, noted: Dump, record, other, compared: bool) -> RecordComparison:
    is_input = tensor.op >= len(program.steps)
    nodes = () if is_input else program.steps[tensor.op].sources
    kind = tensor.access.dtype.numpy.kind
    values = [_values(r, kind) if noted.has_values else (None,) * 3 for r in (record, other)]
    verdict = _verdict(record, other, kind, is_input) if compared else ""
    return RecordComparison(
        None if is_input else tensor.op,
        f"input {tensor.name}" if is_input else tensor.name,
        nodes,
        record.cycles if record and noted.has_cycles and not is_input else None,
        *values[0],
        *values[1],
        verdict,
    )


def _values(record: Record | None, kind: str) -> tuple:
    if record is None:
        return None, None, None
    low, high = (trace_dump.value_of(bits, kind) for bits in (record.low, record.high))
    return record.hash, low, high


def _verdict(record: Record | None, other: Record | None, kind: str, exact: bool) -> str:
    if record is None or other is None:
        return MISSING if record is None else EXTRA
    if record.hash == other.hash:
        return SAME
    if exact or kind in "iub":
        return DIFFERS
    pairs = zip(_values(record, kind)[1:], _values(other, kind)[1:])
    scale = max((abs(v) for v in _values(other, kind)[1:]), default=0.0)
    close = all(a == b or (math.isfinite(a) and abs(a - b) <= ROUNDING * scale) for a, b in pairs)
    return CLOSE if close else DIFFERS


def _finding(rows: list[RecordComparison], compared: bool) -> tuple[str, bool]:
    """Summarise the comparison in one sentence; also return whether something is wrong."""
    if not compared:
        return f"{len(rows)} records", False
    wrong = next((i for i, row in enumerate(rows) if row.verdict not in (SAME, CLOSE)), None)
    if wrong is not None:
        return _first(rows[wrong], all(row.verdict == MISSING for row in rows[wrong:])), True
    rounded = sum(row.verdict == CLOSE for row in rows)
    if rounded:
        name = next(row for row in rows if row.verdict == CLOSE).name
        return (
            f"{len(rows)} tensors agree; {rounded} of them, from {name} on, differ by rounding "
            "only",
            False,
        )
    return f"all {len(rows)} tensors are bit-identical to this machine's", False


def _first(row: RecordComparison, ended: bool) -> str:
    """Describe the first wrong row; ``ended``: the board recorded nothing after it."""
    if row.operator is None:
        return f"{row.name} differs: the board's inputs are not those of --inputs"
    operator_text = f"operator {row.operator}, {row.name} (nodes {', '.join(row.nodes)}),"
    if row.verdict == MISSING and ended:
        return f"{operator_text} is the first operator that did not finish on the board"
    if row.verdict in (MISSING, EXTRA):
        where = "this machine" if row.verdict == MISSING else "the board"
        return f"{operator_text} ran on {where} only: a condition had another value"
    return (
        f"{operator_text} is the first whose output differs: "
        f"{row.low:g} to {row.high:g} with hash {row.hash:08x} on the board, "
        f"{row.host_low:g} to {row.host_high:g} with hash {row.host_hash:08x} here"
    )


def _print(rows: list[RecordComparison], noted: Dump, compared: bool) -> None:
    total = sum(row.cycles or 0 for row in rows)
    columns = {"operator": [_int_text(row.operator) for row in rows],
               "name": [row.name for row in rows]}  # fmt: skip
    if noted.has_cycles:
        columns["cycles"] = [_int_text(row.cycles) for row in rows]
        columns["share"] = [
            "" if r.cycles is None else f"{r.cycles / max(total, 1):.1%}" for r in rows
        ]
    if noted.has_values:
        columns["smallest"] = [_float_text(row.low) for row in rows]
        columns["largest"] = [_float_text(row.high) for row in rows]
        columns["hash"] = ["" if row.hash is None else f"{row.hash:08x}" for row in rows]
    if compared:
        columns["verdict"] = [row.verdict for row in rows]
    columns["nodes"] = [console.shorten_all(row.nodes) for row in rows]
    console.print_table("records", list(columns), zip(*columns.values()),
                        left=("name", "verdict", "nodes"))  # fmt: skip
    if noted.has_cycles:
        click.echo(f"{total:,} cycles in operators")


def _int_text(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _float_text(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
