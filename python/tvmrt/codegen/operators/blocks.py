"""Products with weights of few bits."""

from __future__ import annotations

from tvmrt.ir.program import Step

from ..c.initializers import number, print_layer
from ..c.text import call
from ..c.writer import FunctionWriter
from ..lowering import Lowering, lowers


@lowers("matmul_blocks")
class MatMulBlocksLowering(Lowering):
    """Rows without gaps; weights as the operator has them."""

    def macs(self) -> int:
        rows, columns = self.node.output.shape
        return rows * columns * self.node.inputs[0].shape[1]

    def emit(self, step: Step, f: FunctionWriter) -> None:
        (rows, columns), attrs = self.node.output.shape, self.node.attrs
        f.include("op/matmul_blocks.h")
        print_layer(
            f,
            "tvmrt_matmul_blocks_layer layer",
            {
                "m": rows,
                "n": columns,
                "k": self.node.inputs[0].shape[1],
                "block": attrs["block"],
                "bits": attrs["bits"],
                "point": number(float(1 << (attrs["bits"] - 1))),
            },
        )
        names = enumerate(("w", "scales", "points"), 1)
        constants = [self.pointer(step, f, i, name) for i, name in names]
        passed = ("&layer", f.read(0), *constants, f.write())
        f.line(f"return {call('tvmrt_matmul_blocks_f32', *passed)};")
