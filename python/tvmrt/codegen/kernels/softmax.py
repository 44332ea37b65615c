"""Softmax along one axis."""

from __future__ import annotations

from tvmrt.ir import Value
from tvmrt.ir.program import Step

from ..lowering import DENSE, Lowering, lowers
from ..writer import FunctionWriter


@lowers("softmax")
class SoftmaxLowering(Lowering):
    """Three passes over each row: the largest element, the sum of exponentials, the quotient."""

    def demand(self, value: Value) -> str:
        return DENSE

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        return [(0, 0)]

    def emit(self, step: Step, f: FunctionWriter) -> None:
        from math import prod

        shape, axis = self.node.output.shape, self.node.attrs["axis"]
        outer, count, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
        log = "log_" if self.node.attrs.get("log") else ""
        f.include("softmax.h")
        f.line(
            f"tvmrt_{log}softmax_f32({f.read(0)}, {f.write()}, {outer}, {count}, {inner});"
        )
        f.line("return 0;")
