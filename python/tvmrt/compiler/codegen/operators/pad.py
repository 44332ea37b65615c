"""Padding: rows of the data are copied whole, the border is filled or mirrored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.compiler.ir.program import Step

from ...ir.program import ANY
from ..c.formatting import plus, times
from ..c.inputs import value_layout, value_pointer
from ..c.writer import FunctionWriter
from ..loops.loop_nest import index, merge_loops, open_loops
from ..loops.pointwise import scalar_literal
from ..lowering import Lowering, ResultLayout, lowers
from .strided_block import StridedBlock


@lowers("pad")
class PadLowering(Lowering):
    """Padding. The result has the axis order of the data, so that channels stay innermost."""

    operand_demand = ANY

    def result_layout(self, index: int, accesses) -> ResultLayout:
        access = accesses.get(self.node.inputs[0])
        return ResultLayout(None if access is None else access.at.order())

    def emit(self, step: Step, f: FunctionWriter) -> None:
        _PadPrinter(self.node, step, f).emit()


class _Offsets(NamedTuple):
    """Terms of the offsets in the result and in the data."""

    target: tuple[str, ...] = ()
    source: tuple[str, ...] = ()

    def plus(self, target: str, *source: str) -> _Offsets:
        return _Offsets((*self.target, target), (*self.source, *source))


class _PadPrinter:
    """Printer of loops over the axes in memory order, outermost first."""

    def __init__(self, node, step: Step, f: FunctionWriter) -> None:
        self.f = f
        self.data = node.inputs[0]
        self.dtype = self.data.dtype
        self.mode = node.attrs["mode"]
        self.before, self.after = node.attrs["before"], node.attrs["after"]
        self.x = value_pointer(f, self.data, "data")
        self.y = f.write()
        self.source, self.target = value_layout(step, self.data), step.writes[0].at
        self.order = self.target.order()
        padded = [p for p, d in enumerate(self.order) if self._pads(d)]
        self.last = padded[-1] if padded else -1
        self.value = "0"
        if self.mode == "constant" and len(node.inputs) > 1:
            literal = scalar_literal(node.inputs[1])
            pointer = literal or value_pointer(f, node.inputs[1], "value")
            self.value = literal or f"*{pointer}"
        mirrored = [d for d in self.order if self._pads(d) and self.mode != "constant"]
        self.maps = {d: self._map(d) for d in mirrored}

    def _pads(self, axis: int) -> bool:
        """Return whether an axis is padded, possibly only at some dynamic sizes."""
        return (self.before[axis], self.after[axis]) != (0, 0)

    def _map(self, axis: int) -> str:
        """Return a table with the source index of each element along the axis."""
        pads = (self.before[axis], self.after[axis])
        table = np.pad(np.arange(self.data.shape[axis], dtype=np.int32), pads, mode=self.mode)
        return self.f.constant(f"{self.mode}_{axis}", table)

    def emit(self) -> None:
        self._print_axis(0, _Offsets())

    def _print_axis(self, position: int, at: _Offsets) -> None:
        """Print the loops from one axis on; ``at``: the offsets so far."""
        if position > self.last:
            self._print_inner_axes(position, at)
            return
        axis = self.order[position]
        if not self._pads(axis):
            self._print_copied_axes(position, at)
        elif self.mode == "constant":
            self._print_filled_axis(position, at)
        elif position == self.last and self._strides_at(position) == (1, 1):
            self._print_mirrored_row(axis, at)
        else:
            self._print_mapped_axis(position, at)

    def _strides_at(self, position: int) -> tuple[int, int]:
        axis = self.order[position]
        return self.target.strides[axis], self.source.strides[axis]

    def _print_inner_axes(self, position: int, at: _Offsets, extra: int | None = None) -> None:
        """Copy all axes from one on, and the axis ``extra`` before them if it is contiguous."""
        axes = self.order[position:] if extra is None else (extra, *self.order[position:])
        block = StridedBlock(
            [self.data.shape[d] for d in axes],
            [self.target.strides[d] for d in axes],
            [self.source.strides[d] for d in axes],
            self.dtype,
        )
        block.copy(self.f, plus(self.y, *at.target), plus(self.x, *at.source))

    def _print_copied_axes(self, position: int, at: _Offsets) -> None:
        """Print merged loops over consecutive axes without padding."""
        end = position
        while not self._pads(self.order[end]):
            end += 1
        axes = self.order[position:end]
        strides = [self.target.strides, self.source.strides]
        loops = merge_loops(self.data.shape, axes, strides)
        names = [self.f.fresh(f"i{position + k}") for k in range(len(loops))]
        with open_loops(self.f, loops, names):
            self._print_axis(end, at.plus(index(loops, names, 0), index(loops, names, 1)))

    def _print_filled_axis(self, position: int, at: _Offsets) -> None:
        f, axis = self.f, self.order[position]
        step = self.target.strides[axis]
        begin = self.before[axis] * step
        extent = self.data.shape[axis]
        self._fill(at, begin)
        inside = at.plus(str(begin))
        if position == self.last:
            self._print_inner_axes(position + 1, inside, extra=axis)
        elif extent != 0:
            i = f.fresh(f"i{position}")
            with f.loop(i, extent):
                source = times(i, self.source.strides[axis])
                self._print_axis(position + 1, inside.plus(times(i, step), source))
        self._fill(at.plus(str(begin + extent * step)), self.after[axis] * step)

    def _fill(self, at: _Offsets, count: int) -> None:
        if count != 0:
            e, row = self.f.fresh("e"), self.f.fresh("row")
            self.f.line(f"{self.dtype.c} *{row} = {plus(self.y, *at.target)};")
            self.f.line(f"for (int {e} = 0; {e} < {count}; ++{e}) {row}[{e}] = {self.value};")

    def _print_mirrored_row(self, axis: int, at: _Offsets) -> None:
        """Print the innermost axis; its interior is one copy."""
        f, before, extent = self.f, self.before[axis], self.data.shape[axis]
        end = before + extent
        total = end + self.after[axis]
        row, line, e = f.fresh("row"), f.fresh("line"), f.fresh("e")
        f.line(f"{self.dtype.c} *{row} = {plus(self.y, *at.target)};")
        f.line(f"const {self.dtype.c} *{line} = {plus(self.x, *at.source)};")
        for first, last in ((0, before), (end, total)):
            if first < last:
                head = f"for (int {e} = {first}; {e} < {last}; ++{e})"
                f.line(f"{head} {row}[{e}] = {line}[{self.maps[axis]}[{e}]];")
        StridedBlock((extent,), (1,), (1,), self.dtype).copy(f, plus(row, str(before)), line)

    def _print_mapped_axis(self, position: int, at: _Offsets) -> None:
        f, axis = self.f, self.order[position]
        step, source = self._strides_at(position)
        total = self.data.shape[axis] + self.before[axis] + self.after[axis]
        i = f.fresh(f"i{position}")
        with f.loop(i, total):
            mapped = f"{self.maps[axis]}[{i}] * {source}"
            self._print_axis(position + 1, at.plus(times(i, step), mapped))
