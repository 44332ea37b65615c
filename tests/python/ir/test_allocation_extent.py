"""Sizes for memory: at least those of every run, and exact where one is the largest of all."""

from __future__ import annotations

import itertools
import random

import pytest

from tvmrt.compiler.ir.sizes import (
    Extent,
    Symbol,
    SymInt,
    allocation_extent,
    sym_max,
    sym_min,
    symbols_of,
)

ROWS = Symbol("rows", 0, 4, "n_rows")  # an input's dimension
FOUND = Symbol("found", 0, 5, "n_found", source="a tensor")
BOXES = Symbol("boxes", 1, 3, "n_boxes", source="a tensor")
SYMBOLS = (ROWS, FOUND, BOXES)
RUNS = [
    dict(zip((s.name for s in SYMBOLS), numbers))
    for numbers in itertools.product(*(range(s.low, s.high + 1) for s in SYMBOLS))
]


def at(value: SymInt, run: dict[str, int]) -> int:
    return value.at(run) if isinstance(value, Extent) else value


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (FOUND.extent * 2, 10),
        (FOUND.extent * ROWS.extent, ROWS.extent * 5),  # grows, except where rows is 0
        (7 - FOUND.extent, 7),
        (FOUND.extent // 2 + ROWS.extent, ROWS.extent + 2),
        (sym_max(FOUND.extent - 3, 0) * BOXES.extent, 6),
        (ROWS.extent * 3, ROWS.extent * 3),
    ],
)
def test_the_largest_size_of_found_ones(value, right):
    assert allocation_extent(value) == right


def random_extent(draw: random.Random, depth: int = 3) -> SymInt:
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([*(s.extent for s in SYMBOLS), 1, 2, 3])
    a, b = random_extent(draw, depth - 1), random_extent(draw, depth - 1)
    kind = draw.randrange(5)
    if kind == 0:
        return a * b
    if kind == 1:
        return a - b
    if kind == 2:
        return a // draw.randint(2, 3)
    return sym_max(a, b) if kind == 3 else sym_min(a, b) + b


def test_memory_is_enough_for_every_run():
    draw, kept = random.Random(0), 0
    for _ in range(400):
        value = random_extent(draw)
        if min(at(value, run) for run in RUNS) < 0:
            continue  # not a size
        kept += 1
        enough = allocation_extent(value)
        assert symbols_of(enough) <= {ROWS}
        assert all(at(enough, run) >= at(value, run) for run in RUNS), value
    assert kept > 150
