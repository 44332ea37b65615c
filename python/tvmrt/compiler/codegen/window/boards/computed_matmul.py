"""Products of two computed 8-bit operands on microcontrollers (``kernels/board/matmul_i8.h``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.quantized import INT8_TYPES
from tvmrt.compiler.ir.requantization import rounding_of
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import SymInt, symbols_of

from ...c.initializers import print_struct, print_tensors, share_layer
from ...c.writer import FunctionWriter
from ...lowering import Scratch
from ...target import Target
from ..layer_i8 import LayerI8
from .int8 import KERNELS
from .kernel import MicroKernel, MicroWeights
from .layer_i8 import MicroLayerI8, micro_shape
from .requant_multipliers import RequantTable, requant_table
from .shape import MAX_INT16

# Prints a call for the addresses of x, of the right operand with its strides, and of y.
PrintProduct = Callable[[str, str, "tuple[SymInt, ...]", str], None]
MAX_SUM = (1 << 31) - 1
# Functions of rows that store sums as other types.
_ROWS = {"int32": "tvmrt_i8_rows_int32", "float32": "tvmrt_i8_rows_float"}


@dataclass(frozen=True)
class BoardMatMul:
    """A product as a dense layer whose weights the run packs. ``packed``: weights and biases of
    their size; ``table``: the multipliers of a result of bytes."""

    node: Node
    layer: MicroLayerI8
    kernel: MicroKernel
    packed: MicroWeights
    scale: np.ndarray
    table: RequantTable | None

    @property
    def scratch(self) -> Scratch:
        """Memory of the packed operand, and of the kernel."""
        own = round_up(self.packed.weights.nbytes, 8) + self.packed.bias.nbytes
        return Scratch(kernel_blocks=(own, self.kernel.scratch(self.layer).bytes))

    @property
    def _shift(self) -> int:
        """Weight minus its packed byte, the zero point subtracted."""
        return (0 if self.node.inputs[1].dtype.is_signed else 128) - self.node.attrs["w_zero"]

    def print(self, f: FunctionWriter) -> PrintProduct:
        """Print the layer; return what prints a product."""
        node, packed, table, bounds = self.node, self.packed, self.table, (0, 0, 0, False)
        fields = dict.fromkeys("x weights bias multipliers shift y epilogue ctx".split(), "NULL")
        f.include(self.kernel.header, "board/matmul_i8.h")
        if self._shift:
            shifts = np.full(round_up(self.layer.shape.out_c, 4), self._shift, np.int32)
            fields["shift"] = f.constant("shift", shifts)
        fixed, twice = False, ""
        if table is None:
            f.include("tile/requantize.h")
            fields["epilogue"] = _ROWS[node.attrs["to"]]
            if node.attrs["to"] == "float32":
                fields["ctx"] = f.constant("scale", self.scale)
        else:
            fields["multipliers"], twice = table.print(f), table.twice
            bounds = (*_bounds(node.attrs), node.output.dtype.is_signed)
            fixed = table.fixed_point_only and not self._shift and not f.common.replaceable
        members = self.layer.members(self.kernel, node.output.dtype.itemsize, bounds, fixed, twice)
        address = share_layer(f, "tvmrt_micro_conv_i8", members, False, node.name)
        call = ", ".join((address, "&data", "&right", *self.kernel.extra_arguments(self.layer)))

        def print_product(x: str, w: str, strides: tuple[SymInt, ...], y: str) -> None:
            right = {
                "b": w, "k_stride": strides[0], "n_stride": strides[1],
                "zero": node.attrs["w_zero"],
                "is_signed": int(node.inputs[1].dtype.is_signed),
                "weights": packed.weights.nbytes, "biases": packed.bias.size,
            }  # fmt: skip
            print_struct(f, "const tvmrt_micro_right right", right)
            print_tensors(f, "tvmrt_micro_data", {**fields, "x": x, "y": y})
            f.line(f"if (tvmrt_micro_matmul_i8({call}) != 0) return -1;")

        return print_product


def fits_board(node: Node) -> bool:
    """Return whether boards' kernels can hold the sizes and the sums of a product."""
    (rows, depth), columns = node.inputs[0].shape[-2:], node.output.shape[-1]
    sizes = (rows, depth, columns)
    return (
        not symbols_of(*node.output.shape, depth)
        and 0 < min(sizes) <= max(sizes) <= MAX_INT16
        and depth * 255 * 255 <= MAX_SUM
    )


def requantizes(node: Node, scale: np.ndarray, attrs: dict[str, Any]) -> bool:
    """Return whether boards' kernels compute the bytes of a product; ``attrs``: with their bounds
    and the rounding."""
    is_int8 = attrs["to"] in INT8_TYPES and fits_board(node)
    return is_int8 and requant_table(scale, attrs["rounding"], *_bounds(attrs)) is not None


def _bounds(attrs: dict[str, Any]) -> tuple[int, int, int]:
    return attrs["y_zero"], attrs["low"], attrs["high"]


def board_matmul(
    layer: LayerI8, node: Node, scale: np.ndarray, target: Target
) -> BoardMatMul | None:
    """Return a product for a board's kernels; None if they do not compute it.

    ``scale``: of the sums, a number for each column.
    """
    table = None
    if not fits_board(node):
        return None
    if node.attrs["to"] in INT8_TYPES:
        table = requant_table(scale, rounding_of(node), *_bounds(node.attrs))
    shape = micro_shape(layer, None if table is None else scale)
    if shape is None:
        return None
    whole = MicroLayerI8(shape, layer, np.zeros((layer.out_c, layer.in_c), np.int8))
    kernel = KERNELS.choose(whole, target.board, packs_in_run=True)
    return BoardMatMul(node, whole, kernel, kernel.pack(whole), scale, table)
