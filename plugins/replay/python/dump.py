"""Dumps of a firmware network's trace ring buffer; see ``tvm/runtime/trace.h``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x52545654
VERSION = 1
INPUT_NUMBER = 0xFFFF  # TVMRT_TRACE_INPUT: the record is of an input, not of an operator
CYCLES, VALUES = 1, 2  # bits of the kinds of recorded data
_HEADER = "IHHI20sIII"
_RECORD = "HHIIII"


@dataclass(frozen=True)
class Record:
    """An executed operator or a written tensor; ``op`` is INPUT_NUMBER for inputs.

    ``low`` and ``high`` are the bits of the minimum and maximum element.
    """

    op: int
    result: int
    cycles: int
    hash: int
    low: int
    high: int

    @property
    def key(self) -> tuple[int, int]:
        """Position in a run: inputs first, then operators in order."""
        return (-1 if self.op == INPUT_NUMBER else self.op), self.result


@dataclass(frozen=True)
class Dump:
    """Contents of a dump: the network, the target, and the runs, oldest first."""

    network: int
    target: str
    has_cycles: bool
    has_values: bool
    runs: list[list[Record]]


def load(path: Path) -> Dump:
    """Read a dump. Raises OSError, or ValueError if the file is not a dump."""
    return parse(path.read_bytes(), str(path))


def parse(data: bytes, where: str) -> Dump:
    """Parse a dump of either byte order; bytes after its end are ignored."""
    size = struct.calcsize("<" + _HEADER)
    if len(data) < size:
        raise ValueError(
            f"{where} has {len(data)} bytes, fewer than a trace header ({size}); dump the whole "
            "variable"
        )
    order = next((o for o in "<>" if struct.unpack_from(o + "I", data)[0] == MAGIC), None)
    if order is None:
        raise ValueError(
            f"{where} does not start with the trace magic TVTR; dump the variable <module>_trace "
            "after a run"
        )
    _, version, what, network, target, capacity, count, following = struct.unpack_from(
        order + _HEADER, data
    )
    if version != VERSION:
        raise ValueError(f"{where} has trace version {version}; this tvmrt reads version {VERSION}")
    needed = size + capacity * struct.calcsize(order + _RECORD)
    if len(data) < needed:
        raise ValueError(
            f"{where} ends after {len(data)} of {needed} bytes; dump the whole variable"
        )
    if count > capacity or following >= max(capacity, 1):
        raise ValueError(
            f"{where} is damaged: {count} records at {following} in a ring buffer of {capacity}"
        )
    records = [Record(*r) for r in struct.iter_unpack(order + _RECORD, data[size:needed])]
    oldest = following if count == capacity else 0
    ordered = [records[(oldest + i) % capacity] for i in range(count)]
    name = target.rstrip(b"\0").decode("ascii", "replace")
    return Dump(network, name, bool(what & CYCLES), bool(what & VALUES), _runs(ordered))


def _runs(records: list[Record]) -> list[list[Record]]:
    """Split records into runs; a run ends where the order of operators restarts."""
    runs: list[list[Record]] = []
    for record in records:
        if not runs or record.key <= runs[-1][-1].key:
            runs.append([])
        runs[-1].append(record)
    return runs


def value_of(bits: int, kind: str) -> float | int:
    """Convert the bits of an element to a number; ``kind`` is that of the NumPy type."""
    if kind in "iub":
        signed = kind == "i" and bits >= 1 << 31
        return bits - (1 << 32) if signed else bits
    return struct.unpack("<f", struct.pack("<I", bits))[0]
