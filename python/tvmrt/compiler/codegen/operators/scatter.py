"""Indexed writes: a copy of the data, then the updates."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import Step

from ...ir.program import ANY, DENSE
from ..c.formatting import byte_size, plus, times
from ..c.inputs import value_layout, value_pointer
from ..c.writer import FunctionWriter, error_location
from ..loops.loop_nest import index, merge_loops, open_loops
from ..lowering import Lowering, in_place_pair, lowers
from .gather import IndexTuples, dense_strides, index_operand, print_checked_index
from .strided_block import StridedBlock


class ScatterLowering(Lowering):
    """Base class: the result is row-major and may reuse the data's memory."""

    in_memory = ()

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        data = self.node.inputs[0]
        if data.is_constant or data in self.node.inputs[1:]:
            return []
        return in_place_pair(step, data)

    def copy_data(self, f: FunctionWriter, x: str, y: str, count: int, ctype: str) -> None:
        copy = f"memcpy({y}, {x}, {byte_size(count, ctype)});"
        # callers may let an output use the memory of an input
        f.line(copy if self.node.inputs[0].is_constant else f"if ({y} != {x}) {copy}")


@lowers("scatter_elements")
class ScatterElementsLowering(ScatterLowering):
    """Update of one element per index."""

    def demand(self, value: Value) -> str:
        return DENSE if value is self.node.inputs[0] else ANY

    def emit(self, step: Step, f: FunctionWriter) -> None:
        data, indices, updates = self.node.inputs
        axis = self.node.attrs["axis"]
        x, y = value_pointer(f, data, "data"), f.write()
        extent = data.shape[axis]
        ids, where = index_operand(f, self.node, extent)
        new = value_pointer(f, updates, "updates")
        out = step.writes[0].at
        moving = [0 if d == axis else s for d, s in enumerate(out.strides)]
        read = [value_layout(step, value).strides for value in (indices, updates)]
        loops = merge_loops(indices.shape, range(indices.type.rank), [moving, *read])
        element = StridedBlock((), (), (), data.dtype)
        self.copy_data(f, x, y, data.type.size, data.dtype.c)
        names = [f.fresh(f"i{k}") for k in range(len(loops))]
        with open_loops(f, loops, names):
            k = print_checked_index(f, f"{ids}[{index(loops, names, 1)}]", extent, where)
            target = plus(y, index(loops, names, 0), times(k, out.strides[axis]))
            source = plus(new, index(loops, names, 2))
            element.join(f, target, source, self.node.attrs["reduction"])


@lowers("scatter_nd")
class ScatterNdLowering(ScatterLowering):
    """Update of one block per index tuple."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        data, indices, updates = self.node.inputs
        depth = indices.shape[-1]
        block = prod(data.shape[depth:])
        x, y = value_pointer(f, data, "data"), f.write()
        strides = dense_strides(data.shape)[:depth]
        tuples = IndexTuples(self.node, data.shape[:depth], strides, block)
        ids, new = tuples.pointer(f), value_pointer(f, updates, "updates")
        count = prod(indices.shape[:-1]) // tuples.run
        block *= tuples.run
        width = 1 if tuples.offsets is not None else depth
        loops = merge_loops((count,), (0,), [(width,), (block,)])
        written = StridedBlock((block,), (1,), (1,), data.dtype)
        self.copy_data(f, x, y, data.type.size, data.dtype.c)
        names = [f.fresh("i")] if loops else []
        with open_loops(f, loops, names):
            offset = tuples.offset(f, ids, index(loops, names, 0))
            source = plus(new, index(loops, names, 1))
            written.join(f, plus(y, offset), source, self.node.attrs["reduction"])


@lowers("tensor_scatter")
class TensorScatterLowering(ScatterLowering):
    """Update of one block per step and row; each sample has its own start index."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        cache, update, start = self.node.inputs
        axis = self.node.attrs["axis"]
        x, y = value_pointer(f, cache, "cache"), f.write()
        new, begin = value_pointer(f, update, "update"), value_pointer(f, start, "start")
        extent, steps, block = cache.shape[axis], update.shape[axis], prod(cache.shape[axis + 1 :])
        rows = prod(cache.shape[1:axis])
        self.copy_data(f, x, y, cache.type.size, cache.dtype.c)
        b, r, s, first = f.fresh("b"), f.fresh("r"), f.fresh("s"), f.fresh("first")
        written = StridedBlock((block,), (1,), (1,), cache.dtype)
        circular = self.node.attrs["circular"]
        with f.loop(b, cache.shape[0]):
            if circular:
                f.include("scalar/int.h")
                f.line(f"const int64_t {first} = tvmrt_floor_mod_int64({begin}[{b}], {extent});")
            else:
                where, places_left = error_location(self.node, "write_indices"), extent - steps + 1
                f.include("op/index_bounds.h")
                f.line(f"const int64_t {first} = {begin}[{b}];")
                with f.block(f"if ({first} < 0 || {first} >= {places_left})"):
                    f.result(f"tvmrt_index_error({first}, {places_left}, {where})")
            row = f"({b} * {rows} + {r})"
            k = f"(({first} + {s}) % {extent})" if circular else f"({first} + {s})"
            to = plus(y, f"({row} * {extent} + {k}) * {block}")
            with f.loop(r, rows), f.loop(s, steps):
                written.copy(f, to, plus(new, f"({row} * {steps} + {s}) * {block}"))


@lowers("sum_into")
class SumIntoLowering(Lowering):
    """Accumulation of each row's elements at constant indices."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x, table = self.node.inputs
        rows, count = x.shape
        size = self.node.attrs["size"]
        used = np.flatnonzero(table.data >= 0)
        source, y = value_pointer(f, x, "x"), f.write()
        to = f.constant("to", table.data[used].astype(np.int32))
        of = f.constant("of", used.astype(np.int32))
        r, i = f.fresh("r"), f.fresh("i")
        f.line(f"memset({y}, 0, {byte_size(rows * size, x.dtype.c)});")
        element = StridedBlock((), (), (), x.dtype)
        with f.loop(r, rows), f.loop(i, len(used)):
            target = plus(y, times(r, size), f"{to}[{i}]")
            element.join(f, target, plus(source, times(r, count), f"{of}[{i}]"), "add")
