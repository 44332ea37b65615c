"""Reductions as loop nests, with pointwise producers and epilogue fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod

from tvmrt.compiler.ir import DType, Strided, Value, get_op
from tvmrt.compiler.ir.program import Access, Step, pixel_stride
from tvmrt.compiler.ir.reduction import ReduceOp
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import lower_bound, symbols_of, upper_bound
from tvmrt.compiler.ir.sizes.undecided import statically_known_true
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from ...ir.program import ANY
from ..c.formatting import GAP
from ..c.writer import FunctionWriter
from ..kernel_features import BOARD_KERNELS
from ..lowering import ResultLayout, Scratch, lowers
from ..lowering_protocols import RowFusable
from .loop_nest import (
    PARALLEL_ELEMENTS,
    Loop,
    Operands,
    emit_nest,
    index,
    load,
    max_iterations,
    merge_loops,
    open_loops,
)
from .pointwise import print_pointwise_chain
from .row_fusion_layers import reduction_row_layer, single_row_step, with_scratch

ACCUMULATORS = 256  # partial results kept on the stack at once
ACCUMULATORS_FIRMWARE = 32  # on bare metal, where the stack is small
LANES = 32  # partial results of one long row
PARALLEL_PARTS = 8  # parts of a parallel fold; fixed, so that the result does not depend on threads
MAX_PARTIAL_BYTES = 1 << 16  # maximum bytes of their partial sums
SHARED_CHANNELS = 64  # channels per part of a short parallel fold
SHARED_ELEMENTS = 1 << 14  # minimum elements to wake a thread that has some of them in its cache
MIN_CHANNELS = 4  # minimum contiguous channels for a row of accumulators

REDUCTIONS = (
    "reduce_sum",
    "reduce_mean",
    "reduce_prod",
    "reduce_max",
    "reduce_min",
    "reduce_sum_square",
)


@lowers(*REDUCTIONS)
class ReduceLowering(RowFusable):
    """Fold over axes: loops over the kept axes around loops over the reduced axes."""

    takes_epilogue = True
    operand_demand = ANY

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        return True

    @property
    def axes(self) -> set[int]:
        return set(self.node.attrs["axes"])

    def input_order(self, accesses: dict[Value, Access]) -> tuple[int, ...]:
        """Return the axis order of the largest operand that the fold reads."""
        shape = self.node.inputs[0].shape
        candidates = [
            (v.type.nbytes, a.at.order()) for v, a in accesses.items() if v.shape == shape
        ]
        return max(candidates)[1] if candidates else tuple(range(len(shape)))

    def result_layout(self, index: int, accesses: dict[Value, Access]) -> ResultLayout:
        order = self.input_order(accesses)
        if self.node.attrs["keepdims"]:
            return ResultLayout(order, ANY)
        kept_axes = [d for d in range(len(order)) if d not in self.axes]
        return ResultLayout(tuple(kept_axes.index(d) for d in order if d not in self.axes), ANY)

    def strides_by_input_axis(self, at: Strided) -> tuple[int, ...]:
        """Return strides by input axis of an access with the result's shape."""
        strides, k = [], 0
        keep = self.node.attrs["keepdims"]
        for d in range(self.node.inputs[0].type.rank):
            folded = d in self.axes
            strides.append(0 if folded else at.strides[k])
            k += 0 if folded and not keep else 1
        return tuple(strides)

    def scratch(self, step: Step) -> Scratch:
        return Scratch(self._partial_bytes())

    def _partial_bytes(self) -> int:
        """Return the bytes of partial sums if tasks may share a fold, which must be long enough for
        many elements per part."""
        x = self.node.inputs[0]
        rule = get_op(self.node.op)
        floats = x.dtype.name in ("float32", "float64") and rule.combine == "+"
        if not self.target.threads or not floats or symbols_of(*x.shape):
            return 0
        if self.target.fixed_order:  # also where no threads divide the sums
            return 0
        folded = prod(x.shape[d] for d in self.axes)
        num_kept = prod(x.shape) // max(folded, 1)
        few = folded < PARALLEL_PARTS * PARALLEL_PARTS or num_kept < MIN_CHANNELS
        if few or folded * num_kept < PARALLEL_ELEMENTS:
            return 0
        nbytes = PARALLEL_PARTS * num_kept * x.dtype.itemsize
        return nbytes if nbytes <= MAX_PARTIAL_BYTES else 0

    def emit(self, step: Step, f: FunctionWriter) -> None:
        _Printer(self, step, f, self.node.inputs[0].shape).emit()

    def row_layer(self, step: Step) -> RowLayer | None:
        if not BOARD_KERNELS.of(self.target) or len(step.reads) != 1:
            return None
        x = step.reads[0]
        is_global = len(x.shape) == 4 and self.axes == {2, 3} and x.shape[1] >= MIN_CHANNELS
        if not is_global or symbols_of(x.shape) or x.shape[2] < 2 or pixel_stride(x.at) is None:
            return None
        nbytes = accumulator_bytes(get_op(self.node.op), self.node.inputs[0].dtype)
        sides = [([*self.group.before], x.shape), ([*self.group.after], step.writes[0].shape)]
        read = [(v, shape) for nodes, shape in sides for n in nodes for v in n.inputs if v]
        if nbytes is None or not all(
            _varies_by_channel_only(v, shape) for v, shape in read if v.is_constant
        ):
            return None
        bytes_ = x.at.strides[2] * x.dtype.itemsize, x.shape[1] * step.writes[0].dtype.itemsize
        return reduction_row_layer(x.shape[2], *bytes_, nbytes * x.shape[1])

    def row_step(self, step: Step) -> Step:
        nbytes = self.row_layer(step).line_buffer_bytes  # of the accumulators
        return with_scratch(single_row_step(step), "sums", nbytes)

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        _RowPrinter(self, step, f, step.reads[0].shape).emit()


def accumulator_bytes(rule: ReduceOp, dtype: DType) -> int | None:
    """Return the bytes of an accumulator; None if its type is not a C integer or float."""
    c_type = rule.accumulator(dtype)
    sizes = {"uint32_t": 4, "int64_t": 8, "uint64_t": 8, dtype.c: dtype.itemsize}
    return sizes.get(c_type)


def _varies_by_channel_only(value: Value, shape: Sequence[int]) -> bool:
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
        self.acc_type = self.rule.accumulator(self.dtype)
        self.header = self.rule.header_for(self.dtype)
        f.include(self.header)
        self.shape = tuple(shape)
        order = lowering.input_order(dict(zip(step.read_values, step.reads)))
        self.count = prod(self.node.inputs[0].shape[d] for d in lowering.axes)

        self.inputs = Operands(f, step, self.shape, order)
        for value in self._read_by([*self.group.before, self.node]):
            self.inputs.add(value)
        out = step.writes[0].at
        self.epilogue = Operands(f, step, out.shape, out.order())
        for value in self._read_by(self.group.after):
            self.epilogue.add(value)
        self.out_operand = len(self.inputs.values)
        strides = [
            *self.inputs.strides,
            lowering.strides_by_input_axis(out),
            *(lowering.strides_by_input_axis(Strided(out.shape, s)) for s in self.epilogue.strides),
        ]
        self.kept_loops = merge_loops(
            self.shape, [d for d in order if d not in lowering.axes], strides
        )
        reduced = [d for d in order if d in lowering.axes]
        self.fixed_order = lowering.target.fixed_order
        if not self.fixed_order:
            self.reduced_loops = merge_loops(self.shape, reduced, strides)
        else:  # the same loops for a batch of one, whose axes in memory are neighbours
            self.reduced_loops = [
                loop for d in reduced for loop in merge_loops(self.shape, [d], strides)
            ]
        self.folds_last_axis = bool(reduced) and reduced[-1] == order[-1] and shape[order[-1]] != 1

    def _read_by(self, nodes) -> list[Value]:
        computed = {v for n in self.group.nodes for v in n.outputs}
        return [v for v in dict.fromkeys(v for n in nodes for v in n.inputs) if v not in computed]

    def emit(self) -> None:
        is_contiguous = self._kept_axis_is_densest()
        loops = self.kept_loops[:-1] if is_contiguous else self.kept_loops
        size = max_iterations(self.kept_loops) * max_iterations(self.reduced_loops)
        is_row = is_contiguous and not loops
        if is_row and self.f.scratch_parameter and self.reduced_loops[0].extent > 1:
            self._parallel_reduction_body()
            return
        if self.f.scratch_parameter:
            self.f.line(f"(void){self.f.scratch()};")
        if is_row and self._splits_channels(size):
            self._split_channels()
            return
        body = self._accumulator_row_body if is_contiguous else self._accumulator_body
        emit_nest(self.f, loops, body, size)

    def _kept_axis_is_densest(self) -> bool:
        """Return whether consecutive elements in memory belong to different results."""
        if not self.kept_loops or not self.reduced_loops:
            return False
        if upper_bound(self.kept_loops[-1].extent) < MIN_CHANNELS:
            return False
        return statically_known_true(self._is_kept_stride_smallest)

    def _is_kept_stride_smallest(self) -> bool:
        inputs = range(self.out_operand)
        step = min((abs(self.kept_loops[-1].strides[i]) for i in inputs), default=0)
        fold_step = min(
            (abs(loop.strides[i]) for loop in self.reduced_loops for i in inputs), default=0
        )
        return step == 1 and fold_step != 1

    def _accumulate(
        self, names: Sequence[str], accumulator: str, missing: str | None = None
    ) -> None:
        """Accumulate one element; with ``missing``, NaN is recorded there instead."""
        literals = dict(self.inputs.literals)
        load(self.f, self.inputs, [*self.kept_loops, *self.reduced_loops], names, literals)
        print_pointwise_chain(self.f, self.group.before, literals)
        x = literals[self.node.inputs[0]]
        if missing is None:
            update = self.rule.step_for(self.dtype, accumulator, x, self.count)
        else:
            update = self.rule.step.format(acc=accumulator, x=x)
            self.f.line(f"{missing} |= {x} != {x};")
        self.f.line(f"{accumulator} = {update};")

    def _accumulator_body(self, names: Sequence[str]) -> None:
        """Print a fold with reduced axes innermost: one accumulator, or lanes for long rows."""
        if not self._folds_in_lanes():
            self._one_accumulator_body(names)
            return
        last = self.reduced_loops[-1].extent
        if not self.fixed_order or lower_bound(last) >= 2 * LANES:
            self._lanes_body(names)
            return
        with self.f.block(f"if ({last} < {2 * LANES})"):
            self._one_accumulator_body(names)
        with self.f.block(f"if ({last} >= {2 * LANES})"):
            self._lanes_body(names)

    def _one_accumulator_body(self, names: Sequence[str]) -> None:
        f = self.f
        acc = f.fresh("acc")
        f.line(f"{self.acc_type} {acc} = {self.rule.start_for(self.dtype)};")
        inner = [f.fresh(f"r{k}") for k in range(len(self.reduced_loops))]
        with ExitStack() as stack:
            for k, (loop, name) in enumerate(zip(self.reduced_loops, inner)):
                if k == len(self.reduced_loops) - 1 and self._may_reorder():
                    f.include("scalar/compiler.h")
                    f.line(f"TVMRT_SIMD_REDUCTION({self.rule.combine}, {acc})")
                stack.enter_context(f.loop(name, loop.extent))
            self._accumulate([*names, *inner], acc)
        self._finish(names, acc)

    def _may_reorder(self) -> bool:
        """Return whether a pragma may vectorise the fold. It handles neither NaN in min and max nor
        folds implemented by functions in a header."""
        if self.rule.combine is None or self.header:
            return False
        return not (self.dtype.is_float and self.rule.picks)

    def _folds_in_lanes(self) -> bool:
        """Return whether to use lanes; on boards they do not speed up comparisons."""
        inputs = range(self.out_operand)
        return (
            self.dtype.is_float
            and (self.hosted or not self.rule.picks)
            and self.rule.combine is not None
            and bool(self.reduced_loops)
            and (self.folds_last_axis or not self.fixed_order)
            and upper_bound(self.reduced_loops[-1].extent) >= 2 * LANES
            and all(self.reduced_loops[-1].strides[i] in (0, 1) for i in inputs)
        )

    def _lanes_body(self, names: Sequence[str]) -> None:
        """Print partial results in lanes, so that additions do not wait for each other.

        NaN is recorded separately, so that each min or max is one instruction.
        """
        f, last = self.f, self.reduced_loops[-1]
        acc, lane = f.fresh("acc"), f.fresh("lane")
        row = f"for (int {lane} = 0; {lane} < {LANES}; ++{lane})"
        f.line(f"{self.dtype.c} {acc}[{LANES}];")
        f.line(f"{row} {acc}[{lane}] = {self.rule.start_for(self.dtype)};")
        missing = f.fresh("missing") if self.rule.picks else None
        at_lane = f"{missing}[{lane}]" if missing else None
        if missing:
            f.line(f"int {missing}[{LANES}] = {{0}};")
        outer = [f.fresh(f"r{k}") for k in range(len(self.reduced_loops))]
        inner, tail = outer.pop(), last.extent % LANES
        vectorized = last.extent - tail
        with open_loops(f, self.reduced_loops, outer):
            head = f"for (int {inner} = 0; {inner} < {vectorized}; {inner} += {LANES})"
            with f.block(head), f.block(row):
                self._accumulate([*names, *outer, f"({inner} + {lane})"], f"{acc}[{lane}]", at_lane)
            if tail != 0:
                with f.loop(lane, tail):
                    self._accumulate(
                        [*names, *outer, f"({vectorized} + {lane})"], f"{acc}[{lane}]", at_lane
                    )
        half = f.fresh("half")
        with (
            f.block(f"for (int {half} = {LANES // 2}; {half} > 0; {half} /= 2)"),
            f.loop(lane, half),
        ):
            f.line(self._combine(f"{acc}[{lane}]", f"{acc}[{lane} + {half}]"))
            if missing:
                f.line(f"{missing}[{lane}] |= {missing}[{lane} + {half}];")
        self._finish(names, f"({missing}[0] ? NAN : {acc}[0])" if missing else f"{acc}[0]")

    def _combine(self, a: str, b: str) -> str:
        """Return the statement that combines partial result ``b`` into ``a``."""
        if self.rule.picks:
            return f"{a} = {b} {'>' if self.rule.combine == 'max' else '<'} {a} ? {b} : {a};"
        return f"{a} = {a} {self.rule.combine} {b};"

    def _accumulator_row_body(self, names: Sequence[str]) -> None:
        """Print a row of accumulators for a contiguous kept axis inside the reduced axes."""
        first = self.reduced_loops[0]
        self._print_accumulator_rows(names, ("0", str(first.extent)), self._finish)

    def _splits_channels(self, size: int) -> bool:
        extent = self.kept_loops[-1].extent
        many = size >= SHARED_ELEMENTS and upper_bound(extent) > SHARED_CHANNELS
        return self.f.threads and many and not symbols_of(extent)

    def _split_channels(self) -> None:
        """Split the channels over tasks, as the fold itself is too short to split."""
        f, extent = self.f, self.kept_loops[-1].extent
        f.parallel_extent = ceil_div(extent, SHARED_CHANNELS)
        last, part = f.fresh("last"), SHARED_CHANNELS
        f.line(f"const int {last} = end * {part} < {extent} ? end * {part} : {extent};")
        self._print_accumulator_rows(
            [], ("0", str(self.reduced_loops[0].extent)), self._finish, (f"begin * {part}", last)
        )

    def _parallel_reduction_body(self) -> None:
        """Print accumulators of all channels. Tasks split the pixels as in the steps before and
        after, so that each reads data in its own cache."""
        f, parts = self.f, min(PARALLEL_PARTS, self.reduced_loops[0].extent)
        partial_sums, part, c, acc = (f.fresh(name) for name in ("sums", "part", "c", "acc"))
        (channels,), extent = self.kept_loops, self.reduced_loops[0].extent
        scratch = f"{self.acc_type} *{partial_sums} = ({self.acc_type} *)(void *){f.scratch()};"
        f.parallel_extent = parts
        f.line(scratch)

        def keep(names: Sequence[str], total: str) -> None:
            f.line(f"{partial_sums}[{part} * {channels.extent} + {names[0]}] = {total};")

        with f.loop(part, "end", "begin"):
            begin, end = f.fresh("from"), f.fresh("to")
            f.line(f"const int {begin} = (int)((int64_t){extent} * {part} / {parts});")
            f.line(f"const int {end} = (int)((int64_t){extent} * ({part} + 1) / {parts});")
            self._print_accumulator_rows([], (begin, end), keep)
        epilogue_operands = [f.write(), *self.epilogue.names]
        with f.after_tasks(
            dict.fromkeys(n for n in epilogue_operands if n not in self.inputs.names)
        ):
            f.line(scratch)
            with f.loop(c, channels.extent):
                f.line(f"{self.acc_type} {acc} = {partial_sums}[{c}];")
                with f.loop(part, parts, 1):
                    f.line(f"{acc} += {partial_sums}[{part} * {channels.extent} + {c}];")
                self._finish([c], acc)

    def _print_accumulator_rows(
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
        last = self.kept_loops[-1]
        block = min(upper_bound(last.extent), self.accumulators)
        acc, c, first, width = f.fresh("acc"), f.fresh("c"), "0", str(last.extent)
        with ExitStack() as stack:
            if upper_bound(last.extent) > block or channels is not None:
                first, width = f.fresh("first"), f.fresh("width")
                begin, end = channels or ("0", str(last.extent))
                head = f"for (int {first} = {begin}; {first} < {end}; {first} += {block})"
                stack.enter_context(f.block(head))
                tail = f"{end} - {first}"
                f.line(f"const int {width} = {tail} < {block} ? {tail} : {block};")
            channel = c if first == "0" else f"({first} + {c})"
            f.line(f"{self.acc_type} {acc}[{block}];")
            with f.loop(c, width):
                f.line(f"{acc}[{c}] = {self.rule.start_for(self.dtype)};")
            inner = [f.fresh(f"r{k}") for k in range(len(self.reduced_loops))]
            with (
                f.loop(inner[0], pixels[1], pixels[0]),
                open_loops(f, self.reduced_loops[1:], inner[1:]),
                f.loop(c, width),
            ):
                self._accumulate([*names, channel, *inner], f"{acc}[{c}]")
            with f.loop(c, width):
                finish([*names, channel], f"{acc}[{c}]")

    def _finish(self, names: Sequence[str], acc: str) -> None:
        """Print the final result of the fold, its epilogue and the store."""
        f = self.f
        total = f.fresh("result")
        finished = self.rule.finish_for(self.dtype, acc, self.count)
        f.line(f"const {self.dtype.c} {total} = {finished};")
        expressions: dict[Value, str] = {self.node.output: total, **self.epilogue.literals}
        for i, value in enumerate(self.epilogue.values):
            variable = f.fresh("b")
            position = index(self.kept_loops, names, self.out_operand + 1 + i)
            f.line(f"const {value.dtype.c} {variable} ={GAP}{self.epilogue.names[i]}[{position}];")
            expressions[value] = variable
        print_pointwise_chain(f, self.group.after, expressions)
        target = index(self.kept_loops, names, self.out_operand)
        f.line(f"{f.write()}[{target}] ={GAP}{expressions[self.group.outputs[0]]};")


class _RowPrinter(_Printer):
    """Printer of a fold over some rows of an image, with accumulators kept between calls, in the
    element order of the complete fold. ``shape``: of one row."""

    def emit(self) -> None:
        f, width = self.f, self.shape[1]
        first, count, rows = (f.int_parameter(name) for name in ("first", "count", "rows"))
        acc, c, row = f.fresh("acc"), f.fresh("c"), f.fresh("row")
        pixels = [f.fresh(f"r{k}") for k in range(len(self.reduced_loops))]
        f.line(f"{self.acc_type} *{acc} = ({self.acc_type} *)(void *){f.scratch()};")
        with f.block(f"if ({first} == 0)"), f.loop(c, width):
            f.line(f"{acc}[{c}] = {self.rule.start_for(self.dtype)};")
        with f.loop(row, count), open_loops(f, self.reduced_loops, pixels), f.loop(c, width):
            self.reduced_loops = [self._rows(), *self.reduced_loops]
            self._accumulate([c, row, *pixels], f"{acc}[{c}]")
        f.line(f"if ({rows} == 0) return 0;")
        with f.loop(c, width):
            self._finish([c], f"{acc}[{c}]")

    def _rows(self) -> Loop:
        """Return the loop over the rows, which the one-row step does not contain."""
        num_others = len(self.kept_loops[0].strides) - len(self.inputs.strides)
        return Loop(1, (*(at[2] for at in self.inputs.strides), *[0] * num_others))
