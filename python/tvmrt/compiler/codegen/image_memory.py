"""Memory of networks that are compiled together: one workspace for all.

Networks that run one after another reuse the same bytes: the largest need counts. Networks that may
be live concurrently get separate bytes: their needs add up. Weights that are copied to a pool
outlive runs, so their bytes at the start of the pool are never shared.
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
    """Network whose memory is planned: its steps, and how they are printed."""

    program: Program
    target: Target
    options: Options
    pools: list[MemoryPool]


@dataclass
class Planned:
    """Placement of a network's weights, and its functions if placing the weights required printing
    them."""

    places: WeightPlaces
    printed: Sources | None


def plan_memory(
    needs: Sequence[Need], placement: pool_options.Placement, live: Sequence[Sequence[int]] = ()
) -> list[Planned]:
    """Plan each network's memory: set the addresses in its program and place its weights.

    ``live`` lists groups of network indices. Networks of a group get separate memory; the groups,
    and each network in no group, share the same memory in turns. All networks have the same pools.
    Raises ValueError if the pools are too small or a placement matches nothing.
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
    """Print a network's functions, which fixes the names and sizes of its weights."""
    return print_functions(need.program, need.target, need.options)


def _keep(
    need: Need, rows: dict[str, tuple[str, int]], begins: Sequence[int]
) -> tuple[dict[str, tuple[int, int]], list[int]]:
    """Place the copied weights in each pool from the offsets ``begins`` on. Return the places and
    the bytes used in each pool."""
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
