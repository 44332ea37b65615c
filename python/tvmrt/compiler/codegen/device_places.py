"""Which tensors may lie in the memory of a device: those that its regions alone touch.

What lies there between two regions is in no memory of the host's, and inputs and outputs may be the
caller's tensors on the device. A region that may fail leaves its tensors to the host, whose code
takes its place.
"""

from __future__ import annotations

from tvmrt.compiler.ir import DeviceMemory, ModuleBlob, Region
from tvmrt.compiler.ir.program import ARENA, INPUT, OUTPUT, Access, Buffer, Program, Step


def place_on_devices(program: Program) -> None:
    """Mark the buffers that regions of one device alone touch, before memory is planned."""
    touched: dict[Buffer, set[DeviceMemory | None]] = {}
    for step in program.steps:
        memory = _memory(step)
        for access in [*step.reads, *step.writes]:
            touched.setdefault(access.buffer, set()).add(memory)
        for access in [*([step.guard[0]] if step.guard else []), *step.counts.values()]:
            touched.setdefault(access.buffer, set()).add(None)
    for buffer in [*program.states, *(access.buffer for access in program.counts.values())]:
        touched.setdefault(buffer, set()).add(None)
    for buffer, memories in touched.items():
        if len(memories) == 1 and buffer.kind in (ARENA, INPUT, OUTPUT):
            (buffer.memory,) = memories


def _memory(step: Step) -> DeviceMemory | None:
    """The memory that a step reaches beside the host's."""
    region = _region(step)
    return None if region is None else region.memory


def is_movable(access: Access) -> bool:
    """Whether each run tells anew in which memory a tensor lies."""
    return access.buffer.memory is not None and access.buffer.kind in (INPUT, OUTPUT)


def defer_regions(program: Program) -> None:
    """Mark the regions that a program compiled ahead starts, to wait for them where somebody needs
    what they write or memory that they read."""
    for step in program.steps:
        region = _region(step)
        if region is not None:
            step.deferred = region.code.type_key == "device_region"


def _region(step: Step) -> Region | None:
    """The region of a step that a module always runs: no code of the host's takes its place."""
    root = step.group.root
    region = root.attrs["region"] if root.op == "region" else None
    if region is None or region.reports_failure or step.guard is not None:
        return None
    return region if isinstance(region.code, ModuleBlob) else None
