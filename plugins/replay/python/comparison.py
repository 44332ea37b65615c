"""Records of a board next to those of this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmrt.compiler.sdk.codegen import traced_tensors
from tvmrt.plugins.replay.dump import Dump, Record, value_of

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


def compare(
    program: Any, dump: Dump, records: Sequence[Record], host: Sequence[Record] | None
) -> list[RecordComparison]:
    """Return the records of the board and, after a host run, those of only the host, in order."""
    tensors = {(t.op, t.result): t for t in traced_tensors(program, True)}
    ours = {r.key: r for r in records}
    theirs = {r.key: r for r in host or ()}
    first = records[0].key  # earlier records may be overwritten in the ring buffer
    rows = []
    for key in sorted({*ours, *(key for key in theirs if key >= first)}):
        record, other = ours.get(key), theirs.get(key)
        known = record or other
        assert known is not None, "the key is of one of them"
        tensor = tensors.get((known.op, known.result))
        if tensor is None:
            raise ValueError(f"the dump is damaged: output {known.result} of {known.op} is missing")
        rows.append(_row(program, tensor, dump, record, other, host is not None))
    return rows


def _row(
    program: Any, tensor: Any, dump: Dump, record: Record | None, other: Record | None,
    compared: bool,
) -> RecordComparison:  # fmt: skip
    is_input = tensor.op >= len(program.steps)
    kind = tensor.access.dtype.numpy.kind
    board, host = (_values(r, kind) if dump.has_values else (None,) * 3 for r in (record, other))
    return RecordComparison(
        None if is_input else tensor.op,
        f"input {tensor.name}" if is_input else tensor.name,
        () if is_input else program.steps[tensor.op].sources,
        record.cycles if record and dump.has_cycles and not is_input else None,
        *board,
        *host,
        _verdict(record, other, kind, is_input) if compared else "",
    )


def _values(record: Record | None, kind: str) -> tuple[Any, Any, Any]:
    if record is None:
        return None, None, None
    return record.hash, value_of(record.low, kind), value_of(record.high, kind)


def _verdict(record: Record | None, other: Record | None, kind: str, exact: bool) -> str:
    if record is None or other is None:
        return MISSING if record is None else EXTRA
    if record.hash == other.hash:
        return SAME
    if exact or kind in "iub":
        return DIFFERS
    pairs = list(zip(_values(record, kind)[1:], _values(other, kind)[1:]))
    scale = max(abs(b) for _, b in pairs)
    close = all(a == b or (math.isfinite(a) and abs(a - b) <= ROUNDING * scale) for a, b in pairs)
    return CLOSE if close else DIFFERS


def finding(rows: Sequence[RecordComparison], compared: bool) -> tuple[str, bool]:
    """Summarise the comparison in one sentence; also return whether something is wrong."""
    if not compared:
        return f"{len(rows)} records", False
    wrong = next((i for i, row in enumerate(rows) if row.verdict not in (SAME, CLOSE)), None)
    if wrong is not None:
        return _first(rows[wrong], all(row.verdict == MISSING for row in rows[wrong:])), True
    rounded = [row.name for row in rows if row.verdict == CLOSE]
    if rounded:
        return (
            f"{len(rows)} tensors agree; {len(rounded)} of them, from {rounded[0]} on, differ by "
            "rounding only",
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
