"""Copy weights of layers to RAM before they run, on boards whose flash has wait states.

Kernels of convolutions and matrix products read all weights again for each few output pixels. A
copy in the arena, which lives as long as the step, costs one pass over the weights and takes the
wait states away from all others. A row-fused chain copies the weights of its layers once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvmrt.compiler.ir.program import Program, RowFusionPlan, Step
from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.planner.plan import live_bytes_of_steps, plan_program

from .builder import reserve_scratch
from .mcu_families import FlashReads
from .operators.row_fused_chain import RowFusedLowering
from .pools import ALIGN_BYTES
from .row_fusion import estimated_instructions
from .window.boards.board_lowering import BoardLowering

COPY_CYCLES = 0.75  # of a byte
CYCLES_OF_AN_INSTRUCTION = 1.5
MIN_SAVING = 1e-4  # share of the network's cycles for which the code of a copy is worth its flash
TOLERANCE = 1.01  # share of the fewest cycles for which less memory is chosen
MAX_GROWTH = 1.5  # share of the memory without copies that they may take without being asked


@dataclass(frozen=True)
class _Copy:
    """Weights of a layer that may be copied: their bytes, the bytes live at the step with the copy,
    and the cycles of waiting without it and with it. ``step``: the layer itself, or its chain."""

    step: Step
    layer: Step
    nbytes: int
    live_bytes: int
    waiting: float
    rest: float


def with_weights_in_ram(
    program: Program, reads: FlashReads, capacity: int | None, ram: int | None
) -> Program:
    """Return the program with copies of weights in RAM; it lists the plans to choose from.

    The arena becomes the smallest one whose modelled cycles exceed the fewest by at most 1 %, of
    those of up to ``ram`` bytes; by default of up to ``MAX_GROWTH``. ``capacity``: bytes of the
    board's RAM.
    """
    other = estimated_instructions(program) * CYCLES_OF_AN_INSTRUCTION
    copies = _possible_copies(program, reads, other * MIN_SAVING)
    if not copies:
        return program
    plan_program(program, align_bytes=ALIGN_BYTES)
    before = program.arena_bytes
    most = max(before, min((n for n in (ram, capacity) if n is not None), default=1 << 32))
    usual = most if ram is not None else min(most, int(before * MAX_GROWTH))
    plans = []
    for limit in dict.fromkeys((most, usual)):
        _copy(program, copies, _smallest_near_best(copies, before, limit, other))
        if program.arena_bytes > limit:  # gaps between tensors
            _copy(program, copies, 0)
        done = [each for each in copies if each.layer.weights_in_ram]
        saved = sum(each.waiting - each.rest for each in done) / CYCLES_OF_AN_INSTRUCTION
        plans.append((program.arena_bytes, sum(each.nbytes for each in done), int(saved)))
    program.row_plans = _with_copies(program.row_plans, before, plans)
    return program


def _possible_copies(program: Program, reads: FlashReads, min_saving: float) -> list[_Copy]:
    """Return the copies that save more than ``min_saving`` cycles; those of a chain are live
    together, and each takes the place after those that save more for their bytes."""
    copies = []
    for step, without in zip(program.steps, live_bytes_of_steps(program, ALIGN_BYTES)):
        live = without
        for layer, weights, times in sorted(_weights_read_often(step), key=lambda row: -row[2]):
            nbytes = weights.nbytes
            once = ceil_div(nbytes, reads.line) * reads.wait_states
            waiting, rest = once * times, once + COPY_CYCLES * nbytes
            if nbytes > reads.data_cache and rest + min_saving < waiting:
                live += round_up(nbytes, ALIGN_BYTES)
                copies.append(_Copy(step, layer, nbytes, live, waiting, rest))
    return copies


def _weights_read_often(step: Step) -> Iterable[tuple[Step, np.ndarray, int]]:
    """Return the layers of a step whose weights are read often, with weights and how often."""
    if isinstance(step.lowering, RowFusedLowering):
        return step.lowering.weights_read_often()
    is_layer = isinstance(step.lowering, BoardLowering)
    read = step.lowering.weights_read_often(step) if is_layer else None
    return [] if read is None else [(step, *read)]


def _smallest_near_best(copies: Sequence[_Copy], before: int, limit: int, other: float) -> int:
    """Return the bytes of the smallest arena of up to ``limit`` bytes whose cycles are near those
    of the best one. ``other``: cycles without waiting."""

    def cycles(nbytes: int) -> float:
        return other + sum(c.rest if c.live_bytes <= nbytes else c.waiting for c in copies)

    sizes = {before, *(each.live_bytes for each in copies if before < each.live_bytes <= limit)}
    return next(n for n in sorted(sizes) if cycles(n) <= TOLERANCE * cycles(limit))


def _copy(program: Program, copies: Sequence[_Copy], nbytes: int) -> None:
    """Plan the program with the copies that an arena of ``nbytes`` holds."""
    for each in copies:
        each.layer.weights_in_ram = each.nbytes if each.live_bytes <= nbytes else 0
    for step in dict.fromkeys(each.step for each in copies):
        step.scratch_bytes, step.kernel_bytes, step.scratch = 0, 0, None
        reserve_scratch(step)
    plan_program(program, align_bytes=ALIGN_BYTES)


def _with_copies(
    row_plans: Sequence[RowFusionPlan], before: int, plans: Sequence[tuple[int, int, int]]
) -> list[RowFusionPlan]:
    """Return the plans by rows and those with copies, the largest first. ``plans``: bytes of memory
    and of copies, and saved instructions, last of the program."""
    used = next((plan for plan in row_plans if plan.used), None)
    if used is None or not plans[0][1]:
        return list(row_plans)
    own = []
    for plan in dict.fromkeys(plans):
        ram, copied, saved = plan
        sizes = replace(used, ram_bytes=ram, weights_in_ram=copied, saved_instructions=saved)
        own.append(replace(sizes, used=plan == plans[-1]))
    without = replace(used, used=False)
    others = [without if plan == used else plan for plan in row_plans]
    if own[-1].ram_bytes == before:
        others.remove(without)
    return sorted([*own, *others], key=lambda plan: -plan.ram_bytes)
