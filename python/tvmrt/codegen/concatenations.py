"""Concatenations without copies: producers write into the slices themselves."""

from __future__ import annotations

from tvmrt.ir import Strided
from tvmrt.ir.program import ARENA, Access, Program, Step, satisfies
from tvmrt.planner.arena import Interval, liveness_bound
from tvmrt.planner.lifetime import lifetimes


def join_concatenations(program: Program) -> None:
    """Let producers write straight into the concatenation that they are copied into.

    A copy into a slice of a larger buffer vanishes when every step that touches the source
    buffer can work with the slice's strides.
    """
    changed = True
    while changed:
        changed = False
        for step in list(program.steps):
            if _is_plain_copy(step) and _join(program, step):
                changed = True


def _is_plain_copy(step: Step) -> bool:
    alone = step.group.root.op == "identity" and len(step.group.nodes) == 1
    return alone and bool(step.reads) and not step.guard


def _join(program: Program, copy: Step) -> bool:
    source, target = copy.reads[0], copy.writes[0]
    if source.buffer.kind != ARENA or target.buffer.kind != ARENA:
        return False
    if source.buffer is target.buffer or not source.covers_buffer() or 0 in source.at.shape:
        return False
    touching = [s for s in program.steps if any(a.buffer is source.buffer for a in s.accesses())]
    moved = _moved_accesses(touching, copy)
    if moved is None:
        return False
    before = _live_bytes(program)
    saved = [(s, s.reads, s.writes) for s in touching]
    position = program.steps.index(copy)
    program.steps.remove(copy)
    for step in touching:
        if step is copy:
            continue
        count = len(step.reads)
        step.reads = [moved.get((id(step), i), a) for i, a in enumerate(step.reads)]
        step.writes = [moved.get((id(step), count + i), a) for i, a in enumerate(step.writes)]
    if _live_bytes(program) <= before:
        return True
    # the concatenation would have to live so long that a copy is the cheaper way
    program.steps.insert(position, copy)
    for step, reads, writes in saved:
        step.reads, step.writes = reads, writes
    return False


def _moved_accesses(touching: list[Step], copy: Step) -> dict[tuple[int, int], Access] | None:
    """By step and number: accesses to the copy's source as accesses to its target; None if one of
    them cannot be."""
    source, target = copy.reads[0], copy.writes[0]
    moved = {}
    for step in touching:
        if step is copy:
            continue
        if step.guard and any(a.buffer is source.buffer for a in [*step.writes, step.guard[0]]):
            return None
        for i, access in enumerate([*step.reads, *step.writes]):
            if access.buffer is not source.buffer:
                continue
            at = _through(access.at, source.at, target.at)
            if at is None or not satisfies(at, step.demands[i]):
                return None
            moved[id(step), i] = Access(target.buffer, at)
    return moved


def _live_bytes(program: Program) -> int:
    """The most bytes of arena that live at one step, nothing shared in place."""
    lives = lifetimes(program)
    return liveness_bound([Interval(b.nbytes, first, last) for b, (first, last) in lives.items()])


def _through(at: Strided, source: Strided, target: Strided) -> Strided | None:
    """An access to the source buffer, as an access to where the copy would put it.

    Every stride and the offset is split along the source's axes, which are dense.
    """
    order = [d for d in source.order() if source.shape[d] > 1]

    def moved(distance: int) -> int | None:
        sign, distance = (-1, -distance) if distance < 0 else (1, distance)
        total = 0
        for d in order:
            count, distance = divmod(distance, source.strides[d])
            total += count * target.strides[d]
        return sign * total if distance == 0 else None

    strides = []
    for extent, stride in zip(at.shape, at.strides):
        new = moved(stride) if extent > 1 else 0
        # one stride serves the whole axis only if steps along it never carry into another axis
        if new is None or (extent > 1 and moved(stride * (extent - 1)) != new * (extent - 1)):
            return None
        strides.append(new)
    start = moved(at.offset)
    if start is None:
        return None
    # axes of the access that together walk one axis of the source are checked as a whole
    last = sum((n - 1) * s for n, s in zip(at.shape, at.strides) if n > 1)
    new_last = sum((n - 1) * s for n, s in zip(at.shape, strides) if n > 1)
    if moved(at.offset + last) != start + new_last:
        return None
    return Strided(at.shape, tuple(strides), target.offset + start)
