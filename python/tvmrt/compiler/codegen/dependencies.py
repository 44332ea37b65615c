"""Which steps must have ended before a step begins, when steps may run at the same time.

Two steps depend on each other if they touch the same memory and one of them writes it; whether the
memory holds one tensor for both, or one tensor after another, makes no difference. What follows
from other dependencies is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import gcd

from tvmrt.compiler.ir.extent import symbols_of
from tvmrt.compiler.ir.program import ARENA, CONSTANT, Access, Buffer, Program, Step
from tvmrt.compiler.ir.strided import Strided, dense


@dataclass(frozen=True)
class _Touch:
    """One access of a step."""

    step: int
    access: Access
    writes: bool


def dependencies(program: Program) -> list[list[int]]:
    """For each step the numbers of those that it waits for, all smaller than its own."""
    touches: dict[Buffer, list[_Touch]] = {}
    overlapping = _overlaps(program)
    before: list[int] = []  # all steps above each, as bits
    found = []
    for number, step in enumerate(program.steps):
        own = _touches(number, step)
        needed = {
            other.step
            for touch in own
            for buffer in overlapping.get(touch.access.buffer, (touch.access.buffer,))
            for other in touches.get(buffer, ())
            if (touch.writes or other.writes) and may_meet(touch.access, other.access)
        }
        kept, above = [], 0
        for other in sorted(needed, reverse=True):
            if not above >> other & 1:
                kept.append(other)
                above |= before[other] | 1 << other
        found.append(sorted(kept))
        before.append(above)
        for touch in own:
            touches.setdefault(touch.access.buffer, []).append(touch)
    return found


def _touches(number: int, step: Step) -> list[_Touch]:
    reads = [*step.reads, *([step.guard[0]] if step.guard else []), *step.counts.values()]
    writes = list(step.writes)
    if step.scratch is not None:
        writes.append(Access(step.scratch, dense((step.scratch.size,))))
    found = [_Touch(number, a, False) for a in reads if a.buffer.kind != CONSTANT]
    return [*found, *(_Touch(number, a, True) for a in writes)]


def _overlaps(program: Program) -> dict[Buffer, list[Buffer]]:
    """For each buffer of the arena those that share some of its bytes, itself among them."""
    buffers = [b for b in program.arena_buffers() if b.kind == ARENA]

    def share(a: Buffer, b: Buffer) -> bool:
        if a.pool != b.pool:
            return False
        return a.address < b.address + b.nbytes and b.address < a.address + a.nbytes

    return {a: [b for b in buffers if a is b or share(a, b)] for a in buffers}


def may_meet(a: Access, b: Access) -> bool:
    """Whether two accesses have an element in common, or may have."""
    if a.buffer is not b.buffer:
        return True
    if 0 in a.shape or 0 in b.shape:
        return False
    if symbols_of(*((at.shape, at.strides, at.offset) for at in (a.at, b.at))):
        return True  # where they lie is known only when the network runs
    low_a, high_a = _extent(a.at)
    low_b, high_b = _extent(b.at)
    if high_a < low_b or high_b < low_a:
        return False
    strides = [s for at in (a.at, b.at) for n, s in zip(at.shape, at.strides) if n > 1]
    pace = reduce(gcd, strides, 0)  # both step by multiples of it
    if pace and (a.at.offset - b.at.offset) % pace:
        return False
    return not _apart_in_a_grid(a.at, b.at)


def _extent(at: Strided) -> tuple[int, int]:
    """First and last element."""
    moves = [(n - 1) * s for n, s in zip(at.shape, at.strides)]
    return (
        at.offset + sum(m for m in moves if m < 0),
        at.offset + sum(m for m in moves if m > 0),
    )


def _apart_in_a_grid(a: Strided, b: Strided) -> bool:
    """Whether two boxes of one larger tensor, such as parts of a concatenation, are disjoint."""
    order = [d for d in range(len(a.shape)) if a.shape[d] > 1 or _one(b, d)]
    same_strides = len(a.shape) == len(b.shape) and a.strides == b.strides
    if not same_strides or any(s <= 0 for s in a.strides):
        return False
    order.sort(key=lambda d: -a.strides[d])
    starts = _starts(a, order), _starts(b, order)
    if starts[0] is None or starts[1] is None:
        return False
    return any(
        starts[0][d] + a.shape[d] <= starts[1][d] or starts[1][d] + b.shape[d] <= starts[0][d]
        for d in order
    )


def _one(at: Strided, axis: int) -> bool:
    return len(at.shape) > axis and at.shape[axis] > 1


def _starts(at: Strided, order: list[int]) -> dict[int, int] | None:
    """Index of the box's first element by axis; None if the box leaves its row of the grid."""
    rest, outer, starts = at.offset, None, {}
    for d in order:
        starts[d], rest = divmod(rest, at.strides[d])
        if outer is not None and (starts[d] + at.shape[d]) * at.strides[d] > outer:
            return None
        outer = at.strides[d]
    return starts if rest == 0 else None
