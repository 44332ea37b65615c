"""Patch-based inference: the columns that each patch reads, and the choice of the plan."""

from __future__ import annotations

import random
from itertools import product

import pytest
from test_row_fusion import compile_within, network

from tvmrt.compiler.codegen.operators.patch_inference import (
    ColumnRange,
    ColumnWindow,
    find_layer_columns,
)
from tvmrt.compiler.planner.plan import live_bytes_of_steps
from tvmrt.compiler.planner.row_fusion_schedule import RowSources
from tvmrt.compiler.planner.row_fusion_selection import (
    CORTEX_M,
    ChainMemory,
    FusableChain,
    pareto_frontier,
)

ALIGN = 16


def random_windows(seed: int) -> list[ColumnWindow]:
    """Return consecutive layers whose windows overlap a column of the input."""
    draw = random.Random(seed)
    columns, found = draw.randint(6, 40), []
    for _ in range(draw.randint(1, 5)):
        reach, stride = draw.choice((1, 2, 3, 5)), draw.choice((1, 1, 2))
        pad = draw.randint(0, reach - 1)
        made = (columns + pad + draw.randint(0, reach - 1) - reach) // stride + 1
        if made > 2 and (made - 1) * stride - pad < columns:
            found.append(ColumnWindow(columns, made, reach, stride, pad))
            columns = made
    return found or random_windows(seed + 1000)


@pytest.mark.parametrize("seed", range(30))
def test_patch_has_exactly_the_columns_of_its_windows(seed):
    windows = random_windows(seed)
    sources = [RowSources(k - 1) for k in range(len(windows))]
    wide = windows[-1].out_columns
    for begin, end in ((0, wide // 2), (wide // 2, wide), (wide // 3, wide // 3 + 1)):
        found = find_layer_columns(windows, sources, ColumnRange(begin, end))
        expected = set(range(begin, end))
        for k in range(len(windows) - 1, 0, -1):
            window = windows[k]
            assert set(range(found[k].begin, found[k].end)) == expected
            first = [column * window.stride - window.pad for column in expected]
            read = {f + i for f in first for i in range(window.window_columns)}
            inside = {column for column in read if 0 <= column < window.in_columns}
            expected = set(range(min(inside), max(inside) + 1))
            source, out = found[k - 1], found[k]
            assert window.patch_padding(source, out) == source.begin - min(first)


def test_patch_of_a_shared_input_has_the_columns_of_all_readers():
    windows = [ColumnWindow(20, 20), ColumnWindow(20, 20, 5, 1, 2), ColumnWindow(20, 20)]
    sources = [RowSources(-1), RowSources(0), RowSources(1, (0,))]
    found = find_layer_columns(windows, sources, ColumnRange(8, 12))
    assert found == [ColumnRange(6, 14), ColumnRange(8, 12), ColumnRange(8, 12)]


@pytest.mark.parametrize("seed", range(20))
def test_fastest_plan_within_the_limit_is_chosen(seed):
    program = compile_within(network("dense"), None).program
    draw, count = random.Random(seed), len(program.steps)
    chains = {
        (first, last, patches): FusableChain(
            (), draw.randrange(16, 4000, 16), False, draw.randint(1, 99)
        )
        for first in range(count)
        for last in range(first + 1, count)
        for patches in (1, 2, 3)
        if draw.random() < 0.6
    }
    memory = ChainMemory(program, ALIGN)
    lives = {way: memory.live_bytes(way, each) for way, each in chains.items()}
    found = pareto_frontier(program, chains, ALIGN, CORTEX_M)
    whole = found[0].bound_bytes
    single = [bound.bound_bytes for bound in pareto_frontier(program, {}, ALIGN, CORTEX_M)]
    assert found[0].chains == () and single == [whole]
    choices = list(every_choice(chains))
    for limit, taken in [(c.bound_bytes, c) for c in found]:
        fitting = [
            sum(chains[way].instructions(CORTEX_M) for way in choice)
            for choice in choices
            if bound_of(program, choice, lives) <= limit
        ]
        assert taken.instructions == min(fitting)
        assert bound_of(program, taken.chains, lives) == limit


def every_choice(chains) -> list[tuple]:
    """Return all sets of disjoint chains."""
    last = max((way[1] for way in chains), default=0)
    by_first = [[None, *(w for w in chains if w[0] == i)] for i in range(last + 1)]
    for picked in product(*by_first):
        ways = [way for way in picked if way is not None]
        if all(a[1] < b[0] for a, b in zip(ways, ways[1:])):
            yield tuple(ways)


def bound_of(program, choice, lives) -> int:
    """Return the peak memory of steps and chains."""
    singles = live_bytes_of_steps(program, ALIGN)
    inside = {i for first, last, _ in choice for i in range(first, last + 1)}
    alone = [nbytes for i, nbytes in enumerate(singles) if i not in inside]
    return max([*alone, *(lives[way] for way in choice)])
