"""Concatenations without copies: producers write into the slices themselves."""

from __future__ import annotations

import numpy as np

from tvmrt.ir import Strided
from tvmrt.ir.extent import Whole, counts_in, exact_quotient, least, symbols_of
from tvmrt.ir.program import ARENA, Access, Buffer, Program, Step, satisfies
from tvmrt.planner.lifetime import lifetimes


def join_concatenations(program: Program) -> None:
    """Let producers write straight into the concatenation that they are copied into.

    A copy into a slice of a larger buffer vanishes when every step that touches the source
    buffer can work with the slice's strides.
    """
    copies = [step for step in program.steps if _is_plain_copy(step)]
    if program.states:  # what a run leaves takes its place when nobody reads what it has found
        copies = [s for s in copies if not {a.buffer for a in s.accesses()} & set(program.states)]
    if not copies:
        return
    joined: set[Step] = set()
    memory = _Memory(program)
    changed = True
    while changed:
        changed = False
        for step in copies:
            if step not in joined and _join(memory, step):
                joined.add(step)
                changed = True
    program.steps = [step for step in program.steps if step not in joined]


def _is_plain_copy(step: Step) -> bool:
    alone = step.group.root.op == "identity" and len(step.group.nodes) == 1
    return alone and bool(step.reads) and not step.guard


class _Memory:
    """Which steps touch each buffer of the arena, and the bytes that live at each step, nothing
    shared in place. Kept up to date join by join: a network may have thousands."""

    def __init__(self, program: Program) -> None:
        self.position = {step: i for i, step in enumerate(program.steps)}
        self.touching: dict[Buffer, list[Step]] = {}
        for step in program.steps:
            for buffer in dict.fromkeys(access.buffer for access in step.accesses()):
                self.touching.setdefault(buffer, []).append(step)
        self.live = np.zeros(len(program.steps), np.int64)
        for buffer, (first, last) in lifetimes(program).items():
            self.live[first : last + 1] += buffer.nbytes

    def life(self, steps: list[Step]) -> slice:
        """From the first to the last of some steps."""
        places = [self.position[step] for step in steps]
        return slice(min(places), max(places) + 1)

    def merged(self, source: Buffer, target: Buffer, copy: Step) -> list[Step] | None:
        """The steps that touch the target once it takes the source in and nothing is copied; None
        if the most that lives at one step would then be more."""
        steps = dict.fromkeys([*self.touching[target], *self.touching[source]])
        del steps[copy]
        live = self.live.copy()
        for buffer in (source, target):
            live[self.life(self.touching[buffer])] -= buffer.nbytes
        live[self.life(list(steps))] += target.nbytes
        if live.max() > self.live.max():
            return None
        self.live = live
        return list(steps)


def _join(memory: _Memory, copy: Step) -> bool:
    source, target = copy.reads[0], copy.writes[0]
    if source.buffer.kind != ARENA or target.buffer.kind != ARENA:
        return False
    at = target.at
    if counts_in(at.shape, at.strides, at.offset):
        return False  # who makes the source may run before the count is known that tells the place
    if source.buffer is target.buffer or not source.covers_buffer() or 0 in source.at.shape:
        return False
    touching = memory.touching[source.buffer]
    moved = _moved_accesses(touching, copy)
    if moved is None:
        return False
    merged = memory.merged(source.buffer, target.buffer, copy)
    if merged is None:
        # the concatenation would have to live so long that a copy is the cheaper way
        return False
    memory.touching[target.buffer] = merged
    del memory.touching[source.buffer]
    for step in touching:
        if step is copy:
            continue
        count = len(step.reads)
        step.reads = [moved.get((id(step), i), a) for i, a in enumerate(step.reads)]
        step.writes = [moved.get((id(step), count + i), a) for i, a in enumerate(step.writes)]
    return True


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


def _through(at: Strided, source: Strided, target: Strided) -> Strided | None:
    """An access to the source buffer, as an access to where the copy would put it.

    Every stride and the offset is split along the source's axes, which are dense.
    """
    order = [d for d in source.order() if source.shape[d] != 1]
    turned = _permuted(at, order, source, target)
    if turned is not None:
        return turned

    def moved(distance: Whole) -> Whole | None:
        if symbols_of(distance, source.strides):
            return _moved_along(distance, order, source, target)
        sign, distance = (-1, -distance) if distance < 0 else (1, distance)
        total = 0
        for d in order:
            count, distance = divmod(distance, source.strides[d])
            total += count * target.strides[d]
        return sign * total if distance == 0 else None

    strides = []
    for extent, stride in zip(at.shape, at.strides):
        new = moved(stride) if extent != 1 else 0
        # one stride serves the whole axis only if steps along it never carry into another axis
        if new is None or (extent != 1 and moved(stride * (extent - 1)) != new * (extent - 1)):
            return None
        strides.append(new)
    start = moved(at.offset)
    if start is None:
        return None
    # axes of the access that together walk one axis of the source are checked as a whole
    last = sum((n - 1) * s for n, s in zip(at.shape, at.strides) if n != 1)
    new_last = sum((n - 1) * s for n, s in zip(at.shape, strides) if n != 1)
    whole = at.offset == 0 and at.size == source.size and symbols_of(at.shape)
    if not whole and moved(at.offset + last) != start + new_last:
        return None
    return Strided(at.shape, tuple(strides), target.offset + start)


def _permuted(at: Strided, order: list[int], source: Strided, target: Strided) -> Strided | None:
    """An access to all elements whose axes are the source's in any order, whatever their extents
    turn out to be; None for any other."""
    axes = {(source.shape[d], source.strides[d]): target.strides[d] for d in order}
    found = [(n, s) for n, s in zip(at.shape, at.strides) if n != 1]
    if at.offset != 0 or len(set(found)) != len(order) or not axes.keys() >= set(found):
        return None
    strides = tuple(0 if n == 1 else axes[n, s] for n, s in zip(at.shape, at.strides))
    return Strided(at.shape, strides, target.offset)


def _moved_along(
    distance: Whole, order: list[int], source: Strided, target: Strided
) -> Whole | None:
    """A distance that is so many steps along one axis of the source, whatever its extents are."""
    for d in order:
        count = exact_quotient(distance, source.strides[d])
        if count is not None and least(count) >= 0 and least(source.shape[d] - 1 - count) >= 0:
            return count * target.strides[d]
    return 0 if distance == 0 else None
