"""``--dump DIR``: the graph after every step, as numbered text files."""

from __future__ import annotations

import os
from pathlib import Path

from tvmrt.compiler.ir.graph import Graph
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.verifier import print_graph


class Dump:
    """Writer of dumps; it does nothing without a folder."""

    def __init__(self, folder: str | os.PathLike | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.count = 0
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def graph(self, stage: str, graph: Graph) -> None:
        if self.folder is not None:
            self._write(stage, print_graph(graph))

    def program(self, stage: str, program: Program) -> None:
        if self.folder is not None:
            self._write(stage, print_program(program))

    def _write(self, stage: str, text: str) -> None:
        (self.folder / f"{self.count:02d}-{stage}.txt").write_text(text)
        self.count += 1


def print_program(program: Program) -> str:
    """Return steps in order with the addresses of their operands, then the arena."""
    lines = [
        f"program {program.name}: arena {program.arena_bytes} bytes, "
        f"lower bound {program.lower_bound_bytes}"
    ]
    for i, step in enumerate(program.steps):
        reads = ", ".join(_access(a) for a in step.reads)
        writes = ", ".join(_access(a) for a in step.writes)
        lines.append(f"  {i}: {writes} = {step.name}({reads})  # {', '.join(step.sources)}")
    many = len(program.pools) > 1
    for buffer in program.arena_buffers():
        pool = f"{program.pools[buffer.pool].name} + " if many else ""
        lines.append(f"  at {pool}{buffer.address}: {buffer.name}, {buffer.nbytes} bytes")
    return "\n".join(lines) + "\n"


def _access(access) -> str:
    return f"{access.buffer.name}{list(access.shape)}@{access.at.offset}{list(access.at.strides)}"
