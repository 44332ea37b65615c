"""Placement of a network's tensors in device memory, and detection of the device of the caller's
tensors."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Buffer, Program

from ..c.formatting import counted, print_fields, wrap
from .metadata import pool_memories, print_getter

HEADERS = ("#include <tvm/runtime/placement.h>",)
HOST = "{kDLCPU, 0}"


def is_placed(program: Program) -> bool:
    """Return whether tensors may lie outside of host memory."""
    return bool(program.device_pools()) or reads_devices(program)


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
        if places:
            lines += wrap(f"static const DLDevice placed_{word}[] = ", places, ";", brackets="{}")
        fields.update(counted(word, f"placed_{word}", places))
    lines += [*print_fields("static const tvmrt_placement placement", fields), ""]
    return [*lines, *print_getter(prefix, "get_placement", "&placement")]


def _place(buffer: Buffer) -> str:
    return HOST if buffer.memory is None else buffer.memory.c


READER = [
    "/* Return the device of a tensor argument. */",
    "static DLDevice tensor_device(TVMValue value) {",
    "  return ((const DLTensor *)value.v_handle)->device;",
    "}",
    "",
]
