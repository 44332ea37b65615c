"""Elementwise operators and pooling on 8-bit integers."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir.fixed_point import FIXED
from tvmrt.compiler.ir.program import Group, Step, pixel_stride
from tvmrt.compiler.ir.quantized import QUANT
from tvmrt.compiler.ir.sizes import Extent, SymInt, symbols_of, upper_bound
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from ...ir.program import ANY
from ..c.formatting import LINE, call, plus, wrap
from ..c.initializers import (
    float_literal,
    print_layer,
    print_static,
    print_static_struct,
    print_struct,
    range_initializer,
)
from ..c.writer import FunctionWriter
from ..geometry import FLOAT
from ..kernel_features import BOARD_KERNELS
from ..loops.fixed_point_add import fixed_point_add
from ..loops.loop_nest import Loop, index, merge_loops, open_loops, pointwise_order
from ..loops.pointwise import expression
from ..loops.quantized_binary_scales import pair_members
from ..loops.row_fusion_layers import (
    elementwise_row_layer,
    reduction_row_layer,
    single_row_step,
    with_scratch,
)
from ..lowering import ImageLowering, ResultLayout, lowers, same_offsets
from ..lowering_protocols import RowFusable
from ..target import Target
from ..window.boards import board_lowering
from ..window.pool import pool_members, window_of
from ..window.tiles_i8 import define_weight_format

PARALLEL_ELEMENTS = 1 << 18  # minimum bytes to wake a second thread
ACCUMULATOR_BYTES = 4  # of a channel's accumulator


def _threads(target: Target, size: SymInt) -> int:
    """Return the thread limit for kernels; 0 means all threads."""
    return 0 if target.threads and upper_bound(size) >= PARALLEL_ELEMENTS else 1


class QuantizedElementwiseLowering(RowFusable):
    """Base class of elementwise 8-bit operators, computed one row at a time."""

    has_row_kernel = True  # else a loop over elements is faster
    operand_demand = ANY

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return ResultLayout(pointwise_order(self.node.output, accesses), ANY)

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        out = step.writes[0].at
        return [(i, 0) for i, a in enumerate(step.reads) if same_offsets(a.at, out)]

    def row_layer(self, step: Step) -> RowLayer | None:
        return elementwise_row_layer(step) if BOARD_KERNELS.of(self.target) else None

    def row_step(self, step: Step) -> Step:
        return single_row_step(step)

    def prepare(self, f: FunctionWriter, by_rows: bool) -> str:
        """Print the definitions before the loops; return the pointer to them or ""."""
        raise NotImplementedError

    def row(self, prepared: str, y: str, x: list[str], n: int, is_only_call: bool) -> str:
        """Return the C call for n contiguous elements; ``prepared`` is the result of prepare(). If
        ``is_only_call``, it is the only call and may use all threads."""
        raise NotImplementedError

    def emit_all_rows(self, prepared: str, f: FunctionWriter, rows: Loop, n: SymInt) -> bool:
        """Print a single call for rows of n contiguous elements; False if there is no kernel."""
        return False

    def element(self, prepared: str, x: list[str]) -> str:
        """Return the C expression of one element of the result."""
        raise NotImplementedError

    def emit(self, step: Step, f: FunctionWriter) -> None:
        out = step.writes[0].at
        indices = [step.read_values.index(v) for v in self.node.inputs if not v.is_constant]
        strides = [*(step.reads[i].at.strides for i in indices), out.strides]
        loops = merge_loops(out.shape, out.order(), strides)
        together = self.has_row_kernel and all(s == 1 for each in loops[-1:] for s in each.strides)
        inner = loops[-1] if together and loops else Loop(1, (0,) * len(strides))
        outer = loops[:-1] if together else loops
        prepared = self.prepare(f, together)
        if together and len(outer) == 1 and self.emit_all_rows(prepared, f, outer[0], inner.extent):
            return
        names = [f.fresh(f"i{k}") for k in range(len(outer))]
        with open_loops(f, outer, names):
            at = [index(outer, names, k) for k in range(len(strides))]
            if together:
                x = [plus(f.read(i), at[k]) for k, i in enumerate(indices)]
                y = plus(f.write(), at[-1])
                call = self.row(prepared, y, x, inner.extent, is_only_call=not outer)
                if outer:
                    f.line(f"if ({call} != 0) return -1;")
                else:
                    f.result(call)
            else:
                x = [f"{f.read(i)}[{at[k]}]" for k, i in enumerate(indices)]
                f.line(f"{f.write()}[{at[-1]}] = {self.element(prepared, x)};")


@lowers("table")
class LookupTableLowering(QuantizedElementwiseLowering):
    """Lookup table with 256 entries."""

    def prepare(self, f: FunctionWriter, by_rows: bool) -> str:
        if by_rows:
            f.target_fields.add("tables")
            f.include("op/eltwise_i8.h")
            define_weight_format(f, self.target)
        return f.constant("table", self.node.inputs[1].data)

    def row(self, prepared: str, y: str, x: list[str], n: int, is_only_call: bool) -> str:
        threads = _threads(self.target, n) if is_only_call else 1
        return f"tvmrt_table_i8_run({prepared}, {y}, {x[0]}, {n}, {threads})"

    def emit_all_rows(self, prepared: str, f: FunctionWriter, rows: Loop, n: SymInt) -> bool:
        if not self.target.threads:
            return False
        x_stride, y_stride = rows.strides
        members = {
            "table": prepared,
            "x": f"(const uint8_t *){f.read(0)}",
            "y": f"(uint8_t *){f.write()}",
            "x_stride": x_stride,
            "y_stride": y_stride,
            "rows": rows.extent,
            "n": n,
        }
        print_struct(f, "const tvmrt_table_i8_rows rows", members)
        threads = _threads(self.target, rows.extent * n)
        f.result(call("tvmrt_table_i8_rows_run", "&rows", threads))
        return True

    def element(self, prepared: str, x: list[str]) -> str:
        return f"({self.node.output.dtype.c}){prepared}[(uint8_t){x[0]}]"


@lowers("qadd", "qmul")
class QuantizedBinaryLowering(QuantizedElementwiseLowering):
    """Quantised sum or product of two tensors."""

    in_memory = (0, 1)

    def __init__(self, group: Group, target: Target) -> None:
        super().__init__(group, target)
        self.kernel = "tvmrt_add_i8" if self.node.op == "qadd" else "tvmrt_mul_i8"
        self.has_row_kernel = not BOARD_KERNELS.of(target) or fixed_point_add(self.node) is None

    def prepare(self, f: FunctionWriter, by_rows: bool) -> str:
        if not by_rows:
            f.include(QUANT if self.has_row_kernel else FIXED)
            return ""
        f.include("op/eltwise_i8.h")
        define_weight_format(f, self.target)
        return f"&{print_static_struct(f, self.kernel, 'factors', pair_members(self.node))}"

    def row(self, prepared: str, y: str, x: list[str], n: int, is_only_call: bool) -> str:
        threads = _threads(self.target, n) if is_only_call else 1
        return f"{self.kernel}_run({prepared}, {y}, {x[0]}, {x[-1]}, {n}, {threads})"

    def element(self, prepared: str, x: list[str]) -> str:
        names = {self.node.inputs[0]: x[0], self.node.inputs[-1]: x[-1]}
        return expression(self.node, names, BOARD_KERNELS.of(self.target)).text


@lowers("qmax_pool", "qavg_pool", "qavg_pool_zero_first")
class QuantizedPoolLowering(ImageLowering, RowFusable):
    """Pooling over channels-last 8-bit images."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("pool_i8.h")
        define_weight_format(f, self.target)
        if self._is_global_average(step):
            self._emit_global_average(f, pixel_stride(step.reads[0].at))
        elif self._has_task(step):
            self._emit_task(step, f)
        else:
            self._emit_call(f, f"&{self._emit_shape(step, f)}")

    def _has_task(self, step: Step) -> bool:
        """Return whether to print a separate task function with a static layer: threads may share
        the work, and all extents are fixed."""
        shapes = step.reads[0].shape, step.writes[0].shape
        return not BOARD_KERNELS.of(self.target) and not symbols_of(*shapes[0], *shapes[1])

    def _emit_task(self, step: Step, f: FunctionWriter) -> None:
        before, f.lines = f.lines, []
        layer = self._emit_shape(step, f)
        average = self._print_average(f)
        f.result(f"tvmrt_pool_i8_part(&{layer}, {average}, tensors, task, env->num_task)")
        body, f.lines = f.lines, before
        task = f.static_symbol("_task")
        parameters = "int task", "TVMParallelGroupEnv *env", "void *tensors"
        head = wrap(f"static int {task}", parameters, " {")
        f.helper("\n".join([*head, *body, "}", ""]))
        f.line(f"tvmrt_pool_i8_tensors tensors = {{{f.read(0)}, {f.write()}}};")
        floats = int(prod(self.node.output.shape)) * prod(self.node.attrs["kernel"]) // FLOAT
        min_work = "TVMRT_PARALLEL_MIN_FLOATS"
        f.result(call("tvmrt_launch", task, "&tensors", floats, min_work))

    def row_layer(self, step: Step) -> RowLayer | None:
        x, y = step.reads[0], step.writes[0]
        if not BOARD_KERNELS.of(self.target) or len(y.shape) != 4:
            return None
        strides = pixel_stride(x.at), pixel_stride(y.at)
        if self._is_global_average(step):
            is_static = not symbols_of(x.shape) and x.shape[2] > 1
            sizes = x.shape[3] * strides[0], y.shape[1], y.shape[1] * ACCUMULATOR_BYTES
            return reduction_row_layer(x.shape[2], *sizes) if is_static else None
        return board_lowering.pool_row_layer(window_of(self.node, 1, *strides), 1, 1)

    def row_step(self, step: Step) -> Step:
        if not self._is_global_average(step):
            return step
        return with_scratch(step, "sums", self.row_layer(step).line_buffer_bytes)

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        f.include("pool_i8.h")
        define_weight_format(f, self.target)
        if self._is_global_average(step):
            self._emit_global_average_rows(step, f)
            return
        self._emit_call(f, board_lowering.print_pool_rows(f, self._emit_shape(step, f)))

    def _emit_call(self, f: FunctionWriter, layer: str) -> None:
        average = self._print_average(f)
        if average == "NULL":
            f.result(f"tvmrt_max_pool_i8({layer}, {f.read(0)}, {f.write()})")
            return
        f.result(f"tvmrt_average_pool_i8({layer}, {average}, {f.read(0)}, {f.write()})")

    def _print_average(self, f: FunctionWriter) -> str:
        """Print the scales of an average; return the pointer to them."""
        attrs = self.node.attrs
        if self.node.op == "qmax_pool":
            return "NULL"
        shift = self._shift()
        bounds = self._print_range(f, {**attrs, "y_zero": attrs["y_zero"] - shift})
        average = [
            f".x_scale = {float_literal(attrs['x_scale'])}, "
            f".y_scale = {float_literal(attrs['y_scale'])}",
            f".shift = {float_literal(float(shift))}, .x_zero = {attrs['x_zero']}, "
            f".range = {bounds}",
        ]
        print_struct(f, "const tvmrt_average_i8 average", average)
        return "&average"

    def _shift(self) -> int:
        """Return the zero point if it is added before a mean is rounded, else 0."""
        return self.node.attrs["y_zero"] if self.node.op == "qavg_pool_zero_first" else 0

    def _print_range(self, f: FunctionWriter, attrs: dict) -> str:
        return print_static(f, "tvmrt_i8_range", "range", range_initializer(attrs))

    def _covers_image(self) -> bool:
        attrs, spatial = self.node.attrs, self.node.inputs[0].shape[2:]
        return tuple(attrs["kernel"]) == spatial and not any(
            (*attrs["pads_before"], *attrs["pads_after"])
        )

    def _is_global_average(self, step: Step) -> bool:
        """Return whether it is a mean over whole images, computed with integer sums."""
        dense = pixel_stride(step.writes[0].at) == self.node.output.shape[1]
        return self.node.op == "qavg_pool" and self._covers_image() and dense

    def _emit_global_average_rows(self, step: Step, f: FunctionWriter) -> None:
        """Print the pooling of some rows of an image, with sums kept between calls."""
        value, attrs = self.node.inputs[0], self.node.attrs
        channels, height, width = value.shape[1:]
        first, count, rows = (f.int_parameter(name) for name in ("first", "count", "rows"))
        x_stride, signed = pixel_stride(step.reads[0].at), int(value.dtype.is_signed)
        bounds = self._print_range(f, attrs)
        f.line(f"int32_t *sums = (int32_t *)(void *){f.scratch()};")
        with f.block(f"if ({first} == 0)"), f.loop("c", channels):
            f.line(f"sums[c] = {-height * width * attrs['x_zero']};")
        x, pixels = f"(const uint8_t *){f.read(0)}", f"{count} * {width}"
        f.line(f"tvmrt_image_sums_i8(sums, {channels}, {x}, {pixels}, {x_stride}, {signed});")
        f.line(f"if ({rows} == 0) return 0;")
        y, scale = f"(uint8_t *){f.write()}", self._scale_of_sum(height * width)
        f.line(f"tvmrt_scale_sums_i8({y}, sums, {channels}, {scale}, &{bounds});")

    def _emit_global_average(self, f: FunctionWriter, x_stride: int) -> None:
        value, attrs = self.node.inputs[0], self.node.attrs
        pixels = prod(value.shape[2:])
        bounds = self._print_range(f, attrs)
        arguments = [
            f"/* batch */ {value.shape[0]}", f"/* pixels */ {pixels}",
            f"/* channels */ {value.shape[1]}", f.read(0), f"/* x_stride */ {x_stride}",
            f"/* x_zero */ {attrs['x_zero']}", f"/* x_signed */ {int(value.dtype.is_signed)}",
            f"/* scale */ {self._scale_of_sum(pixels)}", f"&{bounds}", f.write(),
        ]  # fmt: skip
        f.line("\n".join(wrap("tvmrt_global_average_pool_i8", arguments, ";", columns=LINE - 4)))

    def _scale_of_sum(self, pixels: SymInt) -> str:
        """Return the C factor for a sum over the pixels, computed in double and rounded once."""
        x, y = (float(self.node.attrs[name]) for name in ("x_scale", "y_scale"))
        if isinstance(pixels, Extent):
            return f"(float)({x!r} / ({y!r} * {pixels}))"
        return float_literal(x / (y * pixels))

    def _emit_shape(self, step: Step, f: FunctionWriter) -> str:
        x, y = pixel_stride(step.reads[0].at), pixel_stride(step.writes[0].at)
        window = window_of(self.node, self.node.output.shape[0], x, y)
        return print_layer(f, "tvmrt_pool_layer", pool_members(self.node, window))
