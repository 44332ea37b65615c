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
from tvmrt.compiler.planner.plan import plan_program, share_memory
from tvmrt.option_syntax import Unquoted, option

from . import pool_options
from .c_source import print_functions
from .options import Options, Sources, WeightPlacement
from .pools import ALIGN_BYTES
from .target import Target


@dataclass
class UnplannedNetwork:
    """Network whose memory is planned: its steps, and how they are printed."""

    program: Program
    target: Target
    options: Options
    pools: list[MemoryPool]


@dataclass
class PlacedNetwork:
    """Placement of a network's weights, and its functions if placing the weights required printing
    them."""

    places: WeightPlacement
    printed: Sources | None


def plan_memory(
    networks: Sequence[UnplannedNetwork],
    placement: pool_options.Placement,
    live: Sequence[Sequence[int]] = (),
) -> list[PlacedNetwork]:
    """Plan each network's memory: set the addresses in its program and place its weights.

    ``live`` lists groups of network indices. Networks of a group get separate memory; the groups,
    and each network in no group, share the same memory in turns. All networks have the same pools.
    Raises ValueError if the pools are too small or a placement matches nothing.
    """
    tensors = [placement.tensor_pools(network.program) for network in networks]
    shared = [share_memory(network.program, where) for network, where in zip(networks, tensors)]
    printed = [_print_functions(network) if placement.patterns else None for network in networks]
    pool_names = [placement.weight_pools(p.weight_buffers if p else ()) for p in printed]
    placement.check_used()
    begins = [0] * len(networks[0].pools)
    planned, resident_bytes = [], []
    for network, functions, (rows, sections) in zip(networks, printed, pool_names):
        resident, used = _place_resident_weights(network, rows, begins)
        begins = [begin + nbytes for begin, nbytes in zip(begins, used)]
        resident_bytes.append(used)
        planned.append(PlacedNetwork(WeightPlacement(resident, sections), functions))
    grouped = {i for group in live for i in group}
    alone = [[i] for i in range(len(networks)) if i not in grouped]
    for group in [*live, *alone]:
        ends = begins
        for i in group:
            pools = [
                replace(pool, reserved_bytes=end, kept_bytes=nbytes)
                for pool, end, nbytes in zip(networks[i].pools, ends, resident_bytes[i])
            ]
            align_bytes = pool_options.align_bytes(networks[i].options)
            plan_program(networks[i].program, pools, align_bytes, tensors[i], shared[i])
            ends = [max(end, pool.used_bytes) for end, pool in zip(ends, networks[i].program.pools)]
    return planned


def _print_functions(network: UnplannedNetwork) -> Sources:
    """Print a network's functions, which fixes the names and sizes of its weights."""
    return print_functions(network.program, network.target, network.options)


def _place_resident_weights(
    network: UnplannedNetwork, rows: dict[str, tuple[str, int]], begins: Sequence[int]
) -> tuple[dict[str, tuple[int, int]], list[int]]:
    """Place the copied weights in each pool from the offsets ``begins`` on. Return the places and
    the bytes used in each pool."""
    resident, used_bytes = {}, [0] * len(network.pools)
    pool_indices = {pool.name: i for i, pool in enumerate(network.pools)}
    for name, (pool_name, nbytes) in rows.items():
        pool_index = pool_indices[pool_name]
        _check_loadable(network, name, network.pools[pool_index])
        resident[name] = (pool_index, begins[pool_index] + used_bytes[pool_index])
        used_bytes[pool_index] += round_up(nbytes, ALIGN_BYTES)
    return resident, used_bytes


def _check_loadable(network: UnplannedNetwork, name: str, pool: MemoryPool) -> None:
    if pool.is_external and network.options.interface_api == "packed":
        raise ValueError(
            f"{option('place', {name: pool.name})}: weights cannot be copied to a pool that the "
            f"caller provides as a tensor; use {option('interface_api', 'c')}, or let the image "
            f"contain the pool: {option('pools', {pool.name: (Unquoted('BYTES'), 'SECTION')})}"
        )
