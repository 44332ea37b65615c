"""Tensors that cross the boundaries of regions in the finished program: their bytes, and whether
a step had to copy them to another layout."""

from __future__ import annotations

from tvmrt.compiler.ir import Region, region_of
from tvmrt.compiler.ir.program import ARENA, Buffer, Program, Step
from tvmrt.compiler.ir.sizes import upper_bound

from .annotate import CPU
from .report import BoundaryTensor


def boundary_tensors(program: Program) -> list[BoundaryTensor]:
    """Return one row per tensor and pair of devices, in the order of the steps that read."""
    writers: dict[Buffer, list[Step]] = {}
    rows: dict[tuple[str, str, str], BoundaryTensor] = {}
    for step in program.steps:
        if not _is_copy(step):
            for row in _read_tensors(step, writers):
                rows.setdefault((row.tensor, row.source, row.target), row)
        for access in step.writes:
            writers.setdefault(access.buffer, []).append(step)
    for buffer in program.outputs:
        for row in _boundary_rows(buffer, upper_bound(buffer.nbytes), CPU, writers):
            rows.setdefault((row.tensor, row.source, row.target), row)
    return list(rows.values())


def _device(step: Step) -> str:
    root = step.group.root
    region: Region | None = region_of(root)
    return CPU if region is None else region.device


def _is_copy(step: Step) -> bool:
    return step.group.root.operator.is_copy and len(step.group.nodes) == 1 and not step.guard


def _read_tensors(step: Step, writers) -> list[BoundaryTensor]:
    """Return the rows of tensors that the step reads from another device."""
    tensors = []
    for access in step.reads:
        nbytes = upper_bound(access.dtype.nbytes(access.at.size))
        tensors += _boundary_rows(access.buffer, nbytes, _device(step), writers)
    return tensors


def _boundary_rows(buffer: Buffer, nbytes: int, target: str, writers) -> list[BoundaryTensor]:
    writing_steps = writers.get(buffer, [])
    if not writing_steps:  # an input of the network
        return [] if target == CPU else [BoundaryTensor(buffer.name, CPU, target, nbytes, False)]
    rows = []
    for step in writing_steps:
        copied = _is_copy(step) and bool(step.reads)
        origin = step
        if copied:
            before = writers.get(step.reads[0].buffer)
            if before is None:
                if target != CPU:
                    rows.append(
                        BoundaryTensor(step.reads[0].buffer.name, CPU, target, nbytes, True)
                    )
                continue
            origin = before[-1]
        if _device(origin) != target or target != CPU:  # two regions of a device have a boundary
            name = origin.writes[0].buffer.name if copied else buffer.name
            stays = buffer.memory.name if buffer.memory and buffer.kind == ARENA else ""
            rows.append(BoundaryTensor(name, _device(origin), target, nbytes, copied, stays))
    return rows
