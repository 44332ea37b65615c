"""Lifetimes of a program's buffers."""

from __future__ import annotations

from tvmrt.compiler.ir import region_of
from tvmrt.compiler.ir.program import ARENA, Buffer, Program
from tvmrt.compiler.ir.sizes import expected_size


def lifetimes(program: Program) -> dict[Buffer, tuple[int, int]]:
    """Return the first and last step that uses each arena buffer.

    Inputs are live from before the first step. Outputs, and the counts that give their extents,
    stay live until after the last step, as do buffers that persist until the next run. States are
    live throughout. In concurrent programs, so are buffers that regions on other devices use,
    because any step may run at the same time.
    """
    live_ranges: dict[Buffer, tuple[int, int]] = {
        b: (-1, -1) for b in program.inputs if b.kind == ARENA
    }
    for i, step in enumerate(program.steps):
        touched = [a.buffer for a in step.accesses()]
        if step.scratch is not None:
            touched.append(step.scratch)
        for buffer in touched:
            if buffer.kind == ARENA:
                first, _ = live_ranges.get(buffer, (i, i))
                live_ranges[buffer] = (first, i)
    end = len(program.steps)
    if program.concurrent:
        live_ranges.update((b, (-1, end)) for b in live_ranges if b in _touched_by_regions(program))
    for buffer in _persistent_buffers(program):
        live_ranges[buffer] = (live_ranges[buffer][0], end)
    sizes = list(program.data_dependent_dims.values())
    if program.has_unbounded_dims():  # each later phase of a run reads the sizes found so far
        sizes += [a for step in program.steps for a in step.data_dependent_dims.values()]
    for buffer in (*program.outputs, *(a.buffer for a in sizes)):
        if buffer.kind == ARENA:
            first, _ = live_ranges.get(buffer, (end, end))
            live_ranges[buffer] = (first, end)
    live_ranges.update((b, (-1, end)) for b in program.states)
    return live_ranges


def _persistent_buffers(program: Program) -> list[Buffer]:
    """Return the buffers that persist until the next run."""
    makers = [step for step in program.steps if step.group.root.operator.results_persist]
    return [a.buffer for step in makers for a in step.writes if a.buffer.kind == ARENA]


def _touched_by_regions(program: Program) -> set[Buffer]:
    regions = [step for step in program.steps if region_of(step.group.root) is not None]
    return {access.buffer for step in regions for access in step.accesses()}


def traffic(program: Program) -> dict[Buffer, int]:
    """Return the maximum bytes of each arena buffer that the steps read and write in one run."""
    moved: dict[Buffer, int] = {}
    for step in program.steps:
        for access in [*step.reads, *step.writes]:
            if access.buffer.kind == ARENA:
                nbytes = access.dtype.nbytes(expected_size(access.at.size))
                moved[access.buffer] = moved.get(access.buffer, 0) + nbytes
        if step.scratch is not None:
            moved[step.scratch] = moved.get(step.scratch, 0) + 2 * step.scratch.nbytes
    return moved
