"""Row-wise fusion: compute adjacent steps a few rows at a time, which needs less memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvmrt.compiler.ir import program as ir_program
from tvmrt.compiler.ir.program import (
    ARENA,
    Access,
    Buffer,
    Group,
    Program,
    RowFusionPlan,
    Step,
    pixel_stride,
)
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.compiler.planner.plan import live_bytes_of_steps, plan_program
from tvmrt.compiler.planner.row_fusion_schedule import (
    OUTSIDE,
    ChainPlan,
    RowLayer,
    RowSources,
    ScheduleCache,
    plan_chain,
)
from tvmrt.compiler.planner.row_fusion_selection import (
    CORTEX_M,
    CORTEX_M_DSP,
    RISCV,
    ChainMemory,
    ChainRange,
    FusableChain,
    FusionChoice,
    InstructionCosts,
    pareto_frontier,
)

from .builder import KERNEL_ALIGN_BYTES, reserve_scratch
from .kernel_features import PIXELS_IN_THREES
from .lowering import Lowering, same_offsets
from .lowering_protocols import RowFusable
from .operators.patch_inference import (
    ColumnRange,
    ColumnWindow,
    Patch,
    PatchLayer,
    PatchLayerCache,
    column_window,
    find_layer_columns,
    make_patch,
    single_patch,
)
from .operators.row_fused_chain import (
    RowFusedLowering,
    external_operands,
    main_operand,
    producers_by_buffer,
)
from .pools import ALIGN_BYTES
from .target import Target

Candidate = tuple[RowFusionPlan, Program]
# Of the plan that is chosen without a limit: estimated instructions, and memory, relative to those
# of whole layers.
MAX_SLOWDOWN, MAX_MEMORY = 0.01, 0.9
# Instructions of layers relative to those of the same layers by rows, whose loops are shorter; the
# lowest of seven networks of tests/bench/firmware on a Cortex-M4F, which have up to 0.86.
WHOLE_LAYERS = 0.78
MAX_CHAIN_STEPS = 16  # maximum steps of a chain
PATCH_COUNTS = (2, 3, 4, 6)  # numbers of patches that the columns of an image are split into
MAX_CALL_ROWS = 255  # maximum rows in a field of tvmrt_row_fusion_call


def find_row_layers(program: Program) -> list[RowLayer | None]:
    """Return for each step how its rows depend on rows of an operand, or None."""
    layers = []
    for step in program.steps:
        alone = bool(step.reads) and len(step.writes) == 1 and step.guard is None
        plain = alone and not step.data_dependent_dims and not step.levels and not step.symbols()
        fusable = plain and isinstance(step.lowering, RowFusable)
        layers.append(step.lowering.row_layer(step) if fusable else None)
    return layers


@dataclass(frozen=True)
class FusedChain:
    """Planner's view of a chain; with patches, the columns of its layers in each patch."""

    chain: FusableChain
    windows: tuple[ColumnWindow, ...] = ()
    columns: tuple[tuple[ColumnRange, ...], ...] = ()

    def patches(self, steps: Sequence[Step]) -> list[Patch]:
        """Return the patches of the chain; one patch of whole rows if it is not split."""
        if not self.columns:
            return [single_patch(steps, self.chain.plans[0])]
        each = zip(self.columns, self.chain.plans)
        return [make_patch(steps, self.windows, columns, plan) for columns, plan in each]


def find_row_chains(program: Program, recomputing: bool = True) -> dict[ChainRange, FusedChain]:
    """Find the candidate chains, over whole rows and over patches of columns. ``recomputing``: also
    those with patches that compute elements more than once."""
    layers = find_row_layers(program)
    candidates = [
        layer and PatchLayer.of(step, layer) for step, layer in zip(program.steps, layers)
    ]
    search = _PatchSearch(program, candidates, recomputing)
    schedules, chains = ScheduleCache(), dict[ChainRange, FusedChain]()
    for (first, last), sources in _fusable_spans(program, candidates, search).items():
        steps, chain = program.steps[first : last + 1], candidates[first : last + 1]
        fused = _whole_row_chain(steps, chain, sources, schedules)
        if _fits_call_table(fused):
            chains[first, last, 1] = FusedChain(fused)
    return chains | search.find(chains)


def _fusable_spans(
    program: Program, candidates: Sequence[PatchLayer | None], search: _PatchSearch
) -> dict[tuple[int, int], list[RowSources]]:
    """Return first and last step of the chains that can reduce the memory of the program, with the
    sources of their rows."""
    live, memory = live_bytes_of_steps(program, ALIGN_BYTES), ChainMemory(program, ALIGN_BYTES)
    peak, last_use = max(live, default=0), last_uses_of_buffers(program)
    spans: dict[tuple[int, int], list[RowSources]] = {}
    smallest = list(live)  # lower bound for each step, alone or in a chain
    for first in range(len(candidates)):
        for last in range(first, min(first + MAX_CHAIN_STEPS, len(candidates))):
            chain, steps = candidates[first : last + 1], program.steps[first : last + 1]
            if chain[-1] is None or sum(each.layer.line_buffer_bytes for each in chain) > peak:
                break
            sources = _sources(steps)
            if sources is None:
                break
            if last == first or any(last_use[b] > last for b in producers_by_buffer(steps)):
                continue
            scratch = 0 if search.takes(first, last, sources) else _min_scratch_bytes(chain)
            least = memory.live_bytes((first, last, 1), FusableChain((), scratch, True))
            if least < max(live[first : last + 1]):
                spans[first, last] = sources
                smallest[first : last + 1] = [min(least, n) for n in smallest[first : last + 1]]
    bound = max(smallest, default=0)
    return {span: s for span, s in spans.items() if max(live[span[0] : span[1] + 1]) > bound}


def _min_scratch_bytes(chain: Sequence[PatchLayer]) -> int:
    """Return a lower bound of the scratch of a chain over whole rows."""
    kernel_bytes = max(each.costs.kernel_bytes for each in chain)
    return sum(each.layer.line_buffer_bytes for each in chain) + kernel_bytes


def _fits_call_table(chain: FusableChain) -> bool:
    """Return whether all values of the chain's calls fit into their table."""
    calls = [call for plan in chain.plans for call in plan.calls]
    return all(max(call.rows, call.dropped) <= MAX_CALL_ROWS for call in calls)


class _PatchSearch:
    """Search for patch-based chains, for segments where rows dominate the memory and chains over
    whole rows need too much."""

    def __init__(
        self, program: Program, candidates: Sequence[PatchLayer | None], recomputing: bool
    ) -> None:
        self.program, self.candidates, self.recomputing = program, candidates, recomputing
        self.windows = [
            None if cut is None else column_window(step)
            for cut, step in zip(candidates, program.steps)
        ]
        self.cutter = PatchLayerCache()
        self.schedules = ScheduleCache()
        self.chains: Mapping[ChainRange, FusedChain] = {}

    def takes(self, first: int, last: int, sources: Sequence[RowSources]) -> bool:
        """Return whether a chain of these steps may be split. Without recomputation, all windows
        that overlap are on its input."""
        windows = self.windows[first : last + 1]
        if not all(windows) or self.recomputing:
            return all(windows)
        inner = (w for w, source in zip(windows, sources) if source.main != OUTSIDE)
        return all(window.is_identity for window in inner)

    def find(self, chains: Mapping[ChainRange, FusedChain]) -> dict[ChainRange, FusedChain]:
        """Return all patch-based chains that reduce the peak; ``chains`` has those of whole
        rows."""
        self.chains, memory = chains, ChainMemory(self.program, ALIGN_BYTES)
        lives = {span: memory.live_bytes(span, each.chain) for span, each in chains.items()}
        # minimum live bytes of each step with chains over whole rows
        smallest = live_bytes_of_steps(self.program, ALIGN_BYTES)
        for (first, last, _), live in lives.items():
            smallest[first : last + 1] = [min(live, n) for n in smallest[first : last + 1]]
        bound, plans = max(smallest, default=0), dict[ChainRange, FusedChain]()
        for span, joined in chains.items():
            first, last, _ = span
            other_bytes = lives[span] - round_up(joined.chain.scratch_bytes, ALIGN_BYTES)
            tight = max(smallest[first : last + 1]) > bound // 2
            if not tight or other_bytes >= lives[span] // 2:
                continue
            if self.takes(first, last, joined.chain.plans[0].sources):
                plans |= self._split_chain(span, other_bytes, bound)
        return plans

    def _split_chain(
        self, span: ChainRange, other_bytes: int, bound: int
    ) -> dict[ChainRange, FusedChain]:
        """Increase the patch count while memory shrinks and work at most doubles."""
        first, last, _ = span
        macs = sum(cut.macs for cut in self.candidates[first : last + 1])
        plans: dict[ChainRange, FusedChain] = {}
        before = self.chains[span].chain.scratch_bytes
        for count in PATCH_COUNTS:
            patches = self._split_columns(first, last, count)
            if patches is None or not _fits_call_table(patches.chain):
                break
            if patches.chain.surplus_macs > macs or patches.chain.scratch_bytes >= before:
                break
            before = patches.chain.scratch_bytes
            if other_bytes + before < bound:
                plans[first, last, count] = patches
        return plans

    def _split_columns(self, first: int, last: int, count: int) -> FusedChain | None:
        steps, windows = self.program.steps[first : last + 1], self.windows[first : last + 1]
        sources, wide = self.chains[first, last, 1].chain.plans[0].sources, windows[-1].out_columns
        ends = [wide * i // count for i in range(count + 1)]
        plans, patch_columns, cuts = [], [], []
        for part in map(ColumnRange, ends[:-1], ends[1:]):
            columns = find_layer_columns(windows, sources, part) if part.count else None
            cut = columns and self.cutter.cut(steps, windows, sources, columns)
            if not cut:
                return None
            layers = [each.layer for each in cut]
            plans.append(plan_chain(layers, ALIGN_BYTES, sources, self.schedules))
            patch_columns.append(tuple(columns))
            cuts += cut
        whole = self.candidates[first : last + 1]
        images = steps[0].writes[0].shape[0]
        return FusedChain(_chain(plans, cuts, whole, images), tuple(windows), tuple(patch_columns))


def last_uses_of_buffers(program: Program) -> dict[Buffer, int]:
    """Return each buffer's last step; the number of steps for outputs, states and counts."""
    last_uses = {a.buffer: i for i, step in enumerate(program.steps) for a in step.accesses()}
    counts = [a.buffer for a in program.data_dependent_dims.values()]
    persistent = [*program.outputs, *program.states, *counts]
    return last_uses | dict.fromkeys(persistent, len(program.steps))


def _sources(steps: Sequence[Step]) -> list[RowSources] | None:
    """Return the sources of each step's rows; None if a step reads anything but whole rows of
    another step."""
    inside, sources = producers_by_buffer(steps), []
    images = {step.writes[0].shape[0] for step in steps}
    for step in steps:
        main, added = main_operand(step), []
        for access in step.reads:
            source = inside.get(access.buffer)
            if source is None:
                continue
            if not matches_rows(steps[source].writes[0], access):
                return None
            if access is not main:
                added.append(source)
        sources.append(RowSources(inside.get(main.buffer, OUTSIDE), tuple(dict.fromkeys(added))))
        if any(step.writes[0].shape != steps[k].writes[0].shape for k in added):
            return None
    return sources if len(images) == 1 else None


def _whole_row_chain(
    steps: Sequence[Step],
    layers: Sequence[PatchLayer],
    sources: Sequence[RowSources],
    schedules: ScheduleCache,
) -> FusableChain:
    plan = plan_chain([each.layer for each in layers], ALIGN_BYTES, sources, schedules)
    fused = _chain([plan], layers, layers, steps[0].writes[0].shape[0])
    return replace(fused, in_place=_may_overwrite_input(steps, plan))


def _chain(
    plans: Sequence[ChainPlan], cut: Sequence[PatchLayer], whole: Sequence[PatchLayer], images: int
) -> FusableChain:
    """Return the planner's description of plans with the layers ``cut`` over all patches."""
    kernel_bytes = max(each.costs.kernel_bytes for each in cut)
    nbytes = max(plan.nbytes for plan in plans)
    scratch = round_up(nbytes, ir_program.ALIGN_BYTES) + round_up(kernel_bytes, KERNEL_ALIGN_BYTES)
    instructions = sum(each.costs.extra_instructions + each.costs.instructions for each in cut)
    instructions -= sum(each.costs.instructions for each in whole)
    recomputed_macs = sum(each.macs for each in cut) - sum(each.macs for each in whole)
    scratch = scratch if kernel_bytes else nbytes
    return FusableChain(tuple(plans), scratch, False, instructions, images, recomputed_macs)


def _may_overwrite_input(steps: Sequence[Step], plan: ChainPlan) -> bool:
    """Return whether the chain's result may start at its input's address."""
    x, y = main_operand(steps[0]), steps[-1].writes[0]
    if not (plan.in_place and x.covers_buffer() and y.covers_buffer()):
        return False
    again = [
        k
        for k, step in enumerate(steps)
        if any(a.buffer is x.buffer and a is not main_operand(step) for a in step.reads)
    ]
    # a residual add reads a row of the input while the same row of the result is written
    return not again or (again == [len(steps) - 1] and same_offsets(x.at, y.at))


def matches_rows(written: Access, read: Access) -> bool:
    """Return whether rows are contiguous, and read as they are written."""
    is_whole_buffer = written.buffer.kind == ARENA and written.covers_buffer()
    same = written.buffer is read.buffer and same_offsets(written.at, read.at)
    return is_whole_buffer and same and pixel_stride(written.at) == written.shape[1]


def with_fused_chains(
    program: Program, target: Target, chains: Mapping[ChainRange, FusedChain]
) -> Program:
    """Return the program with these disjoint chains as one step each."""
    steps: list[Step] = []
    begins = {span[0]: (span[1], joined) for span, joined in chains.items()}
    at = 0
    while at < len(program.steps):
        last, joined = begins.get(at, (at, None))
        chain = program.steps[at : last + 1]
        steps += chain if joined is None else [_fuse(chain, target, joined)]
        at = last + 1
    return replace(program, steps=steps)


def merge_steps(steps: Sequence[Step], target: Target, kind: Callable[..., Lowering]) -> Step:
    """Return one step that replaces consecutive steps, each of which reads results of earlier ones;
    ``kind`` creates its lowering of the group, the target and the steps, also for each ISA
    level."""
    last = steps[-1]
    before = [node for step in steps[:-1] for node in step.group.nodes]
    group = Group(last.group.root, [*before, *last.group.before], list(last.group.after))
    values, reads, demands = zip(*external_operands(steps))
    merged = Step(
        f"{last.name}_chain", group, kind(group, target, steps), list(values), list(reads),
        last.writes, [*demands, last.demands[-1]],
    )  # fmt: skip
    for level in target.levels:
        level_steps = [replace(step, lowering=step.levels[level.name]) for step in steps]
        merged.levels[level.name] = kind(group, level, level_steps)
    return merged


def _fuse(steps: Sequence[Step], target: Target, joined: FusedChain) -> Step:
    chain = merge_steps(steps, target, partial(RowFusedLowering, patches=joined.patches(steps)))
    chain.shrinks = True
    chain.in_place = [(0, 0)] if joined.chain.in_place else []
    reserve_scratch(chain)
    return chain


def find_plans(program: Program, target: Target) -> list[Candidate]:
    """Return plans with their programs, ordered by decreasing memory, beginning without chains.

    Sizes are those of complete plans in one pool.
    """
    chains = find_row_chains(program)
    candidates: list[Candidate] = []
    for choice in _choices(program, target, chains):
        candidate = _planned(program, target, chains, choice)
        if not candidates or candidate[0].ram_bytes < candidates[-1][0].ram_bytes:
            candidates.append(candidate)
    return candidates


def _choices(
    program: Program, target: Target, chains: Mapping[ChainRange, FusedChain]
) -> list[FusionChoice]:
    candidates = {span: joined.chain for span, joined in chains.items()}
    return pareto_frontier(program, candidates, ALIGN_BYTES, _instruction_costs(target))


def _planned(
    program: Program, target: Target, chains: Mapping[ChainRange, FusedChain], choice: FusionChoice
) -> Candidate:
    """Return the plan of a choice of chains, in one pool, and its program."""
    chosen = {span: chains[span] for span in choice.chains}
    fused = with_fused_chains(program, target, chosen)
    plan_program(fused, align_bytes=ALIGN_BYTES)
    names = [(program.steps[a].name, program.steps[b].name) for a, b, _ in choice.chains]
    counts = [count for _, _, count in choice.chains]
    recomputed_macs = sum(joined.chain.surplus_macs for joined in chosen.values())
    sizes = fused.arena_bytes, choice.instructions
    return RowFusionPlan(*sizes, tuple(names), tuple(counts), recomputed_macs), fused


def _instruction_costs(target: Target) -> InstructionCosts:
    if target.base.startswith(("riscv32", "rv32")):
        return RISCV
    return CORTEX_M_DSP if PIXELS_IN_THREES.of(target) else CORTEX_M


def choose_plan(program: Program, target: Target, capacity: int | None) -> Program:
    """Return the program with the least memory of those whose estimated instructions exceed the
    fastest one's by at most ``MAX_SLOWDOWN``, if it needs at most ``MAX_MEMORY`` of that one's
    memory; else the fastest one. It lists these two and the smallest one.

    Patches that compute elements twice are not tried. If the result needs more than ``capacity``:
    the fastest program that fits, or the smallest one, for which the planner reports what is
    missing.
    """
    total = estimated_instructions(program)
    allowed = int(total * MAX_SLOWDOWN)
    chains = find_row_chains(program, recomputing=False)
    choices = _choices(program, target, chains)
    cheapest = [each for each in choices if each.instructions <= allowed][-1]
    ends = dict.fromkeys((choices[0], cheapest, choices[-1]))  # one if there is nothing to fuse
    candidates = {each: _planned(program, target, chains, each) for each in ends}
    fastest, chosen = candidates[choices[0]], candidates[cheapest]
    if capacity is not None and chosen[0].ram_bytes > capacity:
        plans = find_plans(program, target)
        chosen = next((each for each in plans if each[0].ram_bytes <= capacity), plans[-1])
        return _with_plans(chosen, [plan for plan, _ in plans], total)
    if chosen[0].ram_bytes > fastest[0].ram_bytes * MAX_MEMORY and (
        capacity is None or fastest[0].ram_bytes <= capacity
    ):
        chosen = fastest
    smallest = min(chosen, candidates[choices[-1]], key=lambda each: each[0].ram_bytes)
    plans = list(dict.fromkeys(each[0] for each in (fastest, chosen, smallest)))
    return _with_plans(chosen, plans, total)


def fit_memory_limit(program: Program, target: Target, limit: int) -> Program:
    """Return the fastest program that fits into ``limit`` bytes. It lists all plans.

    Raises ValueError with the alternatives if none fits.
    """
    candidates = find_plans(program, target)
    fitting = [each for each in candidates if each[0].ram_bytes <= limit]
    plans = [plan for plan, _ in candidates]
    if not fitting:
        raise ValueError(_error_text(limit, *candidates[-1], plans))
    return _with_plans(fitting[0], plans, estimated_instructions(program))


def _with_plans(chosen: Candidate, plans: Sequence[RowFusionPlan], total: int) -> Program:
    """Return the chosen program with all plans, of a network of ``total`` instructions."""
    used, program = chosen
    shares = [plan.instructions / max(total, 1) for plan in plans]
    program.row_plans = [replace(p, slowdown=s, used=p == used) for p, s in zip(plans, shares)]
    return program


def estimated_instructions(program: Program) -> int:
    """Return a low estimate of the instructions of a run without chains: of layers that can be
    part of one, and one for each multiply-add of the others."""
    total = 0.0
    for step, row_layer in zip(program.steps, find_row_layers(program)):
        if row_layer is None:
            total += upper_bound(step.lowering.macs())
        else:
            total += WHOLE_LAYERS * step.lowering.row_costs(step).instructions
    return int(total)


def _error_text(
    limit: int, smallest: RowFusionPlan, program: Program, plans: Sequence[RowFusionPlan]
) -> str:
    live = live_bytes_of_steps(program, ALIGN_BYTES)
    peak_step = live.index(max(live))
    sizes = [f"{p.ram_bytes} bytes{_cost_text(p)}" for p in plans]
    return (
        f"ram of {limit} bytes is {smallest.ram_bytes - limit} bytes too small for the network, "
        f"even with row-wise fusion; the peak is at operator {program.steps[peak_step].name} with "
        f"{live[peak_step]} bytes; give {'one of ' * (len(sizes) > 1)}{', '.join(reversed(sizes))}"
    )


def _cost_text(plan: RowFusionPlan) -> str:
    if not plan.chains:
        return ""
    patches = ", in patches" if plan.surplus_macs else ""
    return f" (about {max(1, round(plan.instructions / 1000)):,},000 instructions more{patches})"
