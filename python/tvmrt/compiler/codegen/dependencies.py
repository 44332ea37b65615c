"""Dependencies between steps that may run concurrently.

Two steps depend on each other if they touch the same memory and one of them writes it. It makes no
difference whether that memory holds the same tensor for both. Transitive dependencies are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import gcd

from tvmrt.compiler.ir.program import ARENA, CONSTANT, Access, Buffer, Program, Step
from tvmrt.compiler.ir.sizes import symbols_of
from tvmrt.compiler.ir.strided import Strided, dense


@dataclass(frozen=True)
class _BufferAccess:
    """One access of a step."""

    step: int
    access: Access
    writes: bool


def dependencies(program: Program) -> list[list[int]]:
    """Return for each step the indices of earlier steps that it must wait for."""
    touches: dict[Buffer, list[_BufferAccess]] = {}
    buffers = [b for b in program.arena_buffers() if b.kind == ARENA]
    # for each one those that share some of its bytes, including itself
    overlapping = {a: [b for b in buffers if a.shares_memory(b)] for a in buffers}
    before: list[int] = []  # bit mask of all ancestors of each step
    edges = []
    for index, step in enumerate(program.steps):
        own = _touches(index, step)
        needed = {
            other.step
            for touch in own
            for buffer in overlapping.get(touch.access.buffer, (touch.access.buffer,))
            for other in touches.get(buffer, ())
            if (touch.writes or other.writes) and may_overlap(touch.access, other.access)
        }
        direct, above = [], 0
        for other in sorted(needed, reverse=True):
            if not above >> other & 1:
                direct.append(other)
                above |= before[other] | 1 << other
        edges.append(sorted(direct))
        before.append(above)
        for touch in own:
            touches.setdefault(touch.access.buffer, []).append(touch)
    return edges


def _touches(index: int, step: Step) -> list[_BufferAccess]:
    touches = [
        _BufferAccess(index, access, any(access is written for written in step.writes))
        for access in step.accesses()
        if access.buffer.kind != CONSTANT
    ]
    if step.scratch is not None:
        scratch = Access(step.scratch, dense((step.scratch.size,)))
        touches.append(_BufferAccess(index, scratch, True))
    return touches


def may_overlap(a: Access, b: Access) -> bool:
    """Return whether two accesses have, or may have, an element in common."""
    if a.buffer is not b.buffer:
        return True
    if 0 in a.shape or 0 in b.shape:
        return False
    if symbols_of(*((at.shape, at.strides, at.offset) for at in (a.at, b.at))):
        return True  # with symbolic layouts, overlap is known only at run time
    low_a, high_a = _extent(a.at)
    low_b, high_b = _extent(b.at)
    if high_a < low_b or high_b < low_a:
        return False
    strides = [s for at in (a.at, b.at) for n, s in zip(at.shape, at.strides) if n > 1]
    pace = reduce(gcd, strides, 0)  # all elements of both lie at multiples of it
    if pace and (a.at.offset - b.at.offset) % pace:
        return False
    return not _are_disjoint_boxes(a.at, b.at)


def _extent(at: Strided) -> tuple[int, int]:
    """Return the offsets of the first and last element."""
    moves = [(n - 1) * s for n, s in zip(at.shape, at.strides)]
    return at.offset + sum(m for m in moves if m < 0), at.offset + sum(m for m in moves if m > 0)


def _are_disjoint_boxes(a: Strided, b: Strided) -> bool:
    """Return whether two boxes of one tensor, such as parts of a concatenation, are disjoint."""
    order = [d for d in range(len(a.shape)) if a.shape[d] > 1 or _has_several(b, d)]
    same_strides = len(a.shape) == len(b.shape) and a.strides == b.strides
    if not same_strides or any(s <= 0 for s in a.strides):
        return False
    order.sort(key=lambda d: -a.strides[d])
    starts = _box_origin(a, order), _box_origin(b, order)
    if starts[0] is None or starts[1] is None:
        return False
    return any(
        starts[0][d] + a.shape[d] <= starts[1][d] or starts[1][d] + b.shape[d] <= starts[0][d]
        for d in order
    )


def _has_several(at: Strided, axis: int) -> bool:
    return len(at.shape) > axis and at.shape[axis] > 1


def _box_origin(at: Strided, order: list[int]) -> dict[int, int] | None:
    """Return the index of the box's first element by axis; None if the box crosses a grid row."""
    rest, outer, starts = at.offset, None, {}
    for d in order:
        starts[d], rest = divmod(rest, at.strides[d])
        if outer is not None and (starts[d] + at.shape[d]) * at.strides[d] > outer:
            return None
        outer = at.strides[d]
    return starts if rest == 0 else None
