"""Memory of networks that are compiled together: one workspace for all of them.

Networks that run one after the other use the same bytes again, so that the largest need counts;
those that may be live at a time get bytes of their own, so that their needs add up. Weights that
are copied to a pool outlive runs, and so are nobody else's in either case: they lie in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmrt.compiler.ir.program import MemoryPool, Program
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.planner import plan_program, share_memory

from . import pool_options
from .c_source import print_functions
from .options import Options, Sources, WeightPlaces
from .pools import ALIGN_BYTES
from .target import Target


@dataclass
class Need:
    """A network whose memory is planned: its steps, and how they are printed."""

    program: Program
    target: Target
    options: Options
    pools: list[MemoryPool]


@dataclass
class Planned:
    """Where a network's weights lie, and its functions, if their weights had to be known for
    that."""

    places: WeightPlaces
    printed: Sources | None


def plan_memory(
    needs: Sequence[Need], placement: pool_options.Placement, live: Sequence[Sequence[int]] = ()
) -> list[Planned]:
    """Plan each network's memory: its program gets addresses, its weights their places.

    ``live`` lists groups of networks, by their numbers: those of a group get memory side by side;
    the groups, and each network that is in none, use the same memory in turns. Every network has
    the same pools. Raises ValueError where they do not suffice, or a placement names nothing.
    """
    tensors = [placement.of_tensors(need.program) for need in needs]
    shared = [share_memory(need.program, where) for need, where in zip(needs, tensors)]
    printed = [_printed(need) if placement.patterns else None for need in needs]
    wanted = [placement.of_weights(p.weight_buffers if p else ()) for p in printed]
    placement.check_used()
    begins = [0] * len(needs[0].pools)
    planned, kept = [], []
    for need, functions, (rows, sections) in zip(needs, printed, wanted):
        resident, taken = _keep(need, rows, begins)
        begins = [begin + nbytes for begin, nbytes in zip(begins, taken)]
        kept.append(taken)
        planned.append(Planned(WeightPlaces(resident, sections), functions))
    grouped = {i for group in live for i in group}
    alone = [[i] for i in range(len(needs)) if i not in grouped]
    for group in [*live, *alone]:
        ends = begins
        for i in group:
            pools = [
                replace(pool, reserved_bytes=end, kept_bytes=nbytes)
                for pool, end, nbytes in zip(needs[i].pools, ends, kept[i])
            ]
            align_bytes = pool_options.align_bytes(needs[i].options)
            plan_program(needs[i].program, pools, align_bytes, tensors[i], shared[i])
            ends = [max(end, pool.used_bytes) for end, pool in zip(ends, needs[i].program.pools)]
    return planned


def _printed(need: Need) -> Sources:
    """Names and sizes of weights are those of the generated code."""
    return print_functions(need.program, need.target, need.options)


def _keep(
    need: Need, rows: dict[str, tuple[str, int]], begins: Sequence[int]
) -> tuple[dict[str, tuple[int, int]], list[int]]:
    """Places of the weights that are copied, from these bytes of each pool on, and the bytes of
    each pool that they take."""
    resident, taken = {}, [0] * len(need.pools)
    numbers = {pool.name: i for i, pool in enumerate(need.pools)}
    for name, (pool_name, nbytes) in rows.items():
        number = numbers[pool_name]
        _check_loadable(need, name, need.pools[number])
        resident[name] = (number, begins[number] + taken[number])
        taken[number] += round_up(nbytes, ALIGN_BYTES)
    return resident, taken


def _check_loadable(need: Need, name: str, pool: MemoryPool) -> None:
    if pool.lent and need.options.interface_api == "packed":
        raise ValueError(
            f"place {name}={pool.name}: weights cannot be copied to a pool that the caller "
            "provides as a tensor; use interface-api c, or let the image contain the pool: "
            f"{pool.name}=BYTES@SECTION"
        )
