"""Resampling with index tables: one lookup for all channels of a pixel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import ANY, Access, Step
from tvmrt.compiler.ir.sizes import SymInt, symbols_of

from ..c.formatting import GAP, plus
from ..c.writer import FunctionWriter
from ..loops.loop_nest import Loop, emit_nest, index, max_iterations, merge_loops, open_loops
from ..lowering import Lowering, ResultLayout, lowers

UNROLLED_TAPS = 8  # longer sums are accumulated in memory


class IndexTableLowering(Lowering):
    """Base class: operands in any layout; the result has the axis order of the input."""

    operand_demand = ANY

    def result_layout(self, index: int, accesses: dict[Value, Access]) -> ResultLayout:
        return ResultLayout(accesses[self.node.inputs[0]].at.order(), ANY)


@lowers("pick")
class PickLowering(IndexTableLowering):
    """Copy of whole pixels. Evenly spaced indices, each repeated equally often, are loops without
    a table; other tables hold offsets in the input."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x, y = step.reads[0].at, step.writes[0].at
        places = dict(zip(self.node.attrs["axes"], (t.data for t in self.node.inputs[1:])))
        even = {axis: steps for axis, data in places.items() if (steps := _even_steps(data))}
        tables = [
            _table(f, f"places{axis}", data, x.strides[axis])
            for axis, data in places.items()
            if axis not in even
        ]
        extents: list[SymInt] = []
        strides: list[tuple[SymInt, ...]] = []  # of x, y and the tables
        for d in y.order():
            repeats, distance, _ = even.get(d, (1, int(d not in places), 0))
            at_table = [int(d == axis) for axis in places if axis not in even]
            extents += [y.shape[d] // repeats, repeats]
            strides.append((x.strides[d] * distance, y.strides[d] * repeats, *at_table))
            strides.append((0, y.strides[d], *at_table))
        loops = merge_loops(extents, range(len(extents)), list(zip(*strides)))
        first = sum(start * x.strides[axis] for axis, (_, _, start) in even.items())

        def body(names: Sequence[str]) -> None:
            terms = [index(loops, names, 0), str(first)]
            for k, (table, times) in enumerate(tables):
                terms.append(f"{table}[{index(loops, names, 2 + k)}]{times}")
            offset = " + ".join(t for t in terms if t != "0") or "0"
            f.line(f"{f.write()}[{index(loops, names, 1)}] = {f.read(0)}[{offset}];")

        emit_nest(f, loops, body, max_iterations(loops))


def _even_steps(places: np.ndarray) -> tuple[int, int, int] | None:
    """Return how often each of evenly spaced indices is repeated, their distance, and the first;
    None for other indices."""
    if not places.size:
        return None
    repeats = int((places != places[0]).argmax()) or places.size
    distance = int(places[min(repeats, places.size - 1)] - places[0])
    even = places[0] + np.arange(places.size) // repeats * distance
    is_even = places.size % repeats == 0 and np.array_equal(even, places)
    return (repeats, distance, int(places[0])) if is_even else None


def _table(f: FunctionWriter, name: str, indices: np.ndarray, stride: SymInt) -> tuple[str, str]:
    """Return a table of offsets, and the text that multiplies its entries by a dynamic stride, or
    ""."""
    if symbols_of(stride):
        return f.constant(name, _offsets(indices, 1)), f" * {stride}"
    return f.constant(name, _offsets(indices, int(stride))), ""


def _offsets(indices: np.ndarray, stride: int) -> np.ndarray:
    """Return the indices times stride, as int32 if they fit."""
    offsets = indices.astype(np.int64) * stride
    small = offsets.size == 0 or np.abs(offsets).max() < 1 << 31
    return offsets.astype(np.int32) if small else offsets


@lowers("resample")
class ResampleLowering(IndexTableLowering):
    """Weighted sums of a few pixels, vectorised over the axes inside of the resampled one."""

    def macs(self) -> int:
        return self.node.output.type.size * self.node.inputs[1].shape[1]

    def emit(self, step: Step, f: FunctionWriter) -> None:
        axis = self.node.attrs["axis"]
        indices, weights = self.node.inputs[1].data, self.node.inputs[2].data
        x, y = step.reads[0].at, step.writes[0].at
        along = tuple(int(d == axis) for d in range(len(y.shape)))
        steps = tuple(0 if a else stride for a, stride in zip(along, x.strides))
        loops = merge_loops(y.shape, y.order(), [steps, y.strides, along])
        at = next((k for k, loop in enumerate(loops) if loop.strides[2]), -1)
        table, times = _table(f, "places", indices, x.strides[axis])
        weight = f.constant("weights", weights)
        taps, kind = indices.shape[1], self.node.output.dtype.c
        outer, inner = loops[: at + 1], loops[at + 1 :]

        def body(names: Sequence[str]) -> None:
            row = index([loops[at]], [names[at]], 2) if at >= 0 else "0"
            base = index(outer, names, 0)
            terms = []
            for t in range(taps):
                entry = row if taps == 1 else f"{row} * {taps}" + (f" + {t}" if t else "")
                weight_variable, source = f.fresh(f"w{t}"), f.fresh(f"x{t}")
                f.line(f"const {kind} {weight_variable} = {weight}[{entry}];")
                pixel = plus(f.read(0), base, f"{table}[{entry}]{times}")
                f.line(f"const {kind} *{source} = {pixel};")
                terms.append((weight_variable, source))
            result = f.fresh("out")
            f.line(f"{kind} *{result} = {plus(f.write(), index(outer, names, 1))};")
            self._print_weighted_sums(f, inner, result, terms)

        emit_nest(f, outer, body, max_iterations(loops))

    def _print_weighted_sums(
        self, f: FunctionWriter, inner: list[Loop], result: str, terms: list
    ) -> None:
        """Print the sum for a pixel in passes of at most UNROLLED_TAPS terms."""
        for first in range(0, len(terms), UNROLLED_TAPS):
            names = [f.fresh(f"c{k}") for k in range(len(inner))]
            source, target = index(inner, names, 0), index(inner, names, 1)
            part = terms[first : first + UNROLLED_TAPS]
            total = f"{GAP}+ ".join(
                f"{weight_variable} * {pointer}[{source}]" for weight_variable, pointer in part
            )
            with open_loops(f, inner, names):
                f.line(f"{result}[{target}] {'=' if first == 0 else '+='}{GAP}{total};")
