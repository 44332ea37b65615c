"""Memory of networks that are compiled together: one workspace for all of them.

Networks that run one after the other use the same bytes again, so that the largest need counts;
those that may be live at a time get bytes of their own. Weights that are copied to a pool outlive
runs, and so are nobody else's in either case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmrt.ir.program import Buffer, MemoryPool, Program
from tvmrt.planner import plan_program

from . import pool_options
from .c_source import Options
from .firmware_pools import ALIGN_BYTES
from .target import Target


@dataclass
class Need:
    """A network whose memory is planned: its steps, and how they are printed."""

    program: Program
    target: Target
    options: Options
    pools: list[MemoryPool]


def plan_memory(
    needs: Sequence[Need], placement: pool_options.Placement, concurrent: bool = False
) -> None:
    """Plan each network's memory; ``options.resident`` gets the weights that are copied.

    ``concurrent`` keeps the networks' memory apart. Every network has the same pools. Raises
    ValueError where they do not suffice, or a placement names nothing.
    """
    wanted = [placement.of_weights(n.program, n.target, n.options) for n in needs]
    tensors = [placement.of_tensors(n.program) for n in needs]
    placement.check_used()
    for need, rows in zip(needs, wanted):
        _keep(need, rows)
    (_plan_side_by_side if concurrent else _plan_in_turns)(needs, tensors)


def _plan_side_by_side(needs: Sequence[Need], tensors) -> None:
    """Each network's memory behind that of the one before."""
    begins = [0] * len(needs[0].pools)
    for need, placement in zip(needs, tensors):
        _reserve(need, begins)
        _plan(need, placement)
        begins = [max(begin, pool.used_bytes) for begin, pool in zip(begins, need.pools)]


def _plan_in_turns(needs: Sequence[Need], tensors) -> None:
    """The weights of all networks, and behind them memory that each of them uses."""
    begins = [0] * len(needs[0].pools)
    for need in needs:
        _reserve(need, begins)
        begins = [pool.reserved_bytes for pool in need.pools]
    for need, placement in zip(needs, tensors):
        for pool, begin in zip(need.pools, begins):
            pool.reserved_bytes = begin
        _plan(need, placement)


def _plan(need: Need, placement: dict[Buffer, str]) -> None:
    align_bytes = pool_options.align_bytes(need.options)
    plan_program(need.program, need.pools, align_bytes, placement)


def _keep(need: Need, rows: dict[str, tuple[str, int]]) -> None:
    """Note which weights each pool keeps; their places are counted from 0 for now."""
    numbers = {pool.name: i for i, pool in enumerate(need.pools)}
    for name, (pool_name, nbytes) in rows.items():
        number = numbers[pool_name]
        pool = need.pools[number]
        _check_loadable(need, name, pool)
        need.options.resident[name] = (number, pool.kept_bytes)
        pool.kept_bytes += -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES


def _check_loadable(need: Need, name: str, pool: MemoryPool) -> None:
    if pool.lent and need.options.interface_api == "packed":
        raise ValueError(
            f"place {name}={pool.name}: who lends a pool as a tensor cannot have weights copied "
            f"there; use interface-api c, or a pool of the image's own: {pool.name}=BYTES@SECTION"
        )


def _reserve(need: Need, begins: Sequence[int]) -> None:
    """Move the network's own weights behind what others have; ``begins`` in each pool."""
    for name, (number, place) in need.options.resident.items():
        need.options.resident[name] = (number, begins[number] + place)
    for pool, begin in zip(need.pools, begins):
        pool.reserved_bytes = begin + pool.kept_bytes
