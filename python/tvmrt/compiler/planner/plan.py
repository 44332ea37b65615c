"""Lifetimes of a program's buffers, in-place sharing, and addresses in the memory pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import le

from tvmrt.compiler.ir.program import ALIGN_BYTES, ARENA, Buffer, MemoryPool, Program, Step
from tvmrt.compiler.ir.region import DeviceMemory
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import is_unbounded
from tvmrt.compiler.ir.sizes.undecided import describe_symbols, statically_known_true
from tvmrt.option_syntax import option

from .arena import Interval, liveness_bound
from .lifetime import lifetimes, traffic
from .pools import place_in_pools
from .run_plan import plan_of_runs


def plan_program(
    program: Program,
    pools: Sequence[MemoryPool] = (),
    align_bytes: int = ALIGN_BYTES,
    placement: Mapping[Buffer, str] | None = None,
    shared: Mapping[Buffer, Buffer] | None = None,
) -> None:
    """Set the pool and address of every arena buffer, and the pools with their sizes.

    ``pools`` are in order of preference, the fastest first; the default is one pool of any size.
    ``placement`` names the pool that a buffer must lie in; ``shared`` is an earlier result of
    :func:`share_memory` for it. ``program.lower_bound_bytes`` becomes the maximum bytes live at one
    step, with the same in-place sharing and alignment.

    Raises ValueError if the pools are too small; the text gives the missing bytes and the operator
    at the peak.
    """
    program.pools = [replace(pool) for pool in pools] or [MemoryPool("workspace")]
    placement = {**(placement or {}), **_add_device_pools(program)}
    shared = share_memory(program, placement) if shared is None else shared
    live_ranges = lifetimes(program)
    groups = _groups(live_ranges, shared)
    intervals = _intervals(live_ranges, groups, align_bytes)
    on_host = [i for i, root in zip(intervals, groups) if root.memory is None]
    allowed = [_allowed(group, program.pools, placement) for group in groups.values()]
    moved = traffic(program)
    weights = [sum(moved.get(b, 0) for b in group) for group in groups.values()]
    available = [
        None if p.capacity is None else p.capacity - p.reserved_bytes for p in program.pools
    ]
    placements = place_in_pools(intervals, available, allowed, weights)
    for root, (pool, offset) in zip(groups, placements):
        root.pool, root.address = pool, program.pools[pool].reserved_bytes + offset
    for buffer in live_ranges:
        buffer.pool, buffer.address = shared[buffer].pool, shared[buffer].address
    program.lower_bound_bytes = liveness_bound(on_host)
    program.run_plan = plan_of_runs(program, shared, intervals)
    _measure(program, intervals, placements)
    _check_capacity(program, intervals)


def _add_device_pools(program: Program) -> dict[Buffer, str]:
    """Add a pool for each device memory, and return the buffers that must lie there."""
    placement: dict[Buffer, str] = {}
    pools: dict[DeviceMemory, MemoryPool] = {}
    for buffer in program.arena_buffers():
        memory = buffer.memory
        if memory is None or buffer.kind != ARENA:
            continue
        if memory not in pools:
            pools[memory] = MemoryPool(f"{memory.name}_memory", memory=memory)
            program.pools.append(pools[memory])
        placement[buffer] = pools[memory].name
    return placement


def share_memory(program: Program, placement: Mapping[Buffer, str]) -> dict[Buffer, Buffer]:
    """Return for each buffer the one whose memory it reuses, or itself, and keep in each step's
    ``in_place`` only the pairs that share. Printing needs no other part of a plan."""
    shared, pairs = share_in_place(program, lifetimes(program), placement)
    for step, kept in zip(program.steps, pairs):
        step.in_place = kept
    return shared


def live_bytes_of_steps(program: Program, align_bytes: int = 1) -> list[int]:
    """Return the bytes live at each step with the in-place sharing of a plan without placements.
    Nothing is planned yet."""
    live_ranges = lifetimes(program)
    shared, _ = share_in_place(program, live_ranges, {})
    intervals = _intervals(live_ranges, _groups(live_ranges, shared), align_bytes)
    return [
        sum(i.size_from(step) for i in intervals if i.first <= step <= i.last)
        for step in range(len(program.steps))
    ]


def _groups(live_ranges, shared: Mapping[Buffer, Buffer]) -> dict[Buffer, list[Buffer]]:
    """Group the buffers that share memory, by the first of them."""
    groups: dict[Buffer, list[Buffer]] = {b: [] for b in live_ranges if shared[b] is b}
    for buffer in live_ranges:
        groups[shared[buffer]].append(buffer)
    return groups


def _intervals(
    live_ranges, groups: Mapping[Buffer, Sequence[Buffer]], align_bytes: int
) -> list[Interval]:
    """Return size and lifetime of each group. Sizes are multiples of the alignment, so that all
    addresses are, too."""
    intervals = []
    for root, group in groups.items():
        align = max(align_bytes, root.memory.align_bytes if root.memory else 1)
        by_end = sorted((live_ranges[b][1], round_up(max(b.nbytes, 1), align)) for b in group)
        smaller = tuple((end + 1, size) for (end, _), (_, size) in zip(by_end, by_end[1:]))
        first = min(live_ranges[b][0] for b in group)
        intervals.append(Interval(by_end[0][1], first, by_end[-1][0], smaller))
    return intervals


def _allowed(buffers: Sequence[Buffer], pools, placement: Mapping[Buffer, str]) -> list[int]:
    """Return the indices of the pools that buffers sharing memory may lie in."""
    names = {placement[b] for b in buffers if b in placement}
    return [i for i, pool in enumerate(pools) if (pool.name in names if names else not pool.memory)]


def _measure(program: Program, intervals, places) -> None:
    program.arena_bytes = 0
    for number, pool in enumerate(program.pools):
        inside = [(i, offset) for i, (p, offset) in zip(intervals, places) if p == number]
        top = max((offset + i.size for i, offset in inside), default=0)
        pool.used_bytes = pool.reserved_bytes + top if top or pool.kept_bytes else 0
        pool.lower_bound_bytes = liveness_bound([i for i, _ in inside])
        if pool.memory is None:
            program.arena_bytes += top + pool.kept_bytes


def _check_capacity(program: Program, intervals: Sequence[Interval]) -> None:
    short = [p for p in program.pools if p.capacity is not None and p.used_bytes > p.capacity]
    if not short:
        return
    names = " and ".join(f"{p.name} of {p.capacity} bytes" for p in program.pools)
    pool_count = len(program.pools) > 1
    missing = sum(p.used_bytes - p.capacity for p in short)
    step, live = _fullest_step(program, intervals)
    dims = program.dims()
    sizes = f" at its largest sizes ({describe_symbols(dims)})" if dims else ""
    enough = " and ".join(f"{p.name} to {p.used_bytes} bytes" for p in short)
    faster = sorted((plan.ram_bytes for plan in program.row_plans), reverse=True)[:-1]
    if faster and not pool_count:
        enough += (
            f"; faster plans with row-wise fusion need {', '.join(map(str, faster))} bytes "
            f"({option('ram')})"
        )
    raise ValueError(
        f"pool{'s' if pool_count else ''} {names} {'are' if pool_count else 'is'} {missing} bytes "
        f"too small for the network{sizes}; the peak is at operator {step} with {live} bytes; "
        f"enlarge {enough}"
    )


def _fullest_step(program: Program, intervals: Sequence[Interval]) -> tuple[str, int]:
    """Return the operator at the memory peak, and the live bytes."""

    def live(step: int) -> int:
        return sum(i.size_from(step) for i in intervals if i.first <= step <= i.last)

    if not program.steps:
        return "none", sum(i.size for i in intervals)
    peak_step = max(range(len(program.steps)), key=live)
    return program.steps[peak_step].name, live(peak_step)


def share_in_place(
    program: Program, live_ranges, placement: Mapping[Buffer, str]
) -> tuple[dict[Buffer, Buffer], list[list[tuple[int, int]]]]:
    """Return for each buffer the one whose memory it reuses, or itself, and for each step the pairs
    of ``in_place`` that share.

    Only buffers with equal placement share.
    """
    shared = {b: b for b in live_ranges}
    pairs = []
    for i, step in enumerate(program.steps):
        sharing = []
        for read, write in step.in_place:
            source, target = step.reads[read].buffer, step.writes[write].buffer
            same_placement = placement.get(source) == placement.get(target)
            if not sharing and same_placement and _may_share(step, i, source, target, live_ranges):
                shared[target] = shared[source]
                sharing.append((read, write))
        pairs.append(sharing)
    return shared, pairs


def _may_share(step: Step, index: int, source: Buffer, target: Buffer, live_ranges) -> bool:
    if source.kind != ARENA or target.kind != ARENA or source is target:
        return False
    if not _has_room(source, target, step.shrinks):
        return False
    if live_ranges[source][1] != index or live_ranges[target][0] != index:
        return False
    pairs = {r for r, _ in step.in_place}
    # every read of the source must access the same elements as the write
    return all(r in pairs for r, a in enumerate(step.reads) if a.buffer is source)


def _has_room(source: Buffer, target: Buffer, shrinks: bool) -> bool:
    """Return whether a buffer has the bytes of another one, or more if that may be smaller."""
    if is_unbounded(source.size, target.size):
        missing = target.size * target.dtype.bits - source.size * source.dtype.bits
        return missing == 0 or (shrinks and statically_known_true(le, missing, 0))
    return source.nbytes == target.nbytes or (shrinks and source.nbytes > target.nbytes)
