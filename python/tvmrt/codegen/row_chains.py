"""Neighbouring steps as one step that computes them a few rows at a time, in less memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvmrt.ir import DTYPES
from tvmrt.ir import program as ir_program
from tvmrt.ir.program import ARENA, Access, Buffer, Group, Program, RowPlan, Step, pixel_stride
from tvmrt.ir.rounding import round_up
from tvmrt.planner import live_bytes_of_steps, plan_program
from tvmrt.planner.row_chains import OUTSIDE, ChainPlan, RowLayer, RowSources, plan_chain
from tvmrt.planner.row_plans import Chain, Span, frontier

from .builder import KERNEL_ALIGN_BYTES, reserve_kernel_scratch
from .lowering import same_place
from .operators.row_chain import RowChainLowering, made_by, main_read
from .pools import ALIGN_BYTES
from .target import Target

MOST_LAYERS = 16  # of a chain
MOST_OF_CALL = 255  # rows that a tvmrt_chain_call tells


def find_layers(program: Program) -> list[RowLayer | None]:
    """For each step how its rows follow from those of an operand, if they do."""
    layers = []
    for step in program.steps:
        alone = bool(step.reads) and len(step.writes) == 1 and step.guard is None
        plain = alone and not step.counts and not step.levels and not step.symbols()
        layers.append(step.lowering.row_layer(step) if plain else None)
    return layers


def find_chains(program: Program) -> dict[Span, Chain]:
    """The chains that there can be, by their first and last step."""
    layers = find_layers(program)
    most = max(live_bytes_of_steps(program), default=0)
    last_use = _last_uses(program)
    found = {}
    for first in range(len(layers)):
        for last in range(first, min(first + MOST_LAYERS, len(layers))):
            chain, steps = layers[first : last + 1], program.steps[first : last + 1]
            if chain[-1] is None or sum(layer.ring_bytes for layer in chain) > most:
                break
            sources = _sources(steps)
            if sources is None:
                break
            if last == first or any(last_use[b] > last for b in made_by(steps)):
                continue
            made = _chain(steps, chain, sources)
            if all(max(call.rows, call.dropped) <= MOST_OF_CALL for call in made.plan.calls):
                found[first, last] = made
    return found


def _last_uses(program: Program) -> dict[Buffer, int]:
    """The last step that has to do with each buffer; behind all of them for those that stay."""
    found = {a.buffer: i for i, step in enumerate(program.steps) for a in step.accesses()}
    kept = [*program.outputs, *program.states, *(a.buffer for a in program.counts.values())]
    return found | dict.fromkeys(kept, len(program.steps))


def _sources(steps: Sequence[Step]) -> list[RowSources] | None:
    """Whose rows each of these steps reads; None where one reads others than whole rows of
    another."""
    inside, found = made_by(steps), []
    images = {step.writes[0].shape[0] for step in steps}
    for step in steps:
        main, added = main_read(step), []
        for access in step.reads:
            source = inside.get(access.buffer)
            if source is None:
                continue
            if not _passes(steps[source].writes[0], access):
                return None
            if access is not main:
                added.append(source)
        found.append(RowSources(inside.get(main.buffer, OUTSIDE), tuple(dict.fromkeys(added))))
        if any(step.writes[0].shape != steps[k].writes[0].shape for k in added):
            return None
    return found if len(images) == 1 else None


def _chain(
    steps: Sequence[Step], layers: Sequence[RowLayer], sources: Sequence[RowSources]
) -> Chain:
    plan = plan_chain(layers, ALIGN_BYTES, sources)
    blocks = max(sum(step.lowering.row_blocks(step)) for step in steps)
    scratch = round_up(plan.nbytes, ir_program.ALIGN_BYTES) + round_up(blocks, KERNEL_ALIGN_BYTES)
    slower = sum(step.lowering.row_surplus(step) for step in steps)
    images = steps[0].writes[0].shape[0]
    return Chain(plan, scratch if blocks else plan.nbytes, _over_input(steps, plan), slower, images)


def _over_input(steps: Sequence[Step], plan: ChainPlan) -> bool:
    """Whether the chain's result may begin where its input does."""
    x, y = main_read(steps[0]), steps[-1].writes[0]
    if not (plan.in_place and x.covers_buffer() and y.covers_buffer()):
        return False
    again = [
        k
        for k, step in enumerate(steps)
        if any(a.buffer is x.buffer and a is not main_read(step) for a in step.reads)
    ]
    # a sum with the input reads a row of it when the same row of the result is written
    return not again or (again == [len(steps) - 1] and same_place(x.at, y.at))


def _passes(written: Access, read: Access) -> bool:
    """Whether rows lie behind each other, and are read as they are written."""
    whole = written.buffer.kind == ARENA and written.covers_buffer()
    same = written.buffer is read.buffer and same_place(written.at, read.at)
    return whole and same and pixel_stride(written.at) == written.shape[1]


def with_chains(program: Program, target: Target, chains: Mapping[Span, Chain]) -> Program:
    """The program with these chains, of which no two have a step in common, as one step each."""
    steps: list[Step] = []
    begins = {first: (last, chain.plan) for (first, last), chain in chains.items()}
    at = 0
    while at < len(program.steps):
        last, plan = begins.get(at, (at, None))
        if plan is None:
            steps.append(program.steps[at])
        else:
            steps.append(_form(program.steps[at : last + 1], target, plan))
        at = last + 1
    return replace(program, steps=steps)


def _form(steps: Sequence[Step], target: Target, plan: ChainPlan) -> Step:
    last = steps[-1]
    before = [node for step in steps[:-1] for node in step.group.nodes]
    group = Group(last.group.root, [*before, *last.group.before], list(last.group.after))
    lowering = RowChainLowering(group, target, steps, plan)
    values, reads, demands = zip(*lowering.outside)
    name = f"{last.name}_chain"
    chain = Step(
        name, group, lowering, list(values), list(reads), last.writes,
        [*demands, last.demands[-1]], scratch_bytes=plan.nbytes, shrinks=True,
    )  # fmt: skip
    if plan.nbytes:
        chain.scratch = Buffer(f"{name}_scratch", DTYPES["uint8"], plan.nbytes, ARENA)
    chain.in_place = [(0, 0)] if _over_input(steps, plan) else []
    reserve_kernel_scratch(chain)
    return chain


def find_plans(program: Program, target: Target) -> list[tuple[RowPlan, Program]]:
    """From the program as it is on, those that need less and less memory, with what that costs.

    Their sizes are those of whole plans, in one memory.
    """
    chains = find_chains(program)
    found: list[tuple[RowPlan, Program]] = []
    for choice in frontier(program, chains, ALIGN_BYTES):
        made = with_chains(program, target, {span: chains[span] for span in choice.chains})
        plan_program(made, align_bytes=ALIGN_BYTES)
        if found and made.arena_bytes >= found[-1][0].ram_bytes:
            continue
        names = [(program.steps[a].name, program.steps[b].name) for a, b in choice.chains]
        found.append((RowPlan(made.arena_bytes, choice.instructions, tuple(names)), made))
    return found


def within(program: Program, target: Target, limit: int, asked: bool) -> Program:
    """The fastest program whose memory is no more than ``limit`` bytes, with all plans that there
    are, if it is not the one that is given.

    Where none is, ValueError with what there is, if the user has ``asked`` for the limit; else the
    one of the least memory, of which the planner says what is missing.
    """
    if not asked and _fits(program, limit):
        return program
    found = find_plans(program, target)
    plans = [plan for plan, _ in found]
    fits = [made for plan, made in found if plan.ram_bytes <= limit]
    if not fits and asked:
        raise ValueError(_too_small(limit, *found[-1], plans))
    chosen = fits[0] if fits else found[-1][1]
    chosen.row_plans = plans
    return chosen


def _fits(program: Program, limit: int) -> bool:
    if max(live_bytes_of_steps(program), default=0) > limit:
        return False
    plan_program(program, align_bytes=ALIGN_BYTES)
    return program.arena_bytes <= limit


def _too_small(limit: int, least: RowPlan, made: Program, plans: Sequence[RowPlan]) -> str:
    live = live_bytes_of_steps(made, ALIGN_BYTES)
    fullest = live.index(max(live))
    rest = [f"{p.ram_bytes} bytes{_more(p)}" for p in plans]
    return (
        f"ram of {limit} bytes is {least.ram_bytes - limit} bytes too small for the network, "
        f"layers by rows or not; most lives at operator {made.steps[fullest].name}, "
        f"{live[fullest]} bytes: give one of {', '.join(reversed(rest))}"
    )


def _more(plan: RowPlan) -> str:
    if not plan.chains:
        return ""
    return f" (about {max(1, round(plan.instructions / 1000))},000 instructions more)"
