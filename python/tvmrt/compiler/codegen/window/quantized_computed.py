"""Lowering of integer matmul with two computed operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmrt.compiler.ir import Strided, Value
from tvmrt.compiler.ir.program import MATRIX, ROWS, Step
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import SymInt

from ..c.formatting import plus
from ..c.initializers import print_static, print_struct, range_initializer
from ..c.writer import FunctionWriter
from ..kernel_features import BOARD_KERNELS
from ..loops.loop_nest import index, merge_loops, open_loops
from ..lowering import Lowering, ResultLayout, Scratch, lowers
from .boards.computed_matmul import BoardMatMul, PrintProduct, board_matmul
from .choose_i8 import choose_variant, with_tile
from .layer_i8 import LayerI8
from .packing_i8 import pad_channels
from .plan_i8 import PlanI8, make_plan
from .print_i8 import print_call_data, print_plan, tile_headers
from .quantized import row_step, threads_for
from .tiles_i8 import FORMATS, define_weight_format


def packing_bytes(plan: PlanI8) -> tuple[int, int]:
    """Return the scratch bytes for packing a right operand: (per-column values, packed operand)."""
    packed = plan.padded * plan.variant.channel_bytes
    return round_up(plan.padded * 4, 64), round_up(packed, 64)


@lowers("qmatmul_computed")
class QMatMulComputedLowering(Lowering):
    """Matmul of two computed operands; the right one is packed for each matrix of a batch."""

    in_memory = (0, 1)

    def demand(self, value: Value) -> str:
        return MATRIX if value is self.node.inputs[1] else ROWS

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return ResultLayout(demand=ROWS)

    def macs(self) -> int:
        return self.node.output.type.size * self.node.inputs[0].shape[-1]

    def _factors(self, step: Step) -> tuple[Strided, Strided]:
        """Return the layouts of both operands, with batch dimensions expanded."""
        a, b = (step.reads[step.read_values.index(v)].at for v in self.node.inputs[:2])
        batch = step.writes[0].at.shape[:-2]
        return a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:]))

    def scratch(self, step: Step) -> Scratch:
        board = self._board(step)
        if board is not None:
            return board.scratch
        plan = self._plan(self._factors(step)[0], step.writes[0].at)
        table, packed = packing_bytes(plan)
        return Scratch(kernel_blocks=(2 * table + packed, plan.scratch.total))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        a, b = self._factors(step)
        y = step.writes[0].at
        batch = y.shape[:-2]
        rank = len(batch)
        strides = [at.strides[:rank] for at in (a, b, y)]
        loops = merge_loops(batch, range(rank), strides)
        define_weight_format(f, self.target)
        board = self._board(step)
        print_product = self._print_tiles(f, self._plan(a, y)) if board is None else board.print(f)
        names = [f.fresh(f"i{k}") for k in range(len(loops))]
        with open_loops(f, loops, names):
            at = [index(loops, names, k) for k in range(3)]
            x, w = (f.read(step.read_values.index(v)) for v in self.node.inputs[:2])
            print_product(plus(x, at[0]), plus(w, at[1]), b.strides[-2:], plus(f.write(), at[2]))

    def _board(self, step: Step) -> BoardMatMul | None:
        """Return the product for the kernels of boards; None if they do not compute it."""
        if not BOARD_KERNELS.of(self.target):
            return None
        layer = self._layer(self._factors(step)[0], step.writes[0].at)
        return board_matmul(layer, self.node, self._scale(layer), self.target)

    def _layer(self, a: Strided, y: Strided) -> LayerI8:
        (rows, depth), columns = a.shape[-2:], y.shape[-1]
        return LayerI8.matmul(
            rows,
            depth,
            columns,
            lda=row_step(a, depth),
            ldc=row_step(y, columns),
            x_signed=self.node.inputs[0].dtype.is_signed,
            x_zero=self.node.attrs["x_zero"],
            threads=threads_for(self.target, rows * depth * columns),
        )

    def _plan(self, a: Strided, y: Strided) -> PlanI8:
        layer = self._layer(a, y)
        fmt = FORMATS[self.target.int8_tiles or self.target.int8]
        is_int8 = self.node.attrs["to"] not in ("int32", "float32")
        requantizes = is_int8 and self._accumulator_fits(layer)
        choice = with_tile(choose_variant(layer, fmt))
        return make_plan(replace(choice, shifted=True, requantizes=requantizes))

    def _scale(self, layer: LayerI8) -> np.ndarray:
        return np.broadcast_to(self.node.inputs[2].data.reshape(-1), (layer.out_c,))

    def _accumulator_fits(self, layer: LayerI8) -> bool:
        """Return whether the scaled sums fit into 32 bits."""
        largest = layer.in_c * 255.0 * 255.0 * float(self._scale(layer).max())
        return not largest >= 2.0**31

    def _finish(self, f: FunctionWriter, plan: PlanI8) -> dict[str, str]:
        """Return the epilogue as members of the call's data."""
        attrs, to, scale = self.node.attrs, self.node.attrs["to"], self._scale(plan.layer)
        if to == "int32":
            return {"epilogue": "tvmrt_i8_rows_int32", "ctx": "NULL", "y_bytes": "4"}
        if to == "float32":
            context = f.constant("scale", scale)
            return {"epilogue": "tvmrt_i8_rows_float", "ctx": context, "y_bytes": "4"}
        text = range_initializer(attrs)
        if not plan.requantizes:
            context = f"{{{f.constant('scale', scale)}, {text}}}"
            f.line(f"const tvmrt_i8_requantize_ctx finish = {context};")
            return {"epilogue": "tvmrt_i8_rows_requantize", "ctx": "&finish", "y_bytes": "1"}
        bounds = print_static(f, "tvmrt_i8_range", "range", text)
        padded = f.constant("scale", pad_channels(plan, scale))
        return {"scale": padded, "range": f"&{bounds}", "y_bytes": "1"}

    def _print_tiles(self, f: FunctionWriter, plan: PlanI8) -> PrintProduct:
        """Print the layer for the tiles of hosts; return what prints a product."""
        f.include("matmul_i8.h", "tile/requantize.h", *tile_headers(plan))
        finish, (table, packed) = self._finish(f, plan), packing_bytes(plan)
        layer, node = print_plan(f, plan), self.node
        signed, zero = int(node.inputs[1].dtype.is_signed), node.attrs["w_zero"]

        def print_product(x: str, w: str, strides: tuple[SymInt, ...], y: str) -> None:
            right = [
                f".b = {w}",
                f".k_stride = {strides[0]}, .n_stride = {strides[1]}",
                f".b_signed = {signed}, .b_zero = {zero}",
                f".table = {table}, .packed = {packed}",
            ]
            print_struct(f, "const tvmrt_matmul_i8_b right", right)
            print_call_data(f, {"x": x, "y": y, **finish})
            call = f"tvmrt_matmul_i8_dynamic(&{layer}, &data, &right, {node.attrs['x_zero']})"
            f.line(f"if ({call} != 0) return -1;")

        return print_product
