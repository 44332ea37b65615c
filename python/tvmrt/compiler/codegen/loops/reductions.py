"""Reductions as loop nests, with pointwise producers and epilogue fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod

from tvmrt.compiler.ir import DType, Strided, Value, get_op
from tvmrt.compiler.ir.extent import symbols_of, upper_bound
from tvmrt.compiler.ir.program import Access, Step, pixel_stride
from tvmrt.compiler.ir.reduction import ReduceOp
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from ..c.text import GAP
from ..c.writer import FunctionWriter
from ..kernel_features import BOARD_KERNELS
from ..lowering import ANY, Lowering, lowers
from .chain import print_chain
from .nest import (
    PARALLEL_ELEMENTS,
    Loop,
    Operands,
    emit_nest,
    index,
    load,
    loops_around,
    merge_loops,
    sum_size,
)
from .row_steps import layer_of_sums, step_of_a_row, with_sums

ACCUMULATORS = 256  # partial results kept on the stack at once
ACCUMULATORS_FIRMWARE = 32  # on bare metal, where the stack is small
LANES = 32  # partial results of one long row
PARTS = 8  # parts of a parallel fold; fixed, so that the result does not depend on threads
MOST_SUMS = 1 << 16  # maximum bytes of their partial sums
SHARED_CHANNELS = 64  # channels per part of a short parallel fold
SHARED_ELEMENTS = 1 << 14  # minimum elements to wake a thread that has some of them in its cache
LEAST_CHANNELS = 4  # minimum contiguous channels for a row of accumulators

REDUCTIONS = (
    "reduce_sum",
    "reduce_mean",
    "reduce_prod",
    "reduce_max",
    "reduce_min",
    "reduce_sum_square",
)


@lowers(*REDUCTIONS)
class ReduceLowering(Lowering):
    """Fold over axes: loops over the kept axes around loops over the reduced axes."""

    takes_epilogue = True

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        return True

    def demand(self, value: Value) -> str:
        return ANY

    def result_demand(self, index: int) -> str:
        return ANY

    @property
    def axes(self) -> set[int]:
        return set(self.node.attrs["axes"])

    def walk_order(self, accesses: dict[Value, Access]) -> tuple[int, ...]:
        """Return the axis order of the largest operand that the fold reads."""
        shape = self.node.inputs[0].shape
        found = [(v.type.nbytes, a.at.order()) for v, a in accesses.items() if v.shape == shape]
        return max(found)[1] if found else tuple(range(len(shape)))

    def result_order(self, index: int, accesses: dict[Value, Access]) -> tuple[int, ...]:
        order = self.walk_order(accesses)
        if self.node.attrs["keepdims"]:
            return order
        left = [d for d in range(len(order)) if d not in self.axes]
        return tuple(left.index(d) for d in order if d not in self.axes)

    def spread(self, at: Strided) -> tuple[int, ...]:
        """Return strides by input axis of an access with the result's shape."""
        strides, k = [], 0
        keep = self.node.attrs["keepdims"]
        for d in range(self.node.inputs[0].type.rank):
            folded = d in self.axes
            strides.append(0 if folded else at.strides[k])
            k += 0 if folded and not keep else 1
        return tuple(strides)

    def scratch_bytes(self) -> int:
        """Return the bytes of partial sums if tasks may share a fold, which must be long enough for
        many elements per part."""
        x = self.node.inputs[0]
        rule = get_op(self.node.op)
        floats = x.dtype.name in ("float32", "float64") and rule.combine == "+"
        if not self.target.threads or not floats or symbols_of(*x.shape):
            return 0
        folded = prod(x.shape[d] for d in self.axes)
        kept = prod(x.shape) // max(folded, 1)
        if folded < PARTS * PARTS or kept < LEAST_CHANNELS or folded * kept < PARALLEL_ELEMENTS:
            return 0
        nbytes = PARTS * kept * x.dtype.itemsize
        return nbytes if nbytes <= MOST_SUMS else 0

    def emit(self, step: Step, f: FunctionWriter) -> None:
        _Printer(self, step, f, self.node.inputs[0].shape).emit()

    def row_layer(self, step: Step) -> RowLayer | None:
        if not BOARD_KERNELS.of(self.target) or len(step.reads) != 1:
            return None
        x = step.reads[0]
        whole = len(x.shape) == 4 and self.axes == {2, 3} and x.shape[1] >= LEAST_CHANNELS
        if not whole or symbols_of(x.shape) or x.shape[2] < 2 or pixel_stride(x.at) is None:
            return None
        sums = accumulator_bytes(get_op(self.node.op), self.node.inputs[0].dtype)
        sides = [([*self.group.before], x.shape), ([*self.group.after], step.writes[0].shape)]
        read = [(v, shape) for nodes, shape in sides for n in nodes for v in n.inputs if v]
        if sums is None or not all(_of_channels(v, shape) for v, shape in read if v.is_constant):
            return None
        bytes_ = x.at.strides[2] * x.dtype.itemsize, x.shape[1] * step.writes[0].dtype.itemsize
        return layer_of_sums(x.shape[2], *bytes_, sums * x.shape[1])

    def row_step(self, step: Step) -> Step:
        return with_sums(step_of_a_row(step), self.row_layer(step).line_buffer_bytes)

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        _RowPrinter(self, step, f, step.reads[0].shape).emit()


def accumulator_bytes(rule: ReduceOp, dtype: DType) -> int | None:
    """Return the bytes of an accumulator; None if its type is not a C integer or float."""
    wide = rule.accumulator(dtype)
    known = {"uint32_t": 4, "int64_t": 8, "uint64_t": 8, dtype.c: dtype.itemsize}
    return known.get(wide)


def _of_channels(value: Value, shape: Sequence[int]) -> bool:
    """Return whether a constant operand varies only along the channels."""
    full = (1,) * (len(shape) - value.type.rank) + tuple(value.shape)
    return all(n == 1 for d, n in enumerate(full) if d != 1)


class _Printer:
    """Printer of one reduction and its shared state. ``shape``: of the operand that is reduced."""

    def __init__(
        self, lowering: ReduceLowering, step: Step, f: FunctionWriter, shape: Sequence[int]
    ) -> None:
        self.f = f
        self.step = step
        self.group = lowering.group
        self.node = lowering.node
        self.hosted = lowering.target.hosted
        self.accumulators = ACCUMULATORS if self.hosted else ACCUMULATORS_FIRMWARE
        self.rule: ReduceOp = get_op(self.node.op)
        self.dtype = self.node.inputs[0].dtype
        self.wide = self.rule.accumulator(self.dtype)
        self.header = self.rule.header_for(self.dtype)
        f.include(self.header)
        self.shape = tuple(shape)
        order = lowering.walk_order(dict(zip(step.read_values, step.reads)))
        self.count = prod(self.node.inputs[0].shape[d] for d in lowering.axes)

        self.walked = Operands(f, step, self.shape, order)
        for value in self._read_by([*self.group.before, self.node]):
            self.walked.add(value)
        out = step.writes[0].at
        self.late = Operands(f, step, out.shape, out.order())
        for value in self._read_by(self.group.after):
            self.late.add(value)
        self.out_operand = len(self.walked.values)
        strides = [
            *self.walked.strides,
            lowering.spread(out),
            *(lowering.spread(Strided(out.shape, s)) for s in self.late.strides),
        ]
        self.kept = merge_loops(self.shape, [d for d in order if d not in lowering.axes], strides)
        self.folds = merge_loops(self.shape, [d for d in order if d in lowering.axes], strides)

    def _read_by(self, nodes) -> list[Value]:
        made = {v for n in self.group.nodes for v in n.outputs}
        return [v for v in dict.fromkeys(v for n in nodes for v in n.inputs) if v not in made]

    def emit(self) -> None:
        wide = self._kept_axis_is_densest()
        loops = self.kept[:-1] if wide else self.kept
        size = sum_size(self.kept) * sum_size(self.folds)
        if wide and not loops and self.f.scratch_parameter and self.folds[0].extent > 1:
            self._shared_body()
            return
        if self.f.scratch_parameter:
            self.f.line(f"(void){self.f.scratch()};")
        if wide and not loops and self._shares_channels(size):
            self._shared_channels()
            return
        emit_nest(self.f, loops, self._wide_body if wide else self._narrow_body, size)

    def _kept_axis_is_densest(self) -> bool:
        """Return whether consecutive elements in memory belong to different results."""
        if not self.kept or not self.folds or upper_bound(self.kept[-1].extent) < LEAST_CHANNELS:
            return False
        walked = range(self.out_operand)
        step = min((abs(self.kept[-1].strides[i]) for i in walked), default=0)
        fold_step = min((abs(loop.strides[i]) for loop in self.folds for i in walked), default=0)
        return step == 1 and fold_step != 1

    def _fold(self, names: Sequence[str], accumulator: str, missing: str | None = None) -> None:
        """Accumulate one element; with ``missing``, NaN is recorded there instead."""
        known = dict(self.walked.literals)
        load(self.f, self.walked, [*self.kept, *self.folds], names, known)
        print_chain(self.f, self.group.before, known)
        x = known[self.node.inputs[0]]
        if missing is None:
            update = self.rule.step_for(self.dtype, accumulator, x, self.count)
        else:
            update = self.rule.step.format(acc=accumulator, x=x)
            self.f.line(f"{missing} |= {x} != {x};")
        self.f.line(f"{accumulator} = {update};")

    def _narrow_body(self, names: Sequence[str]) -> None:
        """Print a fold with reduced axes innermost: one accumulator, or lanes for long rows."""
        if self._folds_in_lanes():
            self._lanes_body(names)
            return
        f = self.f
        acc = f.fresh("acc")
        f.line(f"{self.wide} {acc} = {self.rule.start_for(self.dtype)};")
        inner = [f.fresh(f"r{k}") for k in range(len(self.folds))]
        with ExitStack() as stack:
            for k, (loop, name) in enumerate(zip(self.folds, inner)):
                if k == len(self.folds) - 1 and self._may_reorder():
                    f.include("scalar/compiler.h")
                    f.line(f"TVMRT_SIMD_REDUCTION({self.rule.combine}, {acc})")
                stack.enter_context(f.loop(name, loop.extent))
            self._fold([*names, *inner], acc)
        self._finish(names, acc)

    def _may_reorder(self) -> bool:
        """Return whether a pragma may vectorise the fold. It handles neither NaN in min and max nor
        folds implemented by functions in a header."""
        if self.rule.combine is None or self.header:
            return False
        return not (self.dtype.is_float and self.rule.picks)

    def _folds_in_lanes(self) -> bool:
        """Return whether to use lanes; on boards they do not speed up comparisons."""
        walked = range(self.out_operand)
        return (
            self.dtype.is_float
            and (self.hosted or not self.rule.picks)
            and self.rule.combine is not None
            and bool(self.folds)
            and upper_bound(self.folds[-1].extent) >= 2 * LANES
            and all(self.folds[-1].strides[i] in (0, 1) for i in walked)
        )

    def _lanes_body(self, names: Sequence[str]) -> None:
        """Print partial results in lanes, so that additions do not wait for each other.

        NaN is recorded separately, so that each min or max is one instruction.
        """
        f, last = self.f, self.folds[-1]
        acc, lane = f.fresh("acc"), f.fresh("lane")
        row = f"for (int {lane} = 0; {lane} < {LANES}; ++{lane})"
        f.line(f"{self.dtype.c} {acc}[{LANES}];")
        f.line(f"{row} {acc}[{lane}] = {self.rule.start_for(self.dtype)};")
        missing = f.fresh("missing") if self.rule.picks else None
        at_lane = f"{missing}[{lane}]" if missing else None
        if missing:
            f.line(f"int {missing}[{LANES}] = {{0}};")
        outer = [f.fresh(f"r{k}") for k in range(len(self.folds))]
        inner, rest = outer.pop(), last.extent % LANES
        whole = last.extent - rest
        with loops_around(f, self.folds, outer):
            head = f"for (int {inner} = 0; {inner} < {whole}; {inner} += {LANES})"
            with f.block(head), f.block(row):
                self._fold([*names, *outer, f"({inner} + {lane})"], f"{acc}[{lane}]", at_lane)
            if rest != 0:
                with f.loop(lane, rest):
                    self._fold([*names, *outer, f"({whole} + {lane})"], f"{acc}[{lane}]", at_lane)
        half = f.fresh("half")
        with (
            f.block(f"for (int {half} = {LANES // 2}; {half} > 0; {half} /= 2)"),
            f.loop(lane, half),
        ):
            f.line(self._join(f"{acc}[{lane}]", f"{acc}[{lane} + {half}]"))
            if missing:
                f.line(f"{missing}[{lane}] |= {missing}[{lane} + {half}];")
        self._finish(names, f"({missing}[0] ? NAN : {acc}[0])" if missing else f"{acc}[0]")

    def _join(self, a: str, b: str) -> str:
        """Return the statement that combines partial result ``b`` into ``a``."""
        if self.rule.picks:
            return f"{a} = {b} {'>' if self.rule.combine == 'max' else '<'} {a} ? {b} : {a};"
        return f"{a} = {a} {self.rule.combine} {b};"

    def _wide_body(self, names: Sequence[str]) -> None:
        """Print a row of accumulators for a contiguous kept axis inside the reduced axes."""
        first = self.folds[0]
        self._wide_folds(names, ("0", str(first.extent)), self._finish)

    def _shares_channels(self, size: int) -> bool:
        extent = self.kept[-1].extent
        many = size >= SHARED_ELEMENTS and upper_bound(extent) > SHARED_CHANNELS
        return self.f.threads and many and not symbols_of(extent)

    def _shared_channels(self) -> None:
        """Split the channels over tasks, as the fold itself is too short to split."""
        f, extent = self.f, self.kept[-1].extent
        f.parallel_extent = ceil_div(extent, SHARED_CHANNELS)
        last, part = f.fresh("last"), SHARED_CHANNELS
        f.line(f"const int {last} = end * {part} < {extent} ? end * {part} : {extent};")
        self._wide_folds(
            [], ("0", str(self.folds[0].extent)), self._finish, (f"begin * {part}", last)
        )

    def _shared_body(self) -> None:
        """Print accumulators of all channels. Tasks split the pixels as in the steps before and
        after, so that each reads data in its own cache."""
        f, parts = self.f, min(PARTS, self.folds[0].extent)
        sums, part, c, acc = (f.fresh(name) for name in ("sums", "part", "c", "acc"))
        (channels,), extent = self.kept, self.folds[0].extent
        scratch = f"{self.wide} *{sums} = ({self.wide} *)(void *){f.scratch()};"
        f.parallel_extent = parts
        f.line(scratch)

        def keep(names: Sequence[str], total: str) -> None:
            f.line(f"{sums}[{part} * {channels.extent} + {names[0]}] = {total};")

        with f.loop(part, "end", "begin"):
            begin, end = f.fresh("from"), f.fresh("to")
            f.line(f"const int {begin} = (int)((int64_t){extent} * {part} / {parts});")
            f.line(f"const int {end} = (int)((int64_t){extent} * ({part} + 1) / {parts});")
            self._wide_folds([], (begin, end), keep)
        behind = [f.write(), *self.late.names]
        with f.behind_tasks(dict.fromkeys(n for n in behind if n not in self.walked.names)):
            f.line(scratch)
            with f.loop(c, channels.extent):
                f.line(f"{self.wide} {acc} = {sums}[{c}];")
                with f.loop(part, parts, 1):
                    f.line(f"{acc} += {sums}[{part} * {channels.extent} + {c}];")
                self._finish([c], acc)

    def _wide_folds(
        self,
        names: Sequence[str],
        pixels: tuple[str, str],
        finish: Callable[[Sequence[str], str], None],
        channels: tuple[str, str] | None = None,
    ) -> None:
        """Print rows of accumulators over the first reduced axis in the range ``pixels`` and all of
        the others. ``finish`` receives the loop variables and a channel's accumulator. ``channels``
        is the range of one task."""
        f = self.f
        last = self.kept[-1]
        block = min(upper_bound(last.extent), self.accumulators)
        acc, c, first, width = f.fresh("acc"), f.fresh("c"), "0", str(last.extent)
        with ExitStack() as stack:
            if upper_bound(last.extent) > block or channels is not None:
                first, width = f.fresh("first"), f.fresh("width")
                begin, end = channels or ("0", str(last.extent))
                head = f"for (int {first} = {begin}; {first} < {end}; {first} += {block})"
                stack.enter_context(f.block(head))
                rest = f"{end} - {first}"
                f.line(f"const int {width} = {rest} < {block} ? {rest} : {block};")
            place = c if first == "0" else f"({first} + {c})"
            f.line(f"{self.wide} {acc}[{block}];")
            with f.loop(c, width):
                f.line(f"{acc}[{c}] = {self.rule.start_for(self.dtype)};")
            inner = [f.fresh(f"r{k}") for k in range(len(self.folds))]
            with (
                f.loop(inner[0], pixels[1], pixels[0]),
                loops_around(f, self.folds[1:], inner[1:]),
                f.loop(c, width),
            ):
                self._fold([*names, place, *inner], f"{acc}[{c}]")
            with f.loop(c, width):
                finish([*names, place], f"{acc}[{c}]")

    def _finish(self, names: Sequence[str], acc: str) -> None:
        """Print the final result of the fold, its epilogue and the store."""
        f = self.f
        total = f.fresh("result")
        finished = self.rule.finish_for(self.dtype, acc, self.count)
        f.line(f"const {self.dtype.c} {total} = {finished};")
        known: dict[Value, str] = {self.node.output: total, **self.late.literals}
        for i, value in enumerate(self.late.values):
            variable = f.fresh("b")
            place = index(self.kept, names, self.out_operand + 1 + i)
            f.line(f"const {value.dtype.c} {variable} ={GAP}{self.late.names[i]}[{place}];")
            known[value] = variable
        print_chain(f, self.group.after, known)
        target = index(self.kept, names, self.out_operand)
        f.line(f"{f.write()}[{target}] ={GAP}{known[self.group.outputs[0]]};")


class _RowPrinter(_Printer):
    """Printer of a fold over some rows of an image, with accumulators kept between calls, in the
    element order of the complete fold. ``shape``: of one row."""

    def emit(self) -> None:
        f, width = self.f, self.shape[1]
        first, count, rows = (f.number(name) for name in ("first", "count", "rows"))
        acc, c, row = f.fresh("acc"), f.fresh("c"), f.fresh("row")
        pixels = [f.fresh(f"r{k}") for k in range(len(self.folds))]
        f.line(f"{self.wide} *{acc} = ({self.wide} *)(void *){f.scratch()};")
        with f.block(f"if ({first} == 0)"), f.loop(c, width):
            f.line(f"{acc}[{c}] = {self.rule.start_for(self.dtype)};")
        with f.loop(row, count), loops_around(f, self.folds, pixels), f.loop(c, width):
            self.folds = [self._rows(), *self.folds]
            self._fold([c, row, *pixels], f"{acc}[{c}]")
        f.line(f"if ({rows} == 0) return 0;")
        with f.loop(c, width):
            self._finish([c], f"{acc}[{c}]")

    def _rows(self) -> Loop:
        """Return the loop over the rows, which the one-row step does not contain."""
        others = len(self.kept[0].strides) - len(self.walked.strides)
        return Loop(1, (*(at[2] for at in self.walked.strides), *[0] * others))
