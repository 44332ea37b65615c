"""Plan of the checks: after which operator each tensor is summed, and where it is compared.

A tensor is summed after each operator that writes to it. Changed memory stays changed, so one
comparison after its last reader covers all of its readers, and changes while they run. If the last
reader overwrites the memory, the comparison is before it.

Weights that may be indices are compared before each operator that reads them, too, because changed
ones might lead out of the memory of a tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tvmrt.compiler.sdk.codegen import Function, Parameter, Sources
from tvmrt.compiler.sdk.program import CONSTANT, Buffer, Program, Step

# Parameters of integer layers whose results are defined for any values of them.
_LAYER_VALUES = {"weights", "bias", "multipliers", "scale", "shift"}
_BYTE_VALUES = {"weights", "table", "data", "w", "c"}  # parameters with bytes that are only values
START = -1  # index of the "operator" that writes the inputs


@dataclass
class StepChecks:
    """Actions of one step, each with the slot of a sum; comparisons are done before new sums."""

    before: list[tuple[Buffer, int]] = field(default_factory=list)
    after: list[tuple[Buffer, int]] = field(default_factory=list)
    summed: list[tuple[Buffer, int]] = field(default_factory=list)
    weights: list[Buffer] = field(default_factory=list)
    indices: list[Buffer] = field(default_factory=list)  # weights compared before the step, too


@dataclass(frozen=True)
class _Span:
    """A sum of a buffer: made after step ``written``, compared before or after step ``checked``."""

    buffer: Buffer
    written: int
    checked: int
    is_before: bool

    @property
    def end(self) -> int:
        """Time of the comparison; a step takes two units of time."""
        return 2 * self.checked + (not self.is_before)


@dataclass
class GuardPlan:
    """Checks by step, those of the inputs, and the number of sums that exist at a time."""

    steps: dict[int, StepChecks]
    slots: int

    @property
    def inputs(self) -> list[tuple[Buffer, int]]:
        return self.steps[START].summed


def make_plan(program: Program, sources: Sources) -> GuardPlan:
    """Return the plan of a network with planned memory.

    Raises UnsupportedError for networks whose operators do not always run, whose sizes are
    dynamic, or that keep state between runs.
    """
    program.reject_varying_runs("guard")
    steps = {i: StepChecks() for i in range(START, len(program.steps))}
    spans = sorted(_spans(program), key=lambda span: (span.written, span.end))
    ends: list[int] = []  # by slot: when it is free
    for span in spans:
        begin = 2 * span.written + 1
        slot = next((i for i, end in enumerate(ends) if end <= begin), len(ends))
        ends[slot : slot + 1] = [span.end]
        steps[span.written].summed.append((span.buffer, slot))
        checks = steps[span.checked]
        (checks.before if span.is_before else checks.after).append((span.buffer, slot))
    for buffer, readers in _users(sources).items():
        steps[[*readers][-1]].weights.append(buffer)
        for i, parameters in readers.items():
            if any(_may_be_index(sources.functions[i], p, buffer) for p in parameters):
                steps[i].indices.append(buffer)
    return GuardPlan(steps, len(ends))


def _spans(program: Program) -> Iterable[_Span]:
    """Yield the sums of all tensors that are read."""
    writers: dict[Buffer, list[int]] = {buffer: [START] for buffer in program.inputs}
    readers: dict[Buffer, list[int]] = {}
    for i, step in enumerate(program.steps):
        for buffer in dict.fromkeys(access.buffer for access in step.writes):
            writers.setdefault(buffer, []).append(i)
        for buffer in dict.fromkeys(access.buffer for access in step.reads):
            readers.setdefault(buffer, []).append(i)
    for buffer in program.outputs:  # the caller reads them after the last step
        readers.setdefault(buffer, []).append(len(program.steps) - 1)
    for buffer, written in writers.items():
        last = readers.get(buffer, [START])[-1]
        for begin, following in zip(written, [*written[1:], None]):
            if following is not None and following <= last:
                yield _Span(buffer, begin, following, True)
            elif last > begin:
                yield _Span(buffer, begin, last, _overwritten(program.steps[last], buffer))
                break


def _overwritten(step: Step, buffer: Buffer) -> bool:
    """Return whether the step may write to the memory of a buffer that it reads."""
    written = [access.buffer for access in step.writes]
    written += [step.scratch] if step.scratch is not None else []
    return any(buffer.shares_memory(other) for other in written)


def _users(sources: Sources) -> dict[Buffer, dict[int, list[Parameter]]]:
    """Return the steps that read each constant, with the parameters that point to it."""
    constants = {*sources.weight_buffers}
    users: dict[Buffer, dict[int, list[Parameter]]] = {}
    for i, function in enumerate(sources.functions):
        for parameter in function.parameters:
            buffer = parameter.buffer
            if buffer is not None and (buffer.kind == CONSTANT or buffer in constants):
                users.setdefault(buffer, {}).setdefault(i, []).append(parameter)
    return users


def is_integer_layer(function: Function) -> bool:
    """Return whether an operator is a layer of int8, whose results are defined for any weights."""
    return any("_i8" in name for name in function.includes)


def _may_be_index(function: Function, parameter: Parameter, buffer: Buffer) -> bool:
    """Return whether an operator may use elements of a constant as indices, sizes or counts."""
    name = parameter.name.rstrip("0123456789")
    if buffer.dtype.is_float or buffer.dtype.is_half:
        return False
    if is_integer_layer(function) and name in _LAYER_VALUES:
        return False
    return buffer.dtype.bits > 8 or name not in _BYTE_VALUES


__all__ = ["START", "GuardPlan", "StepChecks", "is_integer_layer", "make_plan"]
