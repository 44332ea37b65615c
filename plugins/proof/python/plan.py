"""Tensors of each operator as regions of memory, and what must stay unchanged while it runs.

Which tensors are live is computed from the operators' operands alone, so that an error of the
memory planner becomes a contract that does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvmrt.compiler.sdk.codegen import Parameter, Sources
from tvmrt.compiler.sdk.program import ARENA, CONSTANT, Access, Buffer, Program, Step
from tvmrt.error import UnsupportedError


@dataclass(frozen=True)
class Operand:
    """A parameter that is a tensor.

    ``read``: its bytes have values before the call. ``written``: it is a result or scratch.
    ``complete``: the call gives all of its bytes values.
    """

    name: str
    buffer: Buffer
    offset: int  # elements
    read: bool
    written: bool
    complete: bool

    @property
    def nbytes(self) -> int:
        """Bytes from the address that is passed to the end of the tensor."""
        return self.buffer.nbytes - self.offset_bytes

    @property
    def address(self) -> int:
        """Offset in the memory pool, in bytes."""
        return (self.buffer.address or 0) + self.offset_bytes

    @property
    def offset_bytes(self) -> int:
        return int(self.buffer.dtype.nbytes(self.offset))


@dataclass
class OperatorPlan:
    """An operator: its operands in the order of the C parameters, and pairs of tensors whose memory
    must not overlap: one that it writes, and one that is needed later or read by it."""

    symbol: str
    declaration: str
    operands: list[Operand]
    apart: list[tuple[Buffer, Buffer]] = field(default_factory=list)


def make_plans(program: Program, sources: Sources) -> list[OperatorPlan]:
    """Return the plan of each operator.

    Raises UnsupportedError for networks whose operators do not always run, whose sizes are dynamic,
    or that keep state between runs.
    """
    _check_supported(program, sources)
    spans = _spans(program)
    complete = _complete_buffers(program)
    plans = []
    for i, (step, function) in enumerate(zip(program.steps, sources.functions)):
        operands = [_operand(each, step, complete) for each in function.parameters]
        plan = OperatorPlan(function.symbol, _declaration(function), operands)
        plan.apart = _separate_pairs(i, step, spans)
        plans.append(plan)
    return plans


def _check_supported(program: Program, sources: Sources) -> None:
    program.reject_varying_runs("proof")
    reason = None
    if any(pool.is_external for pool in program.pools):
        reason = "uses memory that the caller provides"
    elif sources.resident:
        reason = "copies weights to RAM"
    elif any(p.buffer is None for f in sources.functions for p in f.parameters):
        reason = "has operators with parameters that are not tensors"
    if reason is not None:
        raise UnsupportedError(f"the network {reason}, which proof does not support")


def _declaration(function: Any) -> str:
    parameters = ", ".join(str(p.declare()) for p in function.parameters)
    return f"int32_t {function.symbol}({parameters})"


def _operand(parameter: Parameter, step: Step, complete: set[Buffer]) -> Operand:
    buffer = parameter.buffer
    assert buffer is not None, parameter  # checked
    writes = [access for access in step.writes if access.buffer is buffer]
    read = buffer.kind == CONSTANT or any(access.buffer is buffer for access in step.reads)
    covered = bool(writes) and all(access.covers_buffer() for access in writes)
    return Operand(
        parameter.name, buffer, int(parameter.offset), read and (buffer in complete or not writes),
        not parameter.const, covered,
    )  # fmt: skip


def _complete_buffers(program: Program) -> set[Buffer]:
    """Return the buffers with values in all of their bytes when they are read."""
    found = {*program.inputs}
    partly: dict[Buffer, list[Access]] = {}
    for step in program.steps:
        for access in step.writes:
            partly.setdefault(access.buffer, []).append(access)
    for buffer, accesses in partly.items():
        if any(a.covers_buffer() for a in accesses) or _elements(accesses) >= buffer.size:
            found.add(buffer)
    return found


def _elements(accesses: list[Access]) -> int:
    return sum(int(access.at.size) for access in accesses)


def _spans(program: Program) -> dict[Buffer, tuple[int, int]]:
    """Return the first writer and the last reader of each tensor in the arena, as step numbers."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for i, step in enumerate(program.steps):
        for access in (*step.writes, *step.reads):
            if access.buffer.kind == ARENA:
                first = spans.get(access.buffer, (i, i))[0]
                spans[access.buffer] = first, i
    return spans


def _separate_pairs(
    index: int, step: Step, spans: dict[Buffer, tuple[int, int]]
) -> list[tuple[Buffer, Buffer]]:
    """Return pairs of a buffer that a step writes and another that it must not change."""
    written = [access.buffer for access in step.writes]
    written += [step.scratch] if step.scratch is not None else []
    shared = {(step.reads[r].buffer, step.writes[w].buffer) for r, w in step.in_place}
    pairs = []
    for buffer in dict.fromkeys(written):
        if buffer.kind != ARENA:
            continue
        others = [b for b, (first, last) in spans.items() if first <= index <= last]
        others += [step.scratch] if step.scratch is not None else []
        for other in dict.fromkeys(others):
            ends_here = spans.get(other, (0, index))[1] == index
            if other is buffer or (ends_here and (other, buffer) in shared):
                continue
            if other.kind == ARENA and other.pool == buffer.pool:
                pairs.append((buffer, other))
    return pairs


__all__ = ["Operand", "OperatorPlan", "make_plans"]
