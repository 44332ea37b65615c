"""Softmax along one axis."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import CHANNELS_LAST, DENSE, Step, pixel_stride
from tvmrt.compiler.ir.sizes import symbols_of

from ..c.writer import FunctionWriter
from ..lowering import ImageLowering, ResultLayout, in_place_pair, lowers


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
        blocks = f"tvmrt_softmax_f32({task}, {int(bool(log))}"
        f.include("op/softmax.h")
        x, y = f.read(0), f.write()
        if not f.threads and inner == outer == 1:
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
