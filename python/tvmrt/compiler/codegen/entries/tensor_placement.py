"""Placement of a network's tensors in device memory, and detection of the device of the caller's
tensors."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import Buffer, Program

from ..c.formatting import print_fields, wrap
from .metadata import pool_memories, print_getter

HEADERS = ("#include <tvm/runtime/placement.h>",)
HOST = "{kDLCPU, 0}"


def is_placed(program: Program) -> bool:
    """Return whether tensors may lie outside of host memory."""
    buffers = [*program.inputs, *program.outputs]
    return bool(program.device_pools()) or any(b.memory is not None for b in buffers)


def reads_devices(program: Program) -> bool:
    """Return whether a run reads the devices of inputs or outputs."""
    return any(b.memory is not None for b in [*program.inputs, *program.outputs])


def print_placement(program: Program, prefix: str) -> list[str]:
    """Return C lines with the placement struct and its getter; empty if all is in host memory."""
    if not is_placed(program):
        return []
    table = {
        "inputs": [_place(b) for b in program.inputs],
        "outputs": [_place(b) for b in program.outputs],
        "pools": [HOST if m is None else m.c for m in pool_memories(program)],
    }
    lines: list[str] = []
    fields: dict[str, object] = {"struct_bytes": "sizeof(tvmrt_placement)"}
    for word, places in table.items():
        lines += _array(f"placed_{word}", places)
        fields[word] = f"placed_{word}" if places else "NULL"
        fields[f"num_{word}"] = len(places)
    lines += [*print_fields("static const tvmrt_placement placement", fields), ""]
    return [*lines, *print_getter(prefix, "get_placement", "&placement")]


def _array(name: str, places: Sequence[str]) -> list[str]:
    if not places:
        return []
    return wrap(f"static const DLDevice {name}[] = ", places, ";", brackets="{}")


def _place(buffer: Buffer) -> str:
    return HOST if buffer.memory is None else buffer.memory.c


READER = [
    "/* Return the device of a tensor argument. */",
    "static DLDevice tensor_device(TVMValue value) {",
    "  return ((const DLTensor *)value.v_handle)->device;",
    "}",
    "",
]
