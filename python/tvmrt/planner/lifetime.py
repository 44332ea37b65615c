"""When each buffer of a program is alive."""

from __future__ import annotations

from tvmrt.ir.program import ARENA, Buffer, Program


def lifetimes(program: Program) -> dict[Buffer, tuple[int, int]]:
    """First and last step that touches each arena buffer."""
    lives: dict[Buffer, tuple[int, int]] = {}
    for i, step in enumerate(program.steps):
        touched = [a.buffer for a in step.accesses()]
        if step.scratch is not None:
            touched.append(step.scratch)
        for buffer in touched:
            if buffer.kind == ARENA:
                first, _ = lives.get(buffer, (i, i))
                lives[buffer] = (first, i)
    return lives
