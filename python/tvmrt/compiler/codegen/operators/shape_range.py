"""Operators that store extents and ranges."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Step

from ..c.writer import FunctionWriter
from ..lowering import Lowering, lowers


@lowers("extents")
class ExtentsLowering(Lowering):
    """Store of extents, one per element."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        for i, value in enumerate(self.node.attrs["values"]):
            f.line(f"{f.write()}[{i}] = {value};")


@lowers("iota")
class IotaLowering(Lowering):
    """Loop that stores an arithmetic sequence."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        attrs = self.node.attrs
        i = f.fresh("i")
        value = i if attrs["step"] == 1 else f"(int64_t){i} * {attrs['step']}"
        if attrs["start"] != 0:
            value = f"(int64_t){attrs['start']} + {value}"
        with f.loop(i, attrs["count"]):
            f.line(f"{f.write()}[{i}] = {value};")
