"""Concatenation without copies: producers write directly into the slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import Strided
from tvmrt.compiler.ir.program import ARENA, Access, Buffer, Program, Step, satisfies
from tvmrt.compiler.ir.sizes import (
    SymInt,
    data_dependent_symbols,
    exact_quotient,
    lower_bound,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.planner.lifetime import lifetimes

from .loops.loop_nest import Loop, merge_loops

_SOURCE, _TARGET = 0, 1  # index of the strides of a copy

# Steps whose accesses are moved for a join. In a chain of concatenations each join moves those of
# all earlier ones; a copy that remains costs less than to move thousands.
MAX_MOVED_STEPS = 128


def remove_concat_copies(program: Program, hosted: bool = False) -> None:
    """Let producers write directly into the concatenation that they are copied into.

    The copy into a slice of a larger buffer is removed if every step that touches the source buffer
    can work with the slice's strides. A join must not increase the peak memory. On hosts, where
    memory is cheaper than copies, all joins together may add one eighth.
    """
    copies = [step for step in program.steps if _is_plain_copy(step)]
    if program.states:  # a state is updated by a copy, after all reads of its old value
        copies = [s for s in copies if not {a.buffer for a in s.accesses()} & set(program.states)]
    if not copies:
        return
    joined: set[Step] = set()
    memory = _Memory(program, hosted)
    changed = True
    while changed:
        changed = False
        for step in copies:
            if step not in joined and _write_into_slice(memory, step):
                joined.add(step)
                changed = True
    program.steps = [step for step in program.steps if step not in joined]


def _is_plain_copy(step: Step) -> bool:
    alone = step.group.root.operator.is_copy and len(step.group.nodes) == 1
    return alone and bool(step.reads) and not step.guard


class _Memory:
    """Steps that touch each arena buffer, and the live bytes at each step without in-place sharing.
    Updated incrementally, because a network may have thousands of joins."""

    def __init__(self, program: Program, hosted: bool) -> None:
        self.position = {step: i for i, step in enumerate(program.steps)}
        self.touching: dict[Buffer, list[Step]] = {}
        for step in program.steps:
            for buffer in dict.fromkeys(access.buffer for access in step.accesses()):
                self.touching.setdefault(buffer, []).append(step)
        self.live = np.zeros(len(program.steps), np.int64)
        for buffer, (first, last) in lifetimes(program).items():
            self.live[first : last + 1] += buffer.nbytes
        self.allowance = self.live.max() // 8 if hosted else 0  # bytes that all joins may add

    def step_range(self, steps: list[Step]) -> slice:
        """Return the range from the first to the last of these steps."""
        positions = [self.position[step] for step in steps]
        return slice(min(positions), max(positions) + 1)

    def merge(self, source: Buffer, target: Buffer, copy: Step) -> list[Step] | None:
        """Record a join and return the steps that touch the target afterwards. Return None, with
        nothing recorded, if the peak memory would exceed the limit."""
        steps = dict.fromkeys([*self.touching[target], *self.touching[source]])
        del steps[copy]
        live = self.live.copy()
        for buffer in (source, target):
            live[self.step_range(self.touching[buffer])] -= buffer.nbytes
        live[self.step_range(list(steps))] += target.nbytes
        more = live.max() - self.live.max()
        if more > self.allowance:
            return None
        self.allowance -= max(more, 0)
        self.live = live
        return list(steps)


def _write_into_slice(memory: _Memory, copy: Step) -> bool:
    source, target = copy.reads[0], copy.writes[0]
    if source.buffer.kind != ARENA or target.buffer.kind != ARENA:
        return False
    at = target.at
    if data_dependent_symbols(at.shape, at.strides, at.offset, target.buffer.size):
        return False  # the source may be written before the count in this size or layout is known
    if source.buffer is target.buffer or not source.covers_buffer() or 0 in source.at.shape:
        return False
    touching = memory.touching[source.buffer]
    if len(touching) > MAX_MOVED_STEPS:
        return False
    moved = _translate_accesses(touching, copy)
    if moved is None:
        return False
    merge = memory.merge(source.buffer, target.buffer, copy)
    if merge is None:
        # the concatenation would live so long that a copy costs less
        return False
    memory.touching[target.buffer] = merge
    del memory.touching[source.buffer]
    for step in touching:
        if step is copy:
            continue
        count = len(step.reads)
        step.reads = [moved.get((id(step), i), a) for i, a in enumerate(step.reads)]
        step.writes = [moved.get((id(step), count + i), a) for i, a in enumerate(step.writes)]
    return True


def _translate_accesses(touching: list[Step], copy: Step) -> dict[tuple[int, int], Access] | None:
    """Return accesses to the copy's target that replace those to its source, by step and operand
    index; None if an access cannot be replaced."""
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
            at = translate_access(access.at, source.at, target.at)
            if at is None or not satisfies(at, step.demands[i]):
                return None
            moved[id(step), i] = Access(target.buffer, at)
        if step.group.after and not _can_fuse_epilogue(step, moved):
            return None
    return moved


def _can_fuse_epilogue(step: Step, moved: dict[tuple[int, int], Access]) -> bool:
    """Return whether a kernel's epilogue can still be fused: its operands have no demand of their
    own, but kernels read them in the layout of their rows."""
    reads = (moved.get((id(step), i), access) for i, access in enumerate(step.reads))
    return step.lowering.accepts_epilogue(dict(zip(step.read_values, reads)))


def translate_access(at: Strided, source: Strided, target: Strided) -> Strided | None:
    """Translate an access to the copy's source buffer into one to its target.

    Every stride and the offset are split along the source's axes, which are dense.
    """
    order = [d for d in source.order() if source.shape[d] != 1]
    turned = _permute_access(at, order, source, target)
    if turned is not None:
        return turned
    # merge axes that are contiguous in the target, too
    axes = merge_loops(source.shape, order, (source.strides, target.strides))
    start = _split(at.offset, axes)
    steps = [_split(s if n != 1 else 0, axes) for n, s in zip(at.shape, at.strides)]
    if start is None or None in steps or not _stays_inside(at.shape, start, steps, axes):
        return None

    def moved(counts: list[SymInt]) -> SymInt:
        return sum((count * axis.strides[_TARGET] for count, axis in zip(counts, axes)), 0)

    return Strided(at.shape, tuple(map(moved, steps)), target.offset + moved(start))


def _split(distance: SymInt, axes: list[Loop]) -> list[SymInt] | None:
    """Return how many steps along each axis a distance in the source is; None if unknown."""
    counts: list[SymInt] = [0] * len(axes)
    if symbols_of(distance, [axis.strides[_SOURCE] for axis in axes]):
        for i, axis in enumerate(axes):
            count = exact_quotient(distance, axis.strides[_SOURCE])
            if count is None or lower_bound(count) < 0:
                continue
            if lower_bound(axis.extent - 1 - count) >= 0:
                counts[i] = count
                return counts
        return counts if distance == 0 else None
    sign, left = (-1, -distance) if distance < 0 else (1, distance)
    for i, axis in enumerate(axes):
        count, left = divmod(left, axis.strides[_SOURCE])
        counts[i] = sign * count
    return counts if left == 0 else None


def _stays_inside(
    shape: Sequence[SymInt], start: list[SymInt], steps: list[list[SymInt]], axes: list[Loop]
) -> bool:
    """Return whether all elements of an access stay within their axes and never wrap to the next
    step of an outer axis. Only then one stride serves each axis of the access. Comparing corners is
    not enough: they do not move if the axes between them are permuted."""
    for i, axis in enumerate(axes):
        first = last = start[i]
        for extent, step in zip(shape, steps):
            distance = step[i] * (extent - 1)
            if upper_bound(distance) < 0:
                first += distance
            else:
                last += distance
        if lower_bound(first) < 0 or lower_bound(axis.extent - 1 - last) < 0:
            return False
    return True


def _permute_access(
    at: Strided, order: list[int], source: Strided, target: Strided
) -> Strided | None:
    """Translate an access to all elements whose axes are a permutation of the source's, also with
    symbolic extents; None for any other access."""
    axes = {(source.shape[d], source.strides[d]): target.strides[d] for d in order}
    kept_axes = [(n, s) for n, s in zip(at.shape, at.strides) if n != 1]
    if at.offset != 0 or len(set(kept_axes)) != len(order) or not axes.keys() >= set(kept_axes):
        return None
    strides = tuple(0 if n == 1 else axes[n, s] for n, s in zip(at.shape, at.strides))
    return Strided(at.shape, strides, target.offset)
