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
    names = [pool.name for pool in needs[0].pools] if needs else []
    ends = dict.fromkeys(names, 0)
    kept = [_keep(need, rows) for need, rows in zip(needs, wanted)]
    for need, own, of_tensors in zip(needs, kept, tensors):
        for pool in need.pools:
            pool.kept_bytes = own[pool.name]
        if concurrent:
            _reserve(need, ends)
            _plan(need, of_tensors)
            for pool in need.pools:
                ends[pool.name] = max(ends[pool.name], pool.used_bytes)
        else:
            _reserve(need, ends)
            for name in names:
                ends[name] += own[name]
    if concurrent:
        return
    for need, of_tensors in zip(needs, tensors):
        for pool in need.pools:
            pool.reserved_bytes = ends[pool.name]
        _plan(need, of_tensors)


def _plan(need: Need, placement: dict[Buffer, str]) -> None:
    align_bytes = pool_options.align_bytes(need.options)
    plan_program(need.program, need.pools, align_bytes, placement)


def _keep(need: Need, rows: dict[str, tuple[str, int]]) -> dict[str, int]:
    """Bytes of weights in each pool; the weights' places are counted from 0 for now."""
    numbers = {pool.name: i for i, pool in enumerate(need.pools)}
    sums = dict.fromkeys(numbers, 0)
    for name, (pool, nbytes) in rows.items():
        _check_loadable(need, name, need.pools[numbers[pool]])
        need.options.resident[name] = (numbers[pool], sums[pool])
        sums[pool] += -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES
    return sums


def _check_loadable(need: Need, name: str, pool: MemoryPool) -> None:
    if pool.lent and need.options.interface_api == "packed":
        raise ValueError(
            f"place {name}={pool.name}: who lends a pool as a tensor cannot have weights copied "
            f"there; use interface-api c, or a pool of the image's own: {pool.name}=BYTES@SECTION"
        )


def _reserve(need: Need, begins: dict[str, int]) -> None:
    """Move the network's own weights behind what others have."""
    for name, (number, place) in need.options.resident.items():
        begin = begins[need.pools[number].name]
        need.options.resident[name] = (number, begin + place)
    for pool in need.pools:
        pool.reserved_bytes = begins[pool.name] + pool.kept_bytes
