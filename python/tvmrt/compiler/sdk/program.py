"""The planned program: steps, buffers, memory."""

from tvmrt.compiler.ir.program import ARENA, CONSTANT, Access, Buffer, MemoryPool, Program, Step
from tvmrt.compiler.ir.strided import dense

__all__ = [
    "ARENA", "Access", "Buffer", "CONSTANT", "MemoryPool", "Program", "Step", "dense",
]  # fmt: skip
