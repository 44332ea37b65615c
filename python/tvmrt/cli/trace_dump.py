"""Dumps of the ring in which a firmware network notes its runs; see ``tvm/runtime/trace.h``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x52545654
VERSION = 1
INPUT_NUMBER = 0xFFFF  # TVMRT_TRACE_INPUT, where an input was noted and not an operator
CYCLES, VALUES = 1, 2  # bits of what is noted
_HEADER = "IHHI20sIII"
_RECORD = "HHIIII"


@dataclass(frozen=True)
class Record:
    """An operator that ran, or a tensor that was written; ``op`` is INPUT_NUMBER for inputs.

    ``low`` and ``high`` are the bits of the smallest and the largest element.
    """

    op: int
    result: int
    cycles: int
    hash: int
    low: int
    high: int

    @property
    def key(self) -> tuple[int, int]:
        """Its place in a run: inputs first, then operators in their order."""
        return (-1 if self.op == INPUT_NUMBER else self.op), self.result


@dataclass(frozen=True)
class Dump:
    """What a dump holds: which network on which target, and its runs, the oldest first."""

    network: int
    target: str
    has_cycles: bool
    has_values: bool
    runs: list[list[Record]]


def load(path: Path) -> Dump:
    """Read a dump. Raises OSError, or ValueError where the file is none."""
    return parse(path.read_bytes(), str(path))


def parse(data: bytes, where: str) -> Dump:
    """The dump in ``data``, of either byte order; bytes behind it are ignored."""
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
    """Records of one run come in the order of operators, so that a run begins where it breaks."""
    runs: list[list[Record]] = []
    for record in records:
        if not runs or record.key <= runs[-1][-1].key:
            runs.append([])
        runs[-1].append(record)
    return runs


def value_of(bits: int, kind: str) -> float | int:
    """Smallest or largest element as a number; ``kind`` is that of the tensor's numpy type."""
    if kind in "iub":
        signed = kind == "i" and bits >= 1 << 31
        return bits - (1 << 32) if signed else bits
    return struct.unpack("<f", struct.pack("<I", bits))[0]
