"""Selection of tensors that live in device memory: those that only its regions touch.

A tensor between two regions needs no host memory, and inputs and outputs may be the caller's
tensors on the device. A region that may fail keeps its tensors on the host, whose code is the
fallback.
"""

from __future__ import annotations

from tvmrt.compiler.ir import DeviceMemory, ModuleBlob, Region
from tvmrt.compiler.ir.program import ARENA, INPUT, OUTPUT, Access, Buffer, Program, Step
from tvmrt.compiler.ir.region import region_of


def place_on_devices(program: Program) -> None:
    """Mark the buffers that only regions of one device touch, before memory is planned."""
    touched: dict[Buffer, set[DeviceMemory | None]] = {}
    on_host = [*program.data_dependent_dims.values()]
    for step in program.steps:
        region = _region(step)
        memory = None if region is None else region.memory
        for access in [*step.reads, *step.writes]:
            touched.setdefault(access.buffer, set()).add(memory)
        on_host += [step.guard[0]] if step.guard else []
        on_host += step.data_dependent_dims.values()
    for buffer in [*program.states, *(access.buffer for access in on_host)]:
        touched.setdefault(buffer, set()).add(None)
    for buffer, memories in touched.items():
        if len(memories) == 1 and buffer.kind in (ARENA, INPUT, OUTPUT):
            (buffer.memory,) = memories


def is_bound_per_run(access: Access) -> bool:
    """Return whether each run may pass the tensor in a different memory."""
    return access.buffer.memory is not None and access.buffer.kind in (INPUT, OUTPUT)


def defer_regions(program: Program) -> None:
    """Mark the regions that an ahead-of-time program starts asynchronously. It waits for them
    before their results are used or the memory that they read is reused."""
    for step in program.steps:
        region = _region(step)
        if region is not None:
            step.deferred = region.code.type_key == "device_region"


def _region(step: Step) -> Region | None:
    """Return the region of a step if a module always runs it, without a fallback on the host."""
    region = region_of(step.group.root)
    if region is None or region.reports_failure or step.guard is not None:
        return None
    return region if isinstance(region.code, ModuleBlob) else None
