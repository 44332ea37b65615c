"""Plans that each run completes at its own sizes, because dimensions have no bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tvmrt.compiler.ir.program import ALIGN_BYTES, Buffer, FoundSize, Program, RunPlan
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import (
    SymInt,
    allocation_extent,
    allocation_shape,
    data_dependent_symbols,
    is_unbounded,
    symbols_of,
)
from tvmrt.error import UnsupportedSizes
from tvmrt.option_syntax import option

from .arena import Interval


def plan_of_runs(
    program: Program, shared: Mapping[Buffer, Buffer], intervals: Sequence[Interval]
) -> RunPlan | None:
    """Return what each run needs to plan its memory; None if the plan is the same for all runs.

    ``shared`` maps buffers to those whose memory they have; ``intervals`` are the lifetimes of
    these, which have estimated addresses. If a run places buffers in the order of these addresses,
    it needs about the estimated memory where its sizes are those of the estimate.
    """
    if not program.has_unbounded_dims():
        return None
    _check_supported(program)
    found = _found_sizes(program, shared)
    phase_of = {size.symbol: size.phase for size in found}

    def phase(*shape: SymInt) -> int:
        symbols = symbols_of(*allocation_shape(shape))
        return max((phase_of.get(symbol, 0) for symbol in symbols), default=0)

    roots = [b for b in shared if shared[b] is b]
    rows = sorted(
        zip(roots, intervals), key=lambda row: (phase(row[0].size), row[0].address, row[1].first)
    )
    buffers = [(root, interval.first, interval.last) for root, interval in rows]
    index = {root: i for i, (root, _, _) in enumerate(buffers)}
    phases = [phase(root.size) for root, _, _ in buffers]
    last = max(phase_of.values(), default=0)
    values = [v for step in program.steps for n in step.group.nodes for v in n.outputs]
    # the terms of a product do not show the maximum of a factor
    sizes = {prod(allocation_shape(v.shape)) for v in values}
    sizes |= {t.size for t in program.input_types}
    checked = sizes - {allocation_extent(root.size) for root in roots}
    return RunPlan(
        buffers,
        {b: index[shared[b]] for b in shared},
        sorted((s for s in checked if is_unbounded(s) and not data_dependent_symbols(s)), key=repr),
        found,
        [sum(p <= number for p in phases) for number in range(last + 1)],
        [phase(*type.shape) for type in program.output_types],
    )


def _check_supported(program: Program) -> None:
    if not (program.device_pools() or program.states):
        return
    why = "keeps state between runs" if program.states else "has tensors in device memory"
    names = [symbol.name for symbol in program.dims()]
    raise UnsupportedSizes(
        f"the network {why}, so its memory is planned when it is compiled; declare bounds of "
        f"{', '.join(names)} with {option('dims')}"
    )


def _found_sizes(program: Program, shared: Mapping[Buffer, Buffer]) -> list[FoundSize]:
    """Return the sizes without a bound that a run finds and that memory depends on, in the order in
    which the steps find them. A phase begins before the first step that uses memory of such sizes:
    earlier ones check them, with the node's name in the error."""
    sizes = [allocation_extent(b.size) for b in program.arena_buffers()]
    sizes += [n for type in program.output_types for n in allocation_shape(type.shape)]
    accesses = dict(program.data_dependent_dims)
    for step in program.steps:
        accesses.update(step.data_dependent_dims)
    # a loop's body has others as parameters
    needed = accesses.keys() & symbols_of(*sizes)
    found: list[FoundSize] = []
    buffers = {*shared, *program.outputs}
    placed = {b for b in buffers if needed & symbols_of(allocation_extent(shared.get(b, b).size))}
    users = [i for i, step in enumerate(program.steps)
             if placed & {step.scratch, *(a.buffer for a in step.accesses())}]  # fmt: skip
    for number, step in enumerate(program.steps):
        written = {access.buffer for access in step.writes}
        for symbol in sorted(needed, key=lambda s: s.name):
            if accesses[symbol].buffer in written:
                begin = next((i for i in users if i > number), len(program.steps)) - 1
                same = found and found[-1].begin == begin
                phase = found[-1].phase + (not same) if found else 1
                found.append(FoundSize(symbol, accesses[symbol], number, begin, phase))
    return found


def place_in_sequence(program: Program) -> None:
    """Place the buffers of a program without bounds one after the other: its arena is part of
    another program's buffer, so that a run does not plan it."""
    assert program.run_plan is not None
    end: SymInt = 0
    addresses = []
    for buffer, _, _ in program.run_plan.buffers:
        addresses.append(end)
        end = end + round_up(buffer.dtype.nbytes(allocation_extent(buffer.size)), ALIGN_BYTES)
    for buffer, place in program.run_plan.places.items():
        buffer.address = addresses[place]
    program.arena_bytes, program.run_plan = end, None
