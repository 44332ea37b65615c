"""Attention as one step on hosts: matmul, softmax and matmul, a few rows at a time, with the
pointwise steps before and after the softmax, such as a mask.

The scores, one per query and key, stay in the cache of a task: they need no arena memory. Results
have the bits of the separate steps for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import lcm, prod

from tvmrt.compiler.ir.program import ARENA, Access, Buffer, Group, Program, Step
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import is_unbounded, upper_bound
from tvmrt.compiler.ir.sizes.undecided import statically_known_true

from .builder import reserve_scratch
from .c.initializers import print_struct
from .c.writer import FunctionWriter
from .geometry import FLOAT
from .lowering import Lowering, Scratch
from .operators.softmax import SoftmaxLowering
from .row_fusion import last_uses_of_buffers, merge_steps
from .target import Target
from .window.matmul import MatMulLowering, MatMulPlan, MatMulPrinter
from .window.row_function import has_row_function, print_row_function

FEW_ROWS = 4  # TVMRT_MATMUL_FEW_ROWS: k and v are not packed for so few queries
SCORE_BYTES = 64 << 10  # TVMRT_ATTENTION_BYTES


class AttentionLowering(Lowering):
    """``steps``: the matmul of queries and keys, the softmax of its rows, and their matmul with the
    values; a pointwise step may be before and after the softmax."""

    def __init__(self, group: Group, target: Target, steps: Sequence[Step]) -> None:
        super().__init__(group, target)
        self.steps = steps
        self.matmuls = steps[0], steps[-1]

    def macs(self) -> int:
        return sum(step.lowering.macs() for step in self.matmuls)

    def scratch(self, step: Step) -> Scratch:
        scores, values = (MatMulPlan(each.lowering, each) for each in self.matmuls)
        packed = [round_up(p.n, p.tiles().block) * p.k for p in (scores, values)]
        if is_unbounded(scores.m, scores.n, *packed):
            return Scratch(kernel_blocks=(FLOAT * sum(packed),))
        # as tvmrt_attention_f32_task(), with all rows that a task may add to its last part
        m, n = upper_bound(scores.m), upper_bound(scores.n)
        tiles = [plan.tiles() for plan in (scores, values)]
        unit = lcm(*(each.widths[0] for each in tiles))
        rows = max(SCORE_BYTES // (max(n, 1) * FLOAT), unit) + max(each.last for each in tiles)
        return Scratch(kernel_blocks=(FLOAT * (sum(map(upper_bound, packed)) + min(rows, m) * n),))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/attention_f32.h")
        scores, values = (MatMulPrinter(s.lowering, s, f, step) for s in self.matmuls)
        job = {"scores": scores.print_job(scores.Y, "scores")}
        job["values"] = values.print_job(values.A, "values")
        softmax = next(i for i, each in enumerate(self.steps) if _is_softmax_of_rows(each))
        for i, each in enumerate(self.steps[1:-1], 1):
            if i != softmax:
                member = "before" if i < softmax else "after"
                x = _passed_operand(self.steps[i - 1], each)
                job[member] = print_row_function(f, step, each, x, f"_{member}")
        name = f.fresh("attention")
        print_struct(f, f"const tvmrt_attention_f32_job {name}", job)
        f.result(f"tvmrt_attention_f32(&{name})")


def fuse_attention(program: Program, target: Target) -> Program:
    """Return the program with each attention as one step."""
    steps: list[Step] = []
    last_use = last_uses_of_buffers(program)
    for i, step in enumerate(program.steps):
        steps.append(step)
        for count in (3, 4, 5):
            chain = steps[-count:]
            if len(chain) == count and statically_known_true(_is_attention, chain, i, last_use):
                steps[-count:] = [merge_steps(chain, target, AttentionLowering)]
                reserve_scratch(steps[-1])
                break
    return replace(program, steps=steps)


def _is_attention(steps: Sequence[Step], last: int, last_use: Mapping[Buffer, int]) -> bool:
    """Return whether the steps are an attention whose scores nothing else reads. ``last``: index of
    the last one in the program."""
    first, *inner, second = steps
    softmaxes = [i for i, step in enumerate(inner) if _is_softmax_of_rows(step)]
    if len(softmaxes) != 1 or not softmaxes[0] < 2 or len(inner) - softmaxes[0] > 2:
        return False
    plain = all(step.guard is None and not step.data_dependent_dims for step in steps)
    if not (plain and _is_product(first) and _is_product(second)):
        return False
    for k, (before, after) in enumerate(pairwise(steps)):
        x = _passed_operand(before, after)
        if x is None or last_use[x.buffer] != last - len(steps) + 2 + k:
            return False
        if after in inner and not (_is_softmax_of_rows(after) or has_row_function(after, x)):
            return False
    scores, values = (MatMulPlan(each.lowering, each) for each in (first, second))
    batches = [prod(loop.extent for loop in plan.batches) for plan in (scores, values)]
    rows = [scores.row.extent, values.row.extent, values.m]
    fits = inner[softmaxes[0]].reads[0].shape[-1] == scores.n == values.k
    return fits and batches[0] == batches[1] and rows == [scores.m] * 3


def _passed_operand(before: Step, after: Step) -> Access | None:
    """Return the operand of a step that is all that another one wrote, in order; None if it has no
    such operand, or another one of that buffer. A matmul has it on the left."""
    written = before.writes[0]
    reads = [each for each in after.reads if each.buffer is written.buffer]
    if len(reads) != 1 or written.buffer.kind != ARENA:
        return None
    if isinstance(after.lowering, MatMulLowering):
        left = after.lowering.node.inputs[0]
        if after.reads[after.read_values.index(left)] is not reads[0]:
            return None
    whole = all(each.covers_buffer() and each.at.is_dense() for each in (written, reads[0]))
    return reads[0] if whole else None


def _is_softmax_of_rows(step: Step) -> bool:
    lowering = step.lowering
    if not isinstance(lowering, SoftmaxLowering) or len(lowering.group.nodes) != 1:
        return False
    attrs, rank = lowering.node.attrs, lowering.node.output.type.rank
    return attrs["axis"] == rank - 1 and not attrs.get("log") and not lowering.over_channels


def _is_product(step: Step) -> bool:
    """Return whether a step is a float32 matmul of computed operands, not of few rows."""
    if not isinstance(step.lowering, MatMulLowering) or len(step.writes) != 1:
        return False
    plan = MatMulPlan(step.lowering, step)
    if plan.is_packed or plan.reduced or len(plan.batches) > 2:
        return False
    few = isinstance(plan.m, int) and plan.m <= FEW_ROWS
    return not few and not any(v.is_constant for v in plan.node.inputs[:2])
