"""Chains of layers by rows, against an interpreter that holds every byte's owner."""

from __future__ import annotations

import random

import pytest

from tvmrt.planner.row_chains import ChainPlan, RowLayer, plan_chain

ALIGN = 16


def random_chain(seed: int) -> list[RowLayer]:
    """Layers that fit each other: windows, rings of one or two rows, pointwise ones."""
    draw = random.Random(seed)
    rows, width = draw.randint(1, 23), draw.choice((3, 16, 40))
    layers = []
    for _ in range(draw.randint(2, 6)):
        kind = draw.choice(("window", "ring", "pairs", "pointwise", "pointwise"))
        out = draw.choice((3, 16, 40))
        if kind == "pointwise":
            layers.append(RowLayer(rows, rows, width, out, over_input=out <= width))
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
    return layers if len(layers) > 1 else random_chain(seed + 1000)


class Machine:
    """Runs the calls. Memory holds (layer, row) for each byte; a layer reads what its windows need
    and fails where that is not there."""

    def __init__(self, plan: ChainPlan) -> None:
        self.plan = plan
        count = len(plan.layers)
        self.memory: list[tuple[int, int] | None] = [None] * plan.nbytes
        self.first, self.made = [0] * count, [0] * count
        self.count = [plan.layers[0].in_rows, *[0] * count]
        self.copied: list[set[int]] = [set() for _ in plan.layers]
        self.written = 0
        for k, layer in enumerate(plan.layers):
            for at in range(plan.rings[k], plan.rings[k] + layer.ring_bytes):
                assert self.memory[at] is None, "two rings overlap"
                self.memory[at] = (-1, k)

    def run(self) -> None:
        for call in self.plan.calls:
            self.call(call.layer, call.rows, call.dropped)
        assert self.made[-1] == self.plan.layers[-1].out_rows
        for k, layer in enumerate(self.plan.layers):
            assert self.made[k] <= layer.out_rows
            assert all((-1, k) == self.memory[self.plan.rings[k] + i]
                       for i in range(layer.ring_bytes)), "a ring was written over"  # fmt: skip

    def call(self, k: int, rows: int, dropped: int) -> None:
        layer, first = self.plan.layers[k], self.first[k]
        lying = range(first, first + self.count[k])
        for row in lying:
            self.check_row(k, row)
        wanted = self.windows(k, self.made[k], rows)
        if layer.unit:
            self.copy_slots(k, lying)
            assert rows <= layer.step
            assert wanted <= self.copied[k], "a ring lacks rows"
        else:
            assert wanted <= set(lying), "a window lacks rows"
        for row in range(self.made[k], self.made[k] + rows):
            self.write_row(k, row)
        self.made[k] += rows
        self.first[k] += dropped
        self.count[k] -= dropped
        assert self.count[k] >= 0
        if k and dropped:
            self.move(k)

    def windows(self, k: int, row: int, rows: int) -> set[int]:
        layer = self.plan.layers[k]
        begins = [r * layer.stride - layer.pad for r in range(row, row + rows)]
        read = {b + i for b in begins for i in range(layer.reach)}
        return {r for r in read if 0 <= r < layer.in_rows}

    def copy_slots(self, k: int, lying: range) -> None:
        """As the kernels do it: whole slots, no more than the next step reads."""
        layer = self.plan.layers[k]
        for slot in range(layer.slots(self.made[k])):
            rows = range(slot * layer.unit - layer.pad, (slot + 1) * layer.unit - layer.pad)
            real = {r for r in rows if 0 <= r < layer.in_rows}
            if real <= set(lying):
                self.copied[k] |= real

    def place(self, k: int, row: int) -> range:
        """The bytes of an input row of a layer inside of the chain."""
        size = self.plan.layers[k].in_bytes
        begin = self.plan.places[k - 1] + (row - self.first[k]) * size
        return range(begin, begin + size)

    def check_row(self, k: int, row: int) -> None:
        if k:
            owners = {self.memory[at] for at in self.place(k, row)}
            assert owners == {(k, row)}, f"row {row} of layer {k} was written over"

    def write_row(self, k: int, row: int) -> None:
        layer, after = self.plan.layers[k], k + 1
        if after == len(self.plan.layers):
            self.written += layer.out_bytes
            if self.plan.in_place:  # what is still read of the chain's input lies behind
                read = self.windows(0, self.made[0], self.plan.layers[0].out_rows)
                if self.plan.layers[0].unit:
                    read -= self.copied[0]
                begin = min(read, default=self.plan.layers[0].in_rows)
                assert k == 0 or self.written <= begin * self.plan.layers[0].in_bytes
            return
        for at in self.place(after, self.first[after] + self.count[after]):
            self.memory[at] = (after, row)
        self.count[after] += 1

    def move(self, k: int) -> None:
        """What is left moves to the front of its place."""
        size, begin = self.plan.layers[k].in_bytes, self.plan.places[k - 1]
        for i in range(self.count[k]):
            for at in range(begin + i * size, begin + (i + 1) * size):
                self.memory[at] = (k, self.first[k] + i)


@pytest.mark.parametrize("seed", range(60))
def test_every_call_finds_its_rows_and_each_is_made_once(seed):
    layers = random_chain(seed)
    plan = plan_chain(layers, ALIGN)
    Machine(plan).run()
    assert all(at % ALIGN == 0 for at in (*plan.places, *plan.rings))


def test_two_layers_of_equal_width_use_one_place():
    wide = RowLayer(40, 40, 64, 64, over_input=True)
    plan = plan_chain([wide, wide, wide, wide], ALIGN)
    assert plan.nbytes == 2 * 64
    assert plan.overlaps(1) and plan.overlaps(2)


def test_a_window_keeps_as_many_rows_as_it_is_high():
    copy, conv = RowLayer(30, 30, 48, 48), RowLayer(30, 30, 48, 32, 5, 1, 2)
    assert plan_chain([copy, conv], ALIGN).heights == (5,)
