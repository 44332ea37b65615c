"""Row-fused chains of layers, executed by an interpreter that tracks the owner of every byte."""

from __future__ import annotations

import random

import pytest

from tvmrt.compiler.planner.row_fusion_schedule import (
    OUTSIDE,
    ChainPlan,
    RowLayer,
    RowSources,
    plan_chain,
)

ALIGN = 16


def random_chain(seed: int) -> list[RowLayer]:
    """Return compatible layers: windows, line buffers of one or two rows, pointwise layers."""
    draw = random.Random(seed)
    rows, width = draw.randint(1, 23), draw.choice((3, 16, 40))
    layers = []
    for _ in range(draw.randint(2, 6)):
        kind = draw.choice(("window", "ring", "pairs", "pointwise", "pointwise"))
        out = draw.choice((3, 16, 40))
        if kind == "pointwise":
            layers.append(RowLayer(rows, rows, width, out, may_overwrite_input=out <= width))
        else:
            stride = draw.choice((1, 2))
            reach = 3 if kind == "pairs" else draw.choice((2, 3, 5))
            pad = draw.randint(0, reach - 1)
            after = draw.randint(0, reach - 1)
            made = (rows + pad + after - reach) // stride + 1
            if made < 1 or (made - 1) * stride - pad >= rows:
                continue
            unit = {"window": 0, "ring": 1, "pairs": 2}[kind]
            ring = 64 if unit else 0
            out = width if unit else out
            layers.append(
                RowLayer(rows, made, width, out, reach, stride, pad, unit, ring, unit > 0)
            )
            rows = made
        width = out
    if draw.random() < 0.3 and rows > 1:  # sums over all rows
        layers.append(
            RowLayer(rows, 1, width, width, rows, rows, 0, 1, 64, may_overwrite_input=True)
        )
    return layers if len(layers) > 1 else random_chain(seed + 1000)


def random_branches(seed: int) -> tuple[list[RowLayer], list[RowSources]]:
    """Return blocks of one layer, or of two branches of equal stride that the last layer adds."""
    draw = random.Random(seed)
    rows, width = draw.randint(4, 23), draw.choice((3, 16, 40))
    layers: list[RowLayer] = []
    sources: list[RowSources] = []
    begin = OUTSIDE
    for _ in range(draw.randint(1, 3)):
        stride, reach = draw.choice((1, 2)), draw.choice((3, 5))
        out = draw.choice((3, 16, 40))
        made = (rows - 1) // stride + 1
        skip = begin
        if stride != 1 or out != width:  # the addend has rows of the result
            skip = len(layers)
            layers.append(RowLayer(rows, made, width, out, 2, stride, 0))
            sources.append(RowSources(begin))
        wide = draw.choice((16, 40))
        layers.append(RowLayer(rows, rows, width, wide, may_overwrite_input=wide <= width))
        sources.append(RowSources(begin))
        layers.append(RowLayer(rows, made, wide, out, reach, stride, reach // 2))
        sources.append(RowSources(len(layers) - 2, () if skip == OUTSIDE else (skip,)))
        layers.append(RowLayer(made, made, out, out, may_overwrite_input=True))
        sources.append(RowSources(len(layers) - 2))
        rows, width, begin = made, out, len(layers) - 1
    return layers, sources


class Machine:
    """Interpreter of the schedule. Memory holds (layer, row) for each byte; a layer fails if a row
    that it reads is missing."""

    def __init__(self, plan: ChainPlan) -> None:
        self.plan = plan
        count = len(plan.layers)
        self.memory: list[tuple[int, int] | None] = [None] * plan.nbytes
        self.first, self.made, self.base = [0] * count, [0] * count, [0] * count
        self.copied: list[set[int]] = [set() for _ in plan.layers]
        self.written = 0
        for k, layer in enumerate(plan.layers):
            for at in range(plan.line_buffers[k], plan.line_buffers[k] + layer.line_buffer_bytes):
                assert self.memory[at] is None, "two line buffers overlap"
                self.memory[at] = (-1, k)

    def run(self) -> None:
        for call in self.plan.calls:
            self.call(call.layer, call.rows, call.dropped)
        assert self.made[-1] == self.plan.layers[-1].out_rows
        for k, layer in enumerate(self.plan.layers):
            assert self.made[k] <= layer.out_rows
            assert all((-1, k) == self.memory[self.plan.line_buffers[k] + i]
                       for i in range(layer.line_buffer_bytes)), "overwritten"  # fmt: skip

    def call(self, k: int, rows: int, dropped: int) -> None:
        layer, sources = self.plan.layers[k], self.plan.sources[k]
        outside = sources.main == OUTSIDE
        there = layer.in_rows if outside else self.made[sources.main]
        in_memory = range(self.first[k], there)
        for row in in_memory if not outside else ():
            self.check_row(sources.main, row)
        wanted = self.windows(k, self.made[k], rows)
        if layer.window_rows == layer.stride == layer.in_rows:
            assert not self.copied[k] & set(in_memory), "a row is accumulated twice"
        if layer.unit:
            self.copy_slots(k, in_memory)
            assert rows <= layer.step
            assert wanted <= self.copied[k], "a line buffer lacks rows"
        else:
            assert wanted <= set(in_memory), "a window lacks rows"
        for source in sources.added:
            for row in range(self.made[k], self.made[k] + rows):
                assert row < self.made[source], "a row to be added is missing"
                self.check_row(source, row)
        if k < len(self.plan.layers) - 1:
            self.make_room(k)
        for row in range(self.made[k], self.made[k] + rows):
            self.write_row(k, row)
        self.made[k] += rows
        self.first[k] += dropped
        assert self.first[k] <= there

    def windows(self, k: int, row: int, rows: int) -> set[int]:
        layer = self.plan.layers[k]
        begins = [r * layer.stride - layer.pad for r in range(row, row + rows)]
        read = {b + i for b in begins for i in range(layer.window_rows)}
        return {r for r in read if 0 <= r < layer.in_rows}

    def copy_slots(self, k: int, in_memory: range) -> None:
        """Copy whole slots, as the kernels do, and no more than the next step reads."""
        layer = self.plan.layers[k]
        for slot in range(layer.slots(self.made[k])):
            rows = range(slot * layer.unit - layer.pad, (slot + 1) * layer.unit - layer.pad)
            real = {r for r in rows if 0 <= r < layer.in_rows}
            if real <= set(in_memory):
                self.copied[k] |= real

    def place(self, k: int, row: int) -> range:
        """Return the byte range of a row of a layer's output."""
        size = self.plan.layers[k].out_bytes
        begin = self.plan.offsets[k] + (row - self.base[k]) * size
        return range(begin, begin + size)

    def check_row(self, k: int, row: int) -> None:
        assert row >= self.base[k]
        owners = {self.memory[at] for at in self.place(k, row)}
        assert owners == {(k, row)}, f"row {row} of layer {k} was written over"

    def write_row(self, k: int, row: int) -> None:
        layer = self.plan.layers[k]
        if k == len(self.plan.layers) - 1:
            self.written += layer.out_bytes
            if self.plan.in_place:  # unread rows of the chain's input follow
                begin = min(self.needed(r) for r, s in enumerate(self.plan.sources) if s.main < 0)
                assert self.written <= begin * self.plan.layers[0].in_bytes
            return
        for at in self.place(k, row):
            self.memory[at] = (k, row)

    def needed(self, k: int) -> int:
        """Return the first row of the chain's input that a layer still reads."""
        read = self.windows(k, self.made[k], self.plan.layers[k].out_rows)
        if self.plan.layers[k].unit:
            read -= self.copied[k]
        return min(read, default=self.plan.layers[k].in_rows)

    def make_room(self, k: int) -> None:
        """Move the remaining rows to the front of their buffer."""
        windows, adding = self.plan.readers(k)
        kept = min([*(self.first[r] for r in windows), *(self.made[r] for r in adding)])
        rows = {row: [self.memory[at] for at in self.place(k, row)]
                for row in range(kept, self.made[k])}  # fmt: skip
        moves = kept > self.base[k]
        self.base[k] = kept
        for row, owners in rows.items() if moves else ():
            for at, owner in zip(self.place(k, row), owners):
                self.memory[at] = owner


@pytest.mark.parametrize("seed", range(60))
def test_every_row_is_computed_once_before_use(seed):
    layers = random_chain(seed)
    plan = plan_chain(layers, ALIGN)
    Machine(plan).run()
    assert all(at % ALIGN == 0 for at in (*plan.offsets, *plan.line_buffers))


@pytest.mark.parametrize("seed", range(60))
def test_shared_rows_stay_until_the_last_reader(seed):
    layers, sources = random_branches(seed)
    plan = plan_chain(layers, ALIGN, sources)
    Machine(plan).run()
    whole = sum(layer.out_bytes * layer.out_rows for layer in layers[:-1])
    assert plan.nbytes < whole or layers[-1].out_rows < 8


def test_two_layers_of_equal_width_share_a_buffer():
    wide = RowLayer(40, 40, 64, 64, may_overwrite_input=True)
    plan = plan_chain([wide, wide, wide, wide], ALIGN)
    assert plan.nbytes == 2 * 64
    assert plan.overlaps(1) and plan.overlaps(2)


def test_a_row_that_is_added_later_waits_for_the_windows_between():
    wide, window = (
        RowLayer(40, 40, 64, 64, may_overwrite_input=True),
        RowLayer(40, 40, 64, 64, 5, 1, 2),
    )
    sources = [RowSources(OUTSIDE), RowSources(0), RowSources(1, (0,))]
    plan = plan_chain([wide, wide, window], ALIGN, sources)
    assert plan.max_live_rows == (3, 5)
    assert not plan.overlaps(1)


def test_a_window_keeps_as_many_rows_as_it_is_high():
    copy, conv = RowLayer(30, 30, 48, 48), RowLayer(30, 30, 48, 32, 5, 1, 2)
    assert plan_chain([copy, conv], ALIGN).max_live_rows == (5,)
