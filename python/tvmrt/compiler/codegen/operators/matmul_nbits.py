"""Matmul with block-quantised weights (MatMulNBits)."""

from __future__ import annotations

from dataclasses import replace

from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.quantized import PANEL_ROWS, has_int8_weights
from tvmrt.compiler.ir.reduced_precision import BFLOAT16, INT8, PRECISION
from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import lower_bound, upper_bound

from ..c.formatting import call
from ..c.initializers import float_literal, print_layer, print_tiles
from ..c.inputs import input_pointers
from ..c.writer import FunctionWriter
from ..lowering import Lowering, Scratch, lowers
from ..window.tiles_f32 import Tiles, choose_tiles

# constants of op/matmul_nbits_vnni.h
DIGIT_ROWS, DIGIT_MR, DIGIT_COLUMNS, DIGIT_UNIT, DIGIT_CHUNK = 192, 6, 32, 128, 8
DIGITS = {None: 3, BFLOAT16: 2, INT8: 1}  # by precision


@lowers("matmul_blocks")
class MatMulNBitsLowering(Lowering):
    """Matmul of dense rows with weights as stored. On hosts, many rows are multiplied with weights
    that are widened one panel at a time: to bytes for integer instructions, or to floats."""

    def macs(self) -> int:
        rows, columns = self.node.output.shape
        return rows * columns * self.node.inputs[0].shape[1]

    @property
    def _has_panels(self) -> bool:
        return (
            self.target.hosted
            and not self.target.fixed_order
            and self.target.lanes >= 4
            and upper_bound(self.node.output.shape[0]) >= PANEL_ROWS
        )

    def _tiles(self) -> Tiles | None:
        """Return the register tiles if there are enough rows for widened panels, else None."""
        if not self._has_panels:
            return None
        # panels are packed at run time, so their order does not depend on other ISA levels
        alone = replace(self.target, widest=None)
        return choose_tiles(*self.node.output.shape, self.node.inputs[0].shape[1], alone)

    def _digits(self) -> int:
        """Return the bytes per element of x in integer arithmetic; 0: many rows are multiplied in
        float32."""
        if not (self._has_panels and self.target.digits and has_int8_weights(self.node)):
            return 0
        return DIGITS[self.node.attrs.get(PRECISION)]

    def scratch(self, step: Step) -> Scratch:
        rows, depth = upper_bound(self.node.output.shape[0]), self.node.inputs[0].shape[1]
        digits, tiles, block = self._digits(), self._tiles(), self.node.attrs["block"]
        if digits:
            units = max(DIGIT_UNIT, block)
            together = round_up(min(rows, DIGIT_ROWS), DIGIT_MR)
            panel = DIGIT_CHUNK * (units + units // block * 8) * DIGIT_COLUMNS
            rows_bytes = together * ceil_div(depth, block) * (4 + digits * block)
            return Scratch(kernel_blocks=(rows_bytes, panel))
        return Scratch(kernel_blocks=() if tiles is None else (depth * tiles.block * 4,))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        (rows, columns), attrs = self.node.output.shape, self.node.attrs
        f.include("op/matmul_nbits.h")
        if attrs["bits"] == 4:
            f.target_fields.add("digits")
        layer = print_layer(
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
        passed = (f"&{layer}", f.read(0), *constants, f.write())
        if self._has_panels:
            panels = self._print_panels(f, passed)
            if lower_bound(rows) >= PANEL_ROWS:
                f.result(panels)
                return
            f.line(f"if ({layer}.m >= TVMRT_PANEL_ROWS) return {panels};")
        f.result(call("tvmrt_matmul_nbits_f32", *passed))

    def _print_panels(self, f: FunctionWriter, passed: tuple[str, ...]) -> str:
        """Return the call for many rows, given the arguments of the call for few."""
        digits, tiles = self._digits(), self._tiles()
        f.target_fields.add("digits")
        if digits:
            f.include("op/matmul_nbits_vnni.h")
            return call("tvmrt_matmul_digits_f32", passed[0], str(digits), *passed[1:])
        assert tiles is not None, "there are many rows"
        f.include("op/matmul_nbits_panels.h")
        registers = print_tiles(f, tiles)
        return call("tvmrt_matmul_panels_f32", passed[0], f"&{registers}", *passed[1:])
