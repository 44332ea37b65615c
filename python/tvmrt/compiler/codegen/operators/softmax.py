"""Softmax along one axis, of floats, and of bytes on microcontrollers."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import CHANNELS_LAST, DENSE, Step, pixel_stride
from tvmrt.compiler.ir.quantized import storage_range
from tvmrt.compiler.ir.quantized_softmax import MAX_SHIFT
from tvmrt.compiler.ir.sizes import symbols_of

from ..c.writer import FunctionWriter
from ..lowering import ImageLowering, Lowering, ResultLayout, in_place_pair, lowers


@lowers("softmax")
class SoftmaxLowering(ImageLowering):
    """Softmax in three passes over each row: maximum, sum of exponentials, quotient."""

    @property
    def over_channels(self) -> bool:
        """Whether the axis is the channel axis, which is innermost after convolutions."""
        return self.node.attrs["axis"] == 1 and self.node.output.type.rank > 2

    def demand(self, value: Value) -> str:
        return CHANNELS_LAST if self.over_channels else DENSE

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return super().result_layout(index, accesses) if self.over_channels else ResultLayout()

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        return in_place_pair(step, step.read_values[0])

    def emit(self, step: Step, f: FunctionWriter) -> None:
        shape, axis = self.node.output.shape, self.node.attrs["axis"]
        outer, count, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
        log = "log_" if self.node.attrs.get("log") else ""
        task = f"tvmrt_softmax_f32_{'shared_' if symbols_of(shape) else ''}task"
        # an axis before others has another order of sums, even if these have extent 1
        columns = self.target.fixed_order and not self.over_channels and axis + 1 < len(shape)
        blocks = f"tvmrt_softmax_{'columns_' if columns else ''}f32({task}, {int(bool(log))}"
        f.include("op/softmax.h")
        x, y = f.read(0), f.write()
        if not f.threads and inner == outer == 1 and not columns:
            # a single row: networks share the row function for any length
            f.line(f"tvmrt_{log}softmax_row_f32({x}, {y}, {count});")
            return
        if not self.over_channels:
            f.result(f"{blocks}, {x}, {y}, {outer}, {count}, {inner})")
            return
        x_stride, y_stride = pixel_stride(step.reads[0].at), pixel_stride(step.writes[0].at)
        if x_stride == y_stride == count:
            f.result(f"{blocks}, {x}, {y}, {outer * inner}, {count}, 1)")
            return
        with f.block(f"for (int64_t p = 0; p < {outer * inner}; ++p)"):
            f.line(
                f"tvmrt_{log}softmax_row_f32({x} + p * {x_stride}, {y} + p * {y_stride}, {count});"
            )


@lowers("qsoftmax")
class QSoftmaxLowering(Lowering):
    """Softmax of bytes by a table of exponentials."""

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        return in_place_pair(step, step.read_values[0])

    def emit(self, step: Step, f: FunctionWriter) -> None:
        attrs, shape = self.node.attrs, self.node.output.shape
        powers = f.constant("powers", self.node.inputs[1].data)
        signed = int(self.node.inputs[0].dtype.is_signed)
        _, high = storage_range(self.node.output.dtype)
        shift = MAX_SHIFT - attrs["bits"]
        fields = f"{powers}, {attrs['factor']}, {shift}, {signed}, {attrs['y_zero']}, {high}"
        f.include("board/softmax_i8.h")
        f.line(f"const tvmrt_softmax_i8 layer = {{{fields}}};")
        sizes = f"{prod(shape[:-1])}, {shape[-1]}"
        f.line(f"tvmrt_softmax_i8_rows(&layer, {f.read(0)}, {f.write()}, {sizes});")
