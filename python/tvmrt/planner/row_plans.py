"""Which steps to join to chains: the least cost for each amount of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvmrt.ir.program import Program
from tvmrt.ir.rounding import round_up

from .lifetime import lifetimes
from .plan import live_bytes_of_steps
from .row_chains import ChainPlan

Span = tuple[int, int]  # first and last step

# What calls by rows take more, in instructions; measured on a Cortex-M4F.
CALL_INSTRUCTIONS = 450
MOVED_INSTRUCTIONS = 0.6  # for a byte that moves to the front


@dataclass(frozen=True)
class Chain:
    """Steps that can be one: their calls, the scratch memory that it takes, and whether its result
    may begin where its input does. ``slower``: the instructions that its kernels take more than
    those that are chosen elsewhere. ``images``: the calls are made for each."""

    plan: ChainPlan
    scratch_bytes: int
    in_place: bool
    slower: int = 0
    images: int = 1

    @property
    def instructions(self) -> int:
        """Those that it takes more than its steps one after the other, estimated."""
        moved = int(self.plan.moved_bytes * MOVED_INSTRUCTIONS)
        calls = len(self.plan.calls) * CALL_INSTRUCTIONS
        return self.images * (calls + moved) + self.slower


@dataclass(frozen=True)
class Choice:
    """Chains by their first and last step, and the instructions that they take more, estimated.
    ``bound_bytes`` live at a step at most."""

    chains: tuple[Span, ...]
    instructions: int
    bound_bytes: int


def frontier(program: Program, chains: Mapping[Span, Chain], align: int) -> list[Choice]:
    """From no chain at all on, each choice of chains that needs less memory than those before, at
    the least cost for that memory; all sizes are multiples of ``align``."""
    singles = live_bytes_of_steps(program, align)
    spans = {(i, i): (nbytes, 0) for i, nbytes in enumerate(singles)}
    for span, chain in chains.items():
        nbytes = _live(program, span, chain, align)
        if nbytes < max(singles[span[0] : span[1] + 1]):
            spans[span] = nbytes, chain.instructions
    found: list[Choice] = []
    limit = max(singles, default=0)
    while True:
        path = _cheapest(len(singles), spans, limit)
        if path is None:
            return found
        bound = max((spans[span][0] for span in path), default=0)
        chosen = tuple(span for span in path if span[0] != span[1])
        found.append(Choice(chosen, sum(spans[s][1] for s in path), bound))
        if not path or bound == 0:
            return found
        limit = bound - 1


def _cheapest(count: int, spans: Mapping[Span, tuple[int, int]], limit: int) -> list[Span] | None:
    """The spans that cover all steps once, none of more bytes than ``limit``, at the least cost."""
    best: list[tuple[int, Span | None] | None] = [(0, None), *[None] * count]
    by_end: dict[int, list[Span]] = {}
    for span, (nbytes, _) in spans.items():
        if nbytes <= limit:
            by_end.setdefault(span[1], []).append(span)
    for end in range(count):
        for span in by_end.get(end, ()):
            before = best[span[0]]
            if before is None:
                continue
            cost = before[0] + spans[span][1]
            now = best[end + 1]
            if now is None or cost < now[0]:
                best[end + 1] = cost, span
    path: list[Span] = []
    at = count
    while at:
        reached = best[at]
        if reached is None or reached[1] is None:
            return None
        path.append(reached[1])
        at = reached[1][0]
    return path[::-1]


def _live(program: Program, span: Span, chain: Chain, align: int) -> int:
    """Bytes that live while a chain runs."""
    first, last = span
    begin = program.steps[first]
    x = begin.reads[begin.lowering.row_operand(begin)].buffer
    y = program.steps[last].writes[0].buffer
    lives = lifetimes(program)
    sizes = {b: round_up(max(b.nbytes, 1), align) for b in lives}
    through = [b for b, (born, end) in lives.items() if born < first <= end and b is not x]
    total = round_up(chain.scratch_bytes, align) + sum(sizes[b] for b in through)
    ends = [sizes[b] for b in (x, y) if b in lives]
    over = chain.in_place and len(ends) == 2 and lives[x][1] <= last and y.nbytes <= x.nbytes
    return total + (max(ends) if over else sum(ends))
