"""Matmul with block-quantised weights (MatMulNBits)."""

from __future__ import annotations

from dataclasses import replace

from tvmrt.compiler.ir.extent import lower_bound, upper_bound
from tvmrt.compiler.ir.program import Step

from ..c.formatting import call
from ..c.initializers import float_literal, print_layer, print_tiles
from ..c.inputs import input_pointers
from ..c.writer import FunctionWriter
from ..lowering import Lowering, Scratch, lowers
from ..window import packing_f32 as packing

PANEL_ROWS = 16  # minimum rows to widen a weight panel once for all rows: TVMRT_PANEL_ROWS


@lowers("matmul_blocks")
class MatMulNBitsLowering(Lowering):
    """Matmul of dense rows with weights as stored. On hosts, many rows are multiplied with weights
    that are widened one panel at a time."""

    def macs(self) -> int:
        rows, columns = self.node.output.shape
        return rows * columns * self.node.inputs[0].shape[1]

    def _tiles(self) -> packing.Tiles | None:
        """Return the register tiles if there are enough rows for widened panels, else None."""
        rows, columns = self.node.output.shape
        if not self.target.hosted or self.target.lanes < 4 or upper_bound(rows) < PANEL_ROWS:
            return None
        # panels are packed at run time, so their order does not depend on other ISA levels
        alone = replace(self.target, widest=None)
        return packing.choose_tiles(rows, columns, self.node.inputs[0].shape[1], alone)

    def scratch(self, step: Step) -> Scratch:
        tiles = self._tiles()
        panel = () if tiles is None else (self.node.inputs[0].shape[1] * tiles.block * 4,)
        return Scratch(kernel_blocks=panel)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        (rows, columns), attrs = self.node.output.shape, self.node.attrs
        f.include("op/matmul_nbits.h")
        if attrs["bits"] == 4:
            f.target_fields.add("digits")
        print_layer(
            f,
            "tvmrt_matmul_nbits_layer",
            {
                "m": rows,
                "n": columns,
                "k": self.node.inputs[0].shape[1],
                "block": attrs["block"],
                "bits": attrs["bits"],
                "point": float_literal(float(1 << (attrs["bits"] - 1))),
            },
        )
        constants = input_pointers(f, "w", "scales", "points", first=1)
        passed = ("&layer", f.read(0), *constants, f.write())
        tiles = self._tiles()
        if tiles is not None:
            f.include("op/matmul_nbits_panels.h")
            print_tiles(f, tiles)
            panels = call("tvmrt_matmul_panels_f32", passed[0], "&tiles", *passed[1:])
            if lower_bound(rows) >= PANEL_ROWS:
                f.result(panels)
                return
            f.line(f"if (layer.m >= TVMRT_PANEL_ROWS) return {panels};")
        f.result(call("tvmrt_matmul_nbits_f32", *passed))
