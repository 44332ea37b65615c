"""Indexed reads: the three gather operators, and reversal of sequences."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod

import numpy as np

from tvmrt.compiler.ir import Node, Value
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.sizes import Extent, SymInt, lower_bound, symbols_of

from ...ir.program import ANY, DENSE
from ..c.formatting import GAP, call, plus, times
from ..c.inputs import value_layout, value_pointer
from ..c.writer import FunctionWriter, error_location
from ..loops.loop_nest import emit_nest, index, max_iterations, merge_loops
from ..lowering import Lowering, lowers
from ..window.packing_f32 import PackedMatrix
from .strided_block import StridedBlock


def print_checked_index(f: FunctionWriter, expression: str, extent: int, where: str | None) -> str:
    """Print the normalised index (negative ones count from the end) and return its variable.

    With ``where`` None, indices are known to be in bounds. Otherwise an index out of bounds ends
    the function with an error text that contains ``where``.
    """
    k = f.fresh("k")
    if where is None:
        f.line(f"const int64_t {k} = {expression};")
        return k
    f.include("op/index_bounds.h")
    f.line(f"const int64_t {k} ={GAP}{call('tvmrt_index', expression, extent, where)};")
    f.line(f"if ({k} < 0) return -1;")
    return k


def narrow_indices(indices: np.ndarray) -> np.ndarray:
    """Return constant indices as int32 if they fit."""
    fits = indices.size == 0 or abs(indices).max() <= np.iinfo(np.int32).max
    return indices.astype(np.int32 if fits else np.int64)


def are_in_bounds(indices: np.ndarray | None, extent: SymInt | np.ndarray) -> bool:
    """Return whether constant indices (None: not constant) are in bounds for every possible extent;
    for an array of extents, each tuple element is checked against its own."""
    if indices is None:
        return False
    extents = extent if isinstance(extent, np.ndarray) else lower_bound(extent)
    return bool(((-extents <= indices) & (indices < extents)).all())


def _is_from_unsigned(indices: Value, extent: SymInt) -> bool:
    """Return whether they are converted from an unsigned type without values out of bounds."""
    if indices.producer is None or indices.producer.op != "cast":
        return False
    source = indices.producer.inputs[0].dtype
    return not source.is_signed and 2**source.bits <= lower_bound(extent)


def index_operand(f: FunctionWriter, node: Node, extent: SymInt) -> tuple[str, str | None]:
    """Return the pointer to a node's indices, and the location for error texts or None.

    Constants in bounds are stored non-negative and need no check, nor do bytes as indices of a
    table of 256 entries. Importers reject constants out of bounds; indices that became constant
    later end the run with an error.
    """
    indices = node.inputs[1]
    inside = are_in_bounds(indices.data, extent)
    if inside and isinstance(extent, Extent) and (indices.data < 0).any():
        inside = False  # negative indices depend on the dynamic extent
    needs_check = not inside and not _is_from_unsigned(indices, extent)
    where = error_location(node, "indices") if needs_check else None
    if not indices.is_constant:
        return value_pointer(f, indices, "indices"), where
    return f.constant(
        "indices",
        narrow_indices(
            np.asarray(indices.data % lower_bound(extent) if inside else indices.data, np.int64)
        ),
    ), where


@lowers("gather")
class GatherLowering(Lowering):
    """Copy of one block per index. Data may have any axis order, or be ``tied`` to a matmul: then
    the data's rows are columns of its packed weights."""

    in_memory = ()
    tied: Callable[[], PackedMatrix | None] = staticmethod(lambda: None)

    def demand(self, value: Value) -> str:
        return DENSE if value is self.node.inputs[1] else ANY

    def emit(self, step: Step, f: FunctionWriter) -> None:
        data, indices = self.node.inputs
        axis = self.node.attrs["axis"]
        panels = self.tied()
        x = value_pointer(f, data, "data") if panels is None else f.constant("data", panels.data)
        extent = data.shape[axis]
        (ids, where), y = index_operand(f, self.node, extent), f.write()
        at, out = value_layout(step, data), step.writes[0].at
        inner = at.strides[axis + 1 :] if panels is None else (panels.packed,)
        lead, last = axis, axis + indices.type.rank
        ids_strides = dense_strides(indices.shape)
        shape = out.shape[:last]
        loops = merge_loops(
            shape,
            range(last),
            [
                (*at.strides[:lead], *[0] * indices.type.rank),
                (*[0] * lead, *ids_strides),
                out.strides[:last],
            ],
        )
        block = StridedBlock(out.shape[last:], out.strides[last:], inner, data.dtype)

        def body(names) -> None:
            k = print_checked_index(f, f"{ids}[{index(loops, names, 1)}]", extent, where)
            row = times(k, at.strides[axis]) if panels is None else panels.column(k)
            source = plus(x, index(loops, names, 0), row)
            block.copy(f, plus(y, index(loops, names, 2)), source)

        emit_nest(f, loops, body, out.size)


def dense_strides(shape) -> tuple[int, ...]:
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


@lowers("gather_elements")
class GatherElementsLowering(Lowering):
    """Copy of one element per index."""

    in_memory = ()
    operand_demand = ANY

    def emit(self, step: Step, f: FunctionWriter) -> None:
        data, indices = self.node.inputs
        axis = self.node.attrs["axis"]
        x = value_pointer(f, data, "data")
        extent = data.shape[axis]
        (ids, where), y = index_operand(f, self.node, extent), f.write()
        at, out = value_layout(step, data), step.writes[0].at
        moving = [0 if d == axis else s for d, s in enumerate(at.strides)]
        strides = [moving, value_layout(step, indices).strides, out.strides]
        loops = merge_loops(out.shape, range(len(out.shape)), strides)

        def body(names) -> None:
            k = print_checked_index(f, f"{ids}[{index(loops, names, 1)}]", extent, where)
            source = plus(index(loops, names, 0), times(k, at.strides[axis]))
            f.line(f"{y}[{index(loops, names, 2)}] = {x}[{source}];")

        emit_nest(f, loops, body, out.size)


class IndexTuples:
    """Index tuples of gather_nd and scatter_nd with their offsets in the data.

    Constant tuples become a table of offsets. Tuples of adjacent blocks are merged to one longer
    block of ``run`` tuples.
    """

    def __init__(self, node: Node, shape, strides, block: int) -> None:
        self.indices = node.inputs[1]
        self.where = error_location(node, "indices")
        self.shape = shape
        self.strides = strides
        self.offsets: np.ndarray | None = None
        self.run = 1
        if not self.indices.is_constant or symbols_of(shape, strides):
            return
        tuples, extents = self.indices.data.reshape(-1, self.depth), np.asarray(shape, np.int64)
        if are_in_bounds(tuples, extents):
            self._flatten(tuples % extents, block)

    @property
    def depth(self) -> int:
        return len(self.shape)

    def _flatten(self, tuples: np.ndarray, block: int) -> None:
        offsets = tuples @ np.asarray(self.strides, np.int64)
        breaks = np.flatnonzero(np.diff(offsets) != block) + 1
        self.run = gcd(*(int(b) for b in breaks), len(offsets)) if len(offsets) else 1
        self.offsets = offsets[:: self.run]

    def offset(self, f: FunctionWriter, pointer: str, position: str) -> str:
        """Print the indices of the tuple at ``position`` and return its element offset."""
        if self.offsets is not None:
            return f"{pointer}[{position}]"
        terms = []
        for t, (extent, stride) in enumerate(zip(self.shape, self.strides)):
            at = plus(position, str(t))
            k = print_checked_index(f, f"{pointer}[{at}]", extent, self.where)
            terms.append(times(k, stride))
        return " + ".join(terms)

    def pointer(self, f: FunctionWriter) -> str:
        if self.offsets is not None:
            return f.constant("offsets", narrow_indices(self.offsets))
        return value_pointer(f, self.indices, "indices")


@lowers("gather_nd")
class GatherNdLowering(Lowering):
    """Copy of one block per index tuple."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        data, indices = self.node.inputs
        first = self.node.attrs["batch"]
        batch, named = prod(data.shape[:first]), data.shape[first:]
        depth = indices.shape[-1]
        block = prod(named[depth:])
        x, y = value_pointer(f, data, "data"), f.write()
        strides = dense_strides(named)[:depth]
        tuples = IndexTuples(self.node, named[:depth], strides, block)
        count = prod(indices.shape[first:-1])
        if tuples.run > 1 and count % tuples.run:
            tuples.run = 1  # a merged block must not cross samples
            tuples.offsets = None
        ids = tuples.pointer(f)
        block *= tuples.run
        count //= tuples.run
        width = 1 if tuples.offsets is not None else depth
        shape = (batch, count)
        loops = merge_loops(
            shape,
            (0, 1),
            [(prod(named), 0), (count * width, width), (count * block, block)],
        )
        copied = StridedBlock((block,), (1,), (1,), data.dtype)

        def body(names) -> None:
            offset = tuples.offset(f, ids, index(loops, names, 1))
            source = plus(x, index(loops, names, 0), offset)
            copied.copy(f, plus(y, index(loops, names, 2)), source)

        emit_nest(f, loops, body, max_iterations(loops) * block)


@lowers("reverse_sequence")
class ReverseSequenceLowering(Lowering):
    """Copy of one block per sample and step."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x, lengths = self.node.inputs
        batch, time = self.node.attrs["batch_axis"], self.node.attrs["time_axis"]
        source, ids, y = value_pointer(f, x, "x"), value_pointer(f, lengths, "lengths"), f.write()
        strides, steps = dense_strides(x.shape), x.shape[time]
        block = StridedBlock((strides[1],), (1,), (1,), x.dtype)
        f.include("op/index_bounds.h")
        b, t = f.fresh("b"), f.fresh("t")
        with f.loop(b, x.shape[batch]):
            f.line(f"const int64_t length = {ids}[{b}];")
            where = error_location(self.node, "sequence_lens")
            with f.block(f"if (length < 0 || length > {steps})"):
                f.result(f"tvmrt_index_error(length, {steps + 1}, {where})")
            with f.block(f"for (int64_t {t} = 0; {t} < {steps}; ++{t})"):
                f.line(f"const int64_t from = {t} < length ? length - 1 - {t} : {t};")
                row = times(b, strides[batch])
                block.copy(
                    f,
                    plus(y, row, times(t, strides[time])),
                    plus(source, row, times("from", strides[time])),
                )
