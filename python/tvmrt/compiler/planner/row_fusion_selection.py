"""Selection of the steps to fuse row-wise: the minimum cost for each amount of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.rounding import round_up

from .lifetime import lifetimes
from .plan import live_bytes_of_steps
from .row_fusion_schedule import ChainPlan

ChainRange = tuple[int, int, int]  # first step, last step and number of patches


@dataclass(frozen=True)
class InstructionCosts:
    """Extra instructions of row-wise execution: per ``call``, per call of a layer with ``windows``
    that are read in place, and per byte ``moved`` to the start of its memory."""

    call: int
    windows: int
    moved: float


# Measured in QEMU with networks of tests/bench/firmware. With DSP instructions three pixels are
# computed together, also beyond the end of a row; RV32IMC has no load-multiple instruction.
CORTEX_M = InstructionCosts(450, 200, 0.55)
CORTEX_M_DSP = InstructionCosts(300, 1000, 0.3)
RISCV = InstructionCosts(1300, 200, 1.2)


@dataclass(frozen=True)
class FusableChain:
    """Steps that can be fused: the calls per patch, their scratch memory, and whether the result
    may start at the input's address. ``slower``: extra instructions of its kernels compared with
    the usual ones, and of recomputation. ``images``: number of images, each with its own calls.
    ``surplus_macs``: multiply-adds that are recomputed."""

    plans: tuple[ChainPlan, ...]
    scratch_bytes: int
    in_place: bool
    slower: int = 0
    images: int = 1
    surplus_macs: int = 0

    def instructions(self, costs: InstructionCosts) -> int:
        """Return the estimated extra instructions compared with separate steps."""
        moved = sum(int(plan.moved_bytes * costs.moved) for plan in self.plans)
        calls = sum(_call_instructions(plan, costs) for plan in self.plans)
        return self.images * (calls + moved) + self.slower


def _call_instructions(plan: ChainPlan, costs: InstructionCosts) -> int:
    windows = [layer.window_rows > 1 and not layer.unit for layer in plan.layers]
    by_windows = sum(windows[call.layer] for call in plan.calls)
    others = len(plan.calls) - by_windows
    return by_windows * costs.windows + others * costs.call


class ChainMemory:
    """Bytes that are live while chains of a program's steps run, in multiples of ``align``."""

    def __init__(self, program: Program, align: int) -> None:
        self._steps, self._align = program.steps, align
        self._live_ranges = lifetimes(program)
        self._sizes = {b: round_up(max(b.nbytes, 1), align) for b in self._live_ranges}
        # bytes that exist before each step and are read by it or later
        self._before = [0] * len(program.steps)
        for buffer, (born, end) in self._live_ranges.items():
            for step in range(born + 1, min(end + 1, len(program.steps))):
                self._before[step] += self._sizes[buffer]

    def live_bytes(self, chain_range: ChainRange, chain: FusableChain) -> int:
        """Return the bytes that are live while a chain runs."""
        first, last, _ = chain_range
        begin = self._steps[first]
        x = begin.reads[begin.lowering.row_operand(begin)].buffer
        y = self._steps[last].writes[0].buffer
        x_bytes, y_bytes = self._sizes.get(x, 0), self._sizes.get(y, 0)
        over = chain.in_place and x_bytes and y_bytes and y.nbytes <= x.nbytes
        ends = x_bytes if over and self._live_ranges[x][1] <= last else x_bytes + y_bytes
        scratch = round_up(chain.scratch_bytes, self._align)
        return scratch + self._before[first] - x_bytes + ends


@dataclass(frozen=True)
class FusionChoice:
    """Chains with their estimated extra instructions. ``bound_bytes``: the maximum bytes live at a
    step."""

    chains: tuple[ChainRange, ...]
    instructions: int
    bound_bytes: int


def pareto_frontier(
    program: Program,
    chains: Mapping[ChainRange, FusableChain],
    align: int,
    costs: InstructionCosts,
) -> list[FusionChoice]:
    """Return choices of chains with decreasing memory, starting with none, each at the minimum cost
    for that memory. Sizes are multiples of ``align``."""
    singles, memory = live_bytes_of_steps(program, align), ChainMemory(program, align)
    ranges = {(i, i, 1): (nbytes, 0) for i, nbytes in enumerate(singles)}
    for chain_range, chain in chains.items():
        nbytes = memory.live_bytes(chain_range, chain)
        if nbytes < max(singles[chain_range[0] : chain_range[1] + 1]):
            ranges[chain_range] = nbytes, chain.instructions(costs)
    choices: list[FusionChoice] = []
    limit = max(singles, default=0)
    while True:
        path = _cheapest(len(singles), ranges, limit)
        if path is None:
            return choices
        bound = max((ranges[chain_range][0] for chain_range in path), default=0)
        chosen = tuple(chain_range for chain_range in path if chain_range[0] != chain_range[1])
        choices.append(
            FusionChoice(chosen, sum(ranges[chain_range][1] for chain_range in path), bound)
        )
        if not path or bound == 0:
            return choices
        limit = bound - 1


def _cheapest(
    count: int, ranges: Mapping[ChainRange, tuple[int, int]], limit: int
) -> list[ChainRange] | None:
    """Return the cheapest ways that cover each step once with at most ``limit`` bytes each."""
    best: list[tuple[int, ChainRange | None] | None] = [(0, None), *[None] * count]
    by_end: dict[int, list[ChainRange]] = {}
    for chain_range, (nbytes, _) in ranges.items():
        if nbytes <= limit:
            by_end.setdefault(chain_range[1], []).append(chain_range)
    for end in range(count):
        for chain_range in by_end.get(end, ()):
            before = best[chain_range[0]]
            if before is None:
                continue
            cost = before[0] + ranges[chain_range][1]
            now = best[end + 1]
            if now is None or cost < now[0]:
                best[end + 1] = cost, chain_range
    path: list[ChainRange] = []
    at = count
    while at:
        reached = best[at]
        if reached is None or reached[1] is None:
            return None
        path.append(reached[1])
        at = reached[1][0]
    return path[::-1]
