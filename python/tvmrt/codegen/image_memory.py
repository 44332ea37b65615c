"""Memory of networks that are compiled together: one workspace for all of them.

Networks that run one after the other use the same bytes again, so that the largest need counts;
those that may be live at a time get bytes of their own, so that their needs add up. Weights that
are copied to a pool outlive runs, and so are nobody else's in either case: they lie in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmrt.ir.program import Buffer, MemoryPool, Program
from tvmrt.ir.rounding import round_up
from tvmrt.planner import plan_program

from . import pool_options
from .options import Options, SharedImage
from .pools import ALIGN_BYTES
from .target import Target


@dataclass
class Need:
    """A network whose memory is planned: its steps, and how they are printed."""

    program: Program
    target: Target
    options: Options
    pools: list[MemoryPool]

    def in_image(self, image: SharedImage) -> Need:
        """The need of a network that has its memory from an image."""
        return replace(self, options=replace(self.options, image=image))


def plan_memory(
    needs: Sequence[Need], placement: pool_options.Placement, live: Sequence[Sequence[int]] = ()
) -> list[Options]:
    """Plan each network's memory; the options of each with the places of its weights.

    ``live`` lists groups of networks, by their numbers: those of a group get memory side by side;
    the groups, and each network that is in none, use the same memory in turns. Every network has
    the same pools. Raises ValueError where they do not suffice, or a placement names nothing.
    """
    wanted, sections = zip(*(placement.of_weights(n.program, n.target, n.options) for n in needs))
    tensors = [placement.of_tensors(n.program) for n in needs]
    placement.check_used()
    begins = [0] * len(needs[0].pools)
    planned = []
    for need, rows, where in zip(needs, wanted, sections):
        resident, begins = _keep(need, rows, begins)
        planned.append(replace(need.options, resident=resident, sections=where))
    grouped = {i for group in live for i in group}
    alone = [[i] for i in range(len(needs)) if i not in grouped]
    for group in [*live, *alone]:
        ends = begins
        for i in group:
            _plan(needs[i], tensors[i], ends)
            ends = [max(end, pool.used_bytes) for end, pool in zip(ends, needs[i].pools)]
    return planned


def _plan(need: Need, placement: dict[Buffer, str], begins: Sequence[int]) -> None:
    """Plan a network's memory from these bytes of each pool on."""
    for pool, begin in zip(need.pools, begins):
        pool.reserved_bytes = begin
    align_bytes = pool_options.align_bytes(need.options)
    plan_program(need.program, need.pools, align_bytes, placement)


def _keep(
    need: Need, rows: dict[str, tuple[str, int]], begins: Sequence[int]
) -> tuple[dict[str, tuple[int, int]], list[int]]:
    """Places of the weights that are copied, from these bytes of each pool on, and where they
    end."""
    resident = {}
    numbers = {pool.name: i for i, pool in enumerate(need.pools)}
    for name, (pool_name, nbytes) in rows.items():
        number = numbers[pool_name]
        pool = need.pools[number]
        _check_loadable(need, name, pool)
        resident[name] = (number, begins[number] + pool.kept_bytes)
        pool.kept_bytes += round_up(nbytes, ALIGN_BYTES)
    return resident, [begin + pool.kept_bytes for begin, pool in zip(begins, need.pools)]


def _check_loadable(need: Need, name: str, pool: MemoryPool) -> None:
    if pool.lent and need.options.interface_api == "packed":
        raise ValueError(
            f"place {name}={pool.name}: who lends a pool as a tensor cannot have weights copied "
            f"there; use interface-api c, or a pool of the image's own: {pool.name}=BYTES@SECTION"
        )
