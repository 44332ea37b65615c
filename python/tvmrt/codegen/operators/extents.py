"""Extents as numbers in memory."""

from __future__ import annotations

from tvmrt.ir.program import Step

from ..c.writer import FunctionWriter
from ..lowering import Lowering, lowers


@lowers("extents")
class ExtentsLowering(Lowering):
    """One store an element."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        for i, value in enumerate(self.node.attrs["values"]):
            f.line(f"{f.write()}[{i}] = {value};")
        f.line("return 0;")


@lowers("iota")
class IotaLowering(Lowering):
    """A loop."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        attrs = self.node.attrs
        i = f.fresh("i")
        with f.block(f"for (int {i} = 0; {i} < {attrs['count']}; ++{i})"):
            f.line(
                f"{f.write()}[{i}] = (int64_t){attrs['start']} + (int64_t){i} * {attrs['step']};"
            )
        f.line("return 0;")
