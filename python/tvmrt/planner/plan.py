"""Lifetimes of a program's buffers, sharing in place, and the arena's size."""

from __future__ import annotations

from tvmrt.ir.program import ALIGN_BYTES, ARENA, Buffer, Program, Step

from .arena import Interval, liveness_bound, place
from .lifetime import lifetimes


def plan_program(program: Program) -> None:
    """Give every arena buffer its address and the program its arena's size.

    ``program.lower_bound_bytes`` becomes the most bytes that live at one step, given the same
    sharing in place and the same alignment of sizes.
    """
    lives = lifetimes(program)
    shared = share_in_place(program, lives)
    roots = [b for b in lives if shared[b] is b]
    intervals = [
        Interval(
            _aligned(root.nbytes),
            min(lives[b][0] for b in lives if shared[b] is root),
            max(lives[b][1] for b in lives if shared[b] is root),
        )
        for root in roots
    ]
    offsets = place(intervals)
    for root, offset in zip(roots, offsets):
        root.address = offset
    for buffer in lives:
        buffer.address = shared[buffer].address
    program.lower_bound_bytes = liveness_bound(intervals)
    program.arena_bytes = max((o + i.size for o, i in zip(offsets, intervals)), default=0)


def share_in_place(program: Program, lives) -> dict[Buffer, Buffer]:
    """For each buffer the one whose memory it takes over (itself if none).

    Steps keep in ``in_place`` only the pairs that really share.
    """
    shared = {b: b for b in lives}
    for i, step in enumerate(program.steps):
        kept = []
        for read, write in step.in_place:
            source, target = step.reads[read].buffer, step.writes[write].buffer
            if not kept and _may_share(step, i, source, target, lives):
                shared[target] = shared[source]
                kept.append((read, write))
        step.in_place = kept
    return shared


def _may_share(step: Step, index: int, source: Buffer, target: Buffer, lives) -> bool:
    if source.kind != ARENA or target.kind != ARENA or source is target:
        return False
    if source.nbytes != target.nbytes:
        return False
    if lives[source][1] != index or lives[target][0] != index:
        return False
    pairs = {r for r, _ in step.in_place}
    # every read of the source must be one that visits the same places as the write
    return all(r in pairs for r, a in enumerate(step.reads) if a.buffer is source)


def _aligned(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGN_BYTES) * ALIGN_BYTES
