"""Operators that compute their results from attributes: extents, ranges, random numbers."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.sizes import is_unbounded

from ..c.formatting import call
from ..c.writer import FunctionWriter, literal
from ..lowering import Lowering, lowers


@lowers("extents")
class ExtentsLowering(Lowering):
    """Store of extents, one per element."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        for i, value in enumerate(self.node.attrs["values"]):
            text = value.text(names=False, wide=True) if is_unbounded(value) else value
            f.line(f"{f.write()}[{i}] = {text};")


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


@lowers("random")
class RandomLowering(Lowering):
    """Random generator call, seeded by a static counter of runs."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/random.h")
        attrs, y = self.node.attrs, self.node.output
        seed, stream = attrs["seed"] & 0xFFFFFFFF, attrs["stream"]
        f.line("static uint32_t runs;")
        f.line(f"const tvmrt_random from = {{{seed}u, {stream}u, tvmrt_random_run(&runs)}};")
        bounds = [literal(attrs[name], y.dtype) for name in ("first", "second")]
        function = f"tvmrt_{attrs['distribution']}_{y.dtype.name}"
        f.line(f"{call(function, '&from', *bounds, y.type.size, f.write())};")
