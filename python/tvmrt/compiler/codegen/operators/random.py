"""Random numbers."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Step

from ..c.formatting import call
from ..c.writer import FunctionWriter, literal
from ..lowering import Lowering, lowers


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
