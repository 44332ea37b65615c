"""Loop nests: pointwise work and reductions over strided operands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

import numpy as np

from tvmrt.compiler.ir import DType, Strided, Value, dense
from tvmrt.compiler.ir.low_bit_types import LOW_BIT_HEADER
from tvmrt.compiler.ir.program import Access, Step
from tvmrt.compiler.ir.sizes import SymInt, symbols_of, upper_bound
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from ...ir.program import ANY
from ..c.formatting import GAP, byte_size, call, plus, times
from ..c.writer import FunctionWriter
from ..lowering import ResultLayout, lowers, same_offsets
from ..lowering_protocols import RowFusable
from .pointwise import has_moderate_angle_form, print_pointwise_chain, scalar_literal
from .row_fusion_layers import elementwise_row_layer, single_row_step

MIN_TRANSPOSE_EXTENT = 8  # minimum extent of both axes for a blocked transpose
MAX_SHORT_SEGMENT = 64  # maximum bytes of a contiguous segment that a few instructions copy
MAX_THREADS = 256  # maximum threads of the runtime
PARALLEL_ELEMENTS = 1 << 14  # below this, waking a thread costs more than it saves
ACCUMULATORS = 256  # partial sums kept on the stack at once


@dataclass(frozen=True)
class Loop:
    """One loop: its extent, and each operand's stride in elements."""

    extent: SymInt
    strides: tuple[SymInt, ...]


def merge_loops(
    shape: Sequence[int], order: Sequence[int], operands: Sequence[Sequence[int]]
) -> list[Loop]:
    """Return loops over the axes in ``order``, merged where all operands are contiguous.

    ``operands`` holds each operand's strides by axis. Axes of extent 1 are dropped.
    """
    loops: list[Loop] = []
    for d in order:
        if shape[d] == 1:
            continue
        strides = tuple(s[d] for s in operands)
        if loops and all(o == i * shape[d] for o, i in zip(loops[-1].strides, strides)):
            loops[-1] = Loop(loops[-1].extent * shape[d], strides)
        else:
            loops.append(Loop(shape[d], strides))
    return loops


def index(loops: Sequence[Loop], names: Sequence[str], operand: int) -> str:
    """Return the C index of one operand inside the loops."""
    terms = []
    for loop, name in zip(loops, names):
        stride = loop.strides[operand]
        if stride != 0:
            terms.append(name if stride == 1 else f"{name} * {stride}")
    return f"{GAP}+ ".join(terms) or "0"


def open_loops(f: FunctionWriter, loops: Sequence[Loop], names: Sequence[str]) -> ExitStack:
    """Open the loops; closing the stack ends them."""
    stack = ExitStack()
    for loop, name in zip(loops, names):
        stack.enter_context(f.loop(name, loop.extent))
    return stack


class Operands:
    """Operands of a loop nest with their C names and strides."""

    def __init__(self, f: FunctionWriter, step: Step, shape: Sequence[int], order) -> None:
        self.f = f
        self.shape = tuple(shape)
        self.order = tuple(order)
        self.values: list[Value] = []
        self.names: list[str] = []
        self.strides: list[tuple[int, ...]] = []
        self.literals: dict[Value, str] = {}
        self._by_value = {v: i for i, v in enumerate(step.read_values)}
        self._step = step

    def add(self, value: Value) -> None:
        """Add an operand that the nodes read."""
        text = scalar_literal(value)
        if text is not None:
            self.literals[value] = text
            return
        if value.is_constant:
            name, at = self._constant(value)
        else:
            i = self._by_value[value]
            name, at = self.f.read(i), self._step.reads[i].at
        self.add_pointer(value, name, at)

    def add_pointer(self, value: Value, name: str, at: Strided) -> None:
        self.values.append(value)
        self.names.append(name)
        self.strides.append(at.expand(self.shape).strides)

    def _constant(self, value: Value) -> tuple[str, Strided]:
        """Store a constant in the order in which the loops visit it; return name and layout."""
        lead = len(self.shape) - value.type.rank
        order = [d - lead for d in self.order if d >= lead]
        name = self.f.constant("c", np.transpose(value.data, order))
        return name, dense(value.shape, order)


@lowers("pointwise")
class PointwiseLowering(RowFusable):
    """Chain or tree of pointwise nodes: one loop nest with one load per operand."""

    in_memory = ()
    operand_demand = ANY

    def result_layout(self, index: int, accesses: dict[Value, Access]) -> ResultLayout:
        return ResultLayout(pointwise_order(self.group.outputs[0], accesses), ANY)

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        out = step.writes[0]
        if self._has_angle_functions:
            return []  # the second loop, for huge angles, reads the operands again
        return [
            (i, 0)
            for i, a in enumerate(step.reads)
            if same_offsets(a.at, out.at)
            and a.dtype.itemsize == out.dtype.itemsize
            # elements that share a byte are read after it was written
            and not (a.dtype.is_packed or out.dtype.is_packed)
        ]

    def row_layer(self, step: Step) -> RowLayer | None:
        constants = [v for v in self.group.inputs() if v.is_constant]
        across = any(v.type.rank > 1 and v.shape[-2] != 1 for v in constants)
        if across or self._is_bit_packed or self._has_angle_functions or not step.reads:
            return None
        return elementwise_row_layer(step)

    def row_step(self, step: Step) -> Step:
        return single_row_step(step)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        out = step.writes[0].at
        operands = Operands(f, step, out.shape, out.order())
        for value in self.group.inputs():
            operands.add(value)
        strides = [*operands.strides, out.strides]
        loops = merge_loops(out.shape, out.order(), strides)
        rows = self._transposed_rows(operands, loops)
        if rows is not None:
            emit_transpose(f, operands.names[0], loops, rows)
            return
        if self._copies_short_segments(step, operands, loops):
            emit_segment_copies(f, operands.names[0], loops)
            return
        if self._is_bit_packed:
            f.threads = False  # two threads could write to one byte
        else:
            loops = _long_loop_innermost(loops)
        large_angle = f.fresh("far") if self._has_angle_functions else None
        emit_nest(
            f,
            loops,
            lambda names: self._body(f, operands, loops, names, large_angle),
            max_iterations(loops),
            None
            if large_angle is None
            else (large_angle, lambda n: self._body(f, operands, loops, n)),
            self._independence(step, loops),
        )

    @property
    def _is_bit_packed(self) -> bool:
        """Whether the result is bit-packed, so that elements must be written in order."""
        return self.group.outputs[0].dtype.is_packed

    @property
    def _has_angle_functions(self) -> bool:
        """Whether the nodes are printed twice: for moderate angles, and for all angles."""
        return self.target.lanes > 1 and any(map(has_moderate_angle_form, self.group.nodes))

    def _independence(self, step: Step, loops: Sequence[Loop]) -> str:
        """Return the macro before the innermost loop, or "".

        TVMRT_INDEPENDENT if the compiler would compare pointers before each innermost loop: its
        length is unknown, it starts often, and an operand may alias the result.
        """
        if self.target.lanes == 1 or self._has_angle_functions or self._is_bit_packed or not loops:
            return ""
        if len(loops) > 1 and symbols_of(loops[-1].extent):
            return "TVMRT_INDEPENDENT"
        return "TVMRT_IN_PLACE" if self.in_place(step) else ""

    @property
    def _copies(self) -> bool:
        """Whether elements are copied unchanged."""
        return all(n.operator.is_copy for n in self.group.nodes) and not self._is_bit_packed

    def _copies_short_segments(self, step: Step, operands: Operands, loops: Sequence[Loop]) -> bool:
        """Return whether the nest copies a dynamic number of short rows with memcpy: compilers
        would merge the rows to longer vectors, with more instructions than the copies take."""
        plain = self._copies and len(operands.values) == len(step.reads) == 1
        if not plain or self.target.lanes == 1 or len(loops) < 2:
            return False
        extent, dtype = loops[-1].extent, step.reads[0].dtype
        return (
            bool(symbols_of(*(loop.extent for loop in loops[:-1])))
            and not symbols_of(extent)
            and loops[-1].strides == (1, 1)
            and extent * dtype.itemsize <= MAX_SHORT_SEGMENT
            and not same_offsets(step.reads[0].at, step.writes[0].at)
        )

    def _transposed_rows(self, operands: Operands, loops: Sequence[Loop]) -> int | None:
        """Return the loop of contiguous reads in a copy whose last loop writes contiguously."""
        plain = self._copies and len(operands.values) == 1
        if not plain or len(loops) < 2 or loops[-1].strides[1] != 1:
            return None
        if loops[-1].strides[0] in (0, 1) or upper_bound(loops[-1].extent) < MIN_TRANSPOSE_EXTENT:
            return None
        for i, loop in enumerate(loops[:-1]):
            if loop.strides[0] == 1 and upper_bound(loop.extent) >= MIN_TRANSPOSE_EXTENT:
                return i
        return None

    def _body(self, f: FunctionWriter, operands: Operands, loops, names, large_angle=None) -> None:
        literals = dict(operands.literals)
        load(f, operands, loops, names, literals)
        print_pointwise_chain(f, self.group.nodes, literals, large_angle)
        target = index(loops, names, len(operands.values))
        store(f, self.group.outputs[0].dtype, target, literals[self.group.outputs[0]])


def emit_segment_copies(f: FunctionWriter, source: str, loops: Sequence[Loop]) -> None:
    """Print a copy with one memcpy per iteration of the outer loops, replacing the last loop."""
    *outer, segment = loops

    def print_copy(names: Sequence[str]) -> None:
        x, y = plus(source, index(outer, names, 0)), plus(f.write(), index(outer, names, 1))
        f.line(f"{call('memcpy', y, x, byte_size(segment.extent, f.writes[0].buffer.dtype.c))};")

    emit_nest(f, outer, print_copy, max_iterations(loops))


def emit_transpose(f: FunctionWriter, source: str, loops: Sequence[Loop], rows: int) -> None:
    """Print a blocked transpose over the loop ``rows`` and the last loop, inside the others."""
    row, column = loops[rows], loops[-1]
    outer = [loop for i, loop in enumerate(loops[:-1]) if i != rows]
    f.include("tile/transpose.h")
    kind = f.writes[0].buffer.dtype.c

    def print_call(names: Sequence[str]) -> None:
        x, y = plus(source, index(outer, names, 0)), plus(f.write(), index(outer, names, 1))
        passed = [x, column.strides[0], y, row.strides[1], row.extent, column.extent]
        f.line(f"{call(f'tvmrt_transpose_{kind}', *passed)};")

    if f.threads and not outer and max_iterations([row, column]) >= PARALLEL_ELEMENTS:
        _share_transpose(f, source, row, column)
        return
    emit_nest(f, outer, print_call, max_iterations(loops))


def _share_transpose(f: FunctionWriter, source: str, row: Loop, column: Loop) -> None:
    """Print a blocked transpose that tasks split along the longer side. These are the pixels, by
    which all steps of a network are split, so a task reads elements that it has written itself."""
    by_rows = upper_bound(row.extent) > upper_bound(column.extent)
    shared = row if by_rows else column
    f.parallel_extent = shared.extent
    x, y = (plus(at, times("begin", s)) for at, s in zip((source, f.write()), shared.strides))
    counts = ("end - begin", column.extent) if by_rows else (row.extent, "end - begin")
    passed = [x, column.strides[0], y, row.strides[1], *counts]
    f.line(f"{call(f'tvmrt_transpose_{f.writes[0].buffer.dtype.c}', *passed)};")


def thread_count(size: int) -> int:
    """Return how many threads this many elements are worth; each gets half of the work that
    justifies waking a second thread. 0 means all threads."""
    threads = size // (PARALLEL_ELEMENTS // 2)
    return threads if threads < MAX_THREADS else 0


def task_range(f: FunctionWriter, extent: SymInt, work: SymInt) -> tuple[str, str]:
    """Return the range of a call: all of ``extent``, or a task's part of it if ``work`` is worth
    threads."""
    if f.threads and upper_bound(extent) > 1 and upper_bound(work) >= PARALLEL_ELEMENTS:
        f.parallel_extent = extent
        return "begin", "end"
    return "0", str(extent)


def _long_loop_innermost(loops: list[Loop]) -> list[Loop]:
    """Move a long loop in which every operand has stride 0 or 1 innermost if the innermost loop is
    short: vectors need length."""
    if len(loops) < 2 or upper_bound(loops[-1].extent) >= 8:
        return loops
    for i in range(len(loops) - 2, -1, -1):
        if upper_bound(loops[i].extent) >= 8 and all(s in (0, 1) for s in loops[i].strides):
            return [*loops[:i], *loops[i + 1 :], loops[i]]
    return loops


def max_iterations(loops: Sequence[Loop]) -> int:
    """Return the maximum number of executions of the innermost body."""
    return prod(upper_bound(loop.extent) for loop in loops)


def pointwise_order(value: Value, accesses: dict[Value, Access]):
    """Return the axis order of the largest operand of full shape, to read it in sequence."""
    best, best_bytes = None, -1
    for v, access in accesses.items():
        if v.shape == value.shape and v.type.nbytes > best_bytes:
            best, best_bytes = access.at.order(), v.type.nbytes
    return best


def element(f: FunctionWriter, dtype: DType, pointer: str, index: str) -> str:
    """Return the expression of an element; for a bit-packed type, its code."""
    if not dtype.is_packed:
        return f"{pointer}[{index}]"
    f.include(LOW_BIT_HEADER)
    return call(f"tvmrt_get_{dtype.bits}bits", pointer, index)


def store(f: FunctionWriter, dtype: DType, index: str, value: str) -> None:
    """Print the assignment of ``value`` to an element of the result."""
    if not dtype.is_packed:
        f.line(f"{f.write()}[{index}] ={GAP}{value};")
        return
    f.include(LOW_BIT_HEADER)
    f.line(f"{call(f'tvmrt_put_{dtype.bits}bits', f.write(), index, value)};")


def load(
    f: FunctionWriter, operands: Operands, loops, names, expressions: dict[Value, str]
) -> None:
    """Print the loads of all operands into variables."""
    for i, value in enumerate(operands.values):
        variable = f.fresh(f"a{i}" if len(operands.values) > 1 else "a")
        position = index(loops, names, i)
        read = element(f, value.dtype, operands.names[i], position)
        f.line(f"const {value.dtype.c} {variable} ={GAP}{read};")
        expressions[value] = variable


def emit_nest(
    f: FunctionWriter, loops: Sequence[Loop], body, size: int, fallback=None, independence=""
) -> None:
    """Print loops around ``body(loop variable names)``; large nests are split over threads.

    ``fallback`` is a C variable and another body: the loops are repeated with that body if the
    variable's highest bit was set in the first pass. ``independence`` is a macro before the
    innermost loop, whose iterations do not depend on each other.
    """
    split = f.threads and upper_bound(size) >= PARALLEL_ELEMENTS and bool(loops)
    if split:
        f.parallel_extent = loops[0].extent
        f.max_threads = thread_count(upper_bound(size))
    if fallback is not None:
        f.line(f"uint32_t {fallback[0]} = 0;")
    _nest(f, loops, body, split, independence)
    if fallback is not None:
        with f.block(f"if (TVMRT_UNLIKELY({fallback[0]} >> 31))"):
            _nest(f, loops, fallback[1], split)


def _nest(
    f: FunctionWriter, loops: Sequence[Loop], body, split: bool, independence: str = ""
) -> None:
    names = [f.fresh(f"i{k}") for k in range(len(loops))]
    with ExitStack() as stack:
        for k, (loop, name) in enumerate(zip(loops, names)):
            first, last = ("begin", "end") if split and k == 0 else ("0", str(loop.extent))
            if independence and k == len(loops) - 1:
                f.include("scalar/compiler.h")
                f.line(independence)
            stack.enter_context(f.loop(name, last, first))
        body(names)
