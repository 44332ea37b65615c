"""What is known about the branches of an image: how often they are taken, and whether an input
decides about them.

memcheck knows the branches of C by file and line, in a build for this machine. The debug
information of the board's image has the line of each of its branches. A branch goes the same way
for all inputs if its line has a branch in the other build as well, none there depends on an input,
and all runs in QEMU agree.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmrt.plugins.cycles.control_flow import Constants
from tvmrt.plugins.cycles.qemu_run import CountedRun

# of C, in the output of objdump -l
LINE = re.compile(r"^(/.+):(\d+)(?: \(discriminator \d+\))?$")
_CODE = re.compile(r"^\s*([0-9a-f]+):\s+\S")
_SYMBOL = re.compile(r"^[0-9a-f]+ <.+>:$")
_CONTENTS, _LOADED = 1, 2  # type and flag of a section in an ELF file

Line = tuple[str, int]


def _lines(text: str) -> Iterator[tuple[int, Line]]:
    """Yield address and source line of each instruction that has one.

    ``text``: output of ``objdump -dl --no-show-raw-insn``.
    """
    line: Line | None = None
    for row in text.splitlines():
        at = LINE.match(row)
        if at:
            line = at[1], int(at[2])
        elif _SYMBOL.match(row):
            line = None
        else:
            match = _CODE.match(row)
            if match and line:
                yield int(match[1], 16), line


@dataclass(frozen=True)
class BranchFacts:
    """Counts of all runs, by address: the largest and the smallest number of executions of each
    instruction, and the fewest outcomes of branches. ``differing``: instructions whose counts
    differ. ``lines``: source lines."""

    executed: Counter[int]
    always_executed: dict[int, int]
    taken: dict[int, int]
    not_taken: dict[int, int]
    differing: frozenset[int]
    lines: dict[int, Line]


def gather(runs: Sequence[CountedRun], text: str) -> BranchFacts:
    """Return the facts of runs of the same code. ``text``: output of ``objdump -dl``."""
    counts = [_counts(run) for run in runs]
    executed: Counter[int] = Counter()
    for some, _ in counts:
        executed |= some
    least, taken = ({**each} for each in counts[0])
    not_taken = {at: least[at] - taken.get(at, 0) for at in least}
    for some, others in counts:
        least = {at: min(times, some[at]) for at, times in least.items()}
        taken = {at: min(times, others[at]) for at, times in taken.items()}
        not_taken = {at: min(times, some[at] - others[at]) for at, times in not_taken.items()}
    differing = {
        at for at in executed if len({(some[at], others[at]) for some, others in counts}) > 1
    }
    return BranchFacts(executed, least, taken, not_taken, frozenset(differing), dict(_lines(text)))


def _counts(run: CountedRun) -> tuple[Counter[int], Counter[int]]:
    executed: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for call in run.calls:
        for address, count, times, jumps in call.blocks:
            block = run.code.block(address, count)
            for instruction in block:
                executed[instruction.address] += times
            taken[block[-1].address] += jumps
    return executed, taken


def is_reported(line: Line, reported: Iterable[Line]) -> bool:
    """Return whether memcheck reported a line. It names files without their folders."""
    return (Path(line[0]).name, line[1]) in reported


def constants(image: bytes) -> Constants:
    """Return what an ELF image of 32 bits loads into memory."""
    found: dict[int, int] = {}
    (table,) = struct.unpack_from("<I", image, 32)
    size, count = struct.unpack_from("<HH", image, 46)
    for i in range(count):
        _, kind, flags, address, offset, length = struct.unpack_from("<6I", image, table + size * i)
        if kind == _CONTENTS and flags & _LOADED:
            skipped = -address % 4
            form = f"<{max(length - skipped, 0) // 4}I"
            for n, word in enumerate(struct.unpack_from(form, image, offset + skipped)):
                found[address + skipped + 4 * n] = word
    return Constants(found)
