"""Lowering of matmul in float32."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvmrt.compiler.ir import Strided, Value, dense
from tvmrt.compiler.ir.program import MATRIX, ROWS, Access, Step, contiguous_axis, satisfies
from tvmrt.compiler.ir.reduced_precision import is_reduced
from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import SymInt, is_unbounded, upper_bound

from ...ir.program import ANY
from ..c.initializers import print_layer, print_tiles
from ..c.writer import FunctionWriter
from ..geometry import Window
from ..kernel_features import BOARD_KERNELS, SHARED_TAIL
from ..loops.loop_nest import Loop, index, merge_loops, open_loops
from ..lowering import Lowering, ResultLayout, Scratch, in_place_pair, lowers
from . import packing_f32 as packing
from .boards.float32 import KERNELS as BOARDS
from .boards.layer_f32 import MicroLayerF32
from .boards.shape import MicroShape
from .conv import conv_kernel, print_board, print_data_f32, tile_kind, weights_text
from .epilogue import emit_row_epilogue, split_epilogue
from .epilogue_operands import fits_rows
from .layer_f32 import LayerF32
from .tile_kinds import TileKind
from .tiles_f32 import Tiles, choose_tiles

BF16_BYTES = 64 << 10  # of rows that are rounded at a time


@lowers("matmul")
class MatMulLowering(Lowering):
    """Matmul with a packed constant right operand, or one that is read in place: a computed one,
    transposed or not, or that of a region's fallback, which the library stores for the device."""

    in_memory = ()

    takes_epilogue = True

    @property
    def epilogue(self):
        return split_epilogue(self.node.output, self.group.after)

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(range(self.node.output.type.rank))

    def macs(self) -> int:
        return self.node.output.type.size * self.node.inputs[0].shape[-1]

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        if self.group.after[-1].output.dtype != self.node.output.dtype:
            return False
        epilogue = self.epilogue
        residual = epilogue.residual
        if residual is not None and not satisfies(accesses[residual].at, ROWS):
            return False
        # the kernel's rows cover two batch axes; further axes become loops around it
        shape = self.node.output.shape
        return not epilogue.row_nodes or (
            sum(n != 1 for n in shape[:-2]) <= 2
            and fits_rows(epilogue.row_nodes, shape, self.order, accesses)
        )

    def demand(self, value: Value) -> str:
        if value is self.node.inputs[1] and value is not self.node.inputs[0]:
            return MATRIX
        if value in (self.node.inputs[0], self.epilogue.residual):
            return ROWS
        return ANY

    def result_layout(self, index: int, accesses: dict[Value, Access]) -> ResultLayout:
        return ResultLayout(demand=ROWS)

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        residual = self.epilogue.residual
        if residual is None or residual in self.node.inputs:
            return []
        return in_place_pair(step, residual)

    def scratch(self, step: Step) -> Scratch:
        return Scratch(kernel_blocks=MatMulPlan(self, step).kernel_blocks())

    def emit(self, step: Step, f: FunctionWriter) -> None:
        MatMulPrinter(self, step, f).emit()

    def panels(self, step: Step) -> packing.PackedMatrix | None:
        """Return the constant right operand if the library stores it as one float32 matrix, else
        None."""
        return MatMulPlan(self, step).panels()


class MatMulPlan:
    """One matmul: its loops and its kernel; operands are numbered a, b, y, residual."""

    A, B, Y, RESIDUAL = range(4)

    def __init__(self, lowering: MatMulLowering, step: Step) -> None:
        self.node = lowering.node
        self.order = lowering.order
        self.target = lowering.target
        self.epilogue = lowering.epilogue
        self.step = step
        b = self.node.inputs[1]
        self.is_packed = b.is_constant and not b.keeps_layout
        self.m, self.n = self.node.output.shape[-2:]
        self.k = self.node.inputs[0].shape[-1]
        self.b_layout = self._b_layout()
        self.row, self.batches = self._loops()

    def kernel_blocks(self) -> tuple[int, ...]:
        """Return the kernel's scratch bytes: a computed right operand is packed by panels."""
        layer = self._board_layer()
        if layer is not None:
            return (BOARDS.choose(layer, self.target.board).scratch(layer).bytes,)
        if is_unbounded(self.depth, self.m):
            return (self.depth * self.tiles().block * 4,)
        panel = 0 if self.b_layout is None else upper_bound(self.depth) * self.tiles().block
        if not self.reduced:
            return (panel * 4,) if panel else ()
        row = 2 * upper_bound(self.depth)  # at most two parts per element
        rows = max(2 * self.tiles().widths[0], BF16_BYTES // (row * 4))
        return ((panel + (min(rows, upper_bound(self.m)) + self.kind.overread_pixels) * row) * 4,)

    @property
    def reduced(self) -> bool:
        """Whether operands are rounded to bfloat16."""
        return is_reduced(self.node)

    @property
    def kind(self) -> TileKind:
        return tile_kind(self.node, self.target)

    @property
    def depth(self) -> SymInt:
        """Rows of packed operands: floats, or pairs."""
        return ceil_div(self.k, 2) if self.reduced else self.k

    def _b_layout(self) -> Strided | None:
        """Return the layout of a right operand that is not packed."""
        b, batch = self.node.inputs[1], self.node.output.shape[:-2]
        return None if self.is_packed else self._at(b).expand((*batch, self.k, self.n))

    def _loops(self) -> tuple[Loop, list[Loop]]:
        """Return the loop over rows and the batch loops around it."""
        residual, batch = self.epilogue.residual, self.node.output.shape[:-2]
        a_at = self._at(self.node.inputs[0]).expand((*batch, self.m, self.k))
        r_at = self._at(residual) if residual is not None else None
        rows = len(batch) + 1
        strides = [
            a_at.strides[:rows],
            (*self._b_batch_strides(batch), 0),
            self.step.writes[0].at.strides[:rows],
            r_at.strides[:rows] if r_at else (0,) * rows,
        ]
        loops = merge_loops((*batch, self.m), range(rows), strides)
        if self.m != 1 and loops:
            return loops[-1], loops[:-1]
        # a single row: the batch's loops stay batches
        if len(loops) == 1 and loops[0].strides[self.B] == 0:
            return loops[0], []
        return Loop(1, (self.k, 0, self.n, 0)), loops

    def _b_batch_strides(self, batch) -> tuple[int, ...]:
        """Return the strides by batch axis; packed operands count whole matrices (_print_layer)."""
        if self.b_layout is not None:
            return self.b_layout.strides[: len(batch)]
        b = self.node.inputs[1]
        lead = (1,) * (len(batch) - (b.type.rank - 2))
        own = (*lead, *b.shape[:-2])
        strides, step = [], 1
        for extent in reversed(own):
            strides.append(step if extent != 1 else 0)
            step *= extent
        return tuple(reversed(strides))

    @property
    def is_pointwise_conv(self) -> bool:
        """Whether it is computed as a 1 x 1 convolution, for all rows at once."""
        return self.is_packed and not self.batches

    def tiles(self) -> Tiles:
        """Return the register tiles."""
        machine = self.target if self.is_pointwise_conv else replace(self.target, widest=None)
        sizes = (self.row.extent, self.n, self.depth)
        tiles = choose_tiles(*sizes, machine, kind=self.kind)
        if not SHARED_TAIL.of(self.target) or self.target.fixed_order:
            return tiles
        rows, tiles = self.row.extent, tiles.without_single_row_tail(self.row.extent)
        floats = self.k * self.n if self.is_packed else 0
        return tiles.with_weight_streams(rows, floats, self.target.registers)

    def _board_layer(self) -> MicroLayerF32 | None:
        """Return the layer for microcontroller kernels, or None if they do not support it."""
        b = self.node.inputs[1]
        shape = MicroShape(self._window(), self.k, self.n, False)
        packed = self.is_packed and b.type.rank == 2 and not self.batches
        if not BOARD_KERNELS.of(self.target) or not packed or not shape.is_supported:
            return None
        weights, epilogue = b.data.T.reshape(self.n, self.k, 1, 1), self.epilogue
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        bounds = (epilogue.low, epilogue.high)
        biases = None if bias is None else bias.data
        return MicroLayerF32(shape, weights, biases, *bounds, only_clamps=epilogue.only_clamps)

    def _window(self) -> Window:
        """Return the window of a 1 x 1 convolution whose pixels are the rows."""
        rows = (1, 1, self.row.extent)
        return Window(1, rows, rows, self.row.strides[self.A], self.row.strides[self.Y])

    def panels(self) -> packing.PackedMatrix | None:
        """See :meth:`MatMulLowering.panels`."""
        b, layer = self.node.inputs[1], self._board_layer()
        if not self.is_packed or b.type.rank != 2 or self.reduced:
            return None
        if layer is None:
            tiles = self.tiles()
            return packing.PackedMatrix(packing.pack_matmul(b.data, tiles), self.k, tiles.packed)
        kernel = BOARDS.choose(layer, self.target.board)
        if not kernel.panel:
            return None
        return packing.PackedMatrix(kernel.pack(layer).weights, self.k, kernel.panel)

    def _at(self, value: Value) -> Strided:
        if value.is_constant:
            return dense(value.shape)
        return self.step.reads[self.step.read_values.index(value)].at


class MatMulPrinter(MatMulPlan):
    """Printer of one matmul. ``outer``: the step whose function calls it, if it is another one."""

    def __init__(
        self, lowering: MatMulLowering, step: Step, f: FunctionWriter, outer: Step | None = None
    ) -> None:
        super().__init__(lowering, step)
        self.f = f
        self.outer = outer or step

    def emit(self) -> None:
        layer = self._board_layer()
        if layer is not None:
            self._emit_board(layer)
            return
        tiles = self.tiles()
        data = self._data(tiles)
        if self.is_pointwise_conv:
            self._print_conv(tiles, data)
            return
        outer, inner = self.batches[:-2], self.batches[-2:]
        self._print_calls(outer, data, *self._print_layer(tiles, inner, tiles.block))

    def print_job(self, inner: int, name: str) -> str:
        """Print the matmul as a part of step ``outer``, which has operand number ``inner``, a or y,
        in memory of its own. Return the initialiser of its ``tvmrt_matmul_f32_job``; ``name`` is
        the stem of its variables."""
        f, tiles = self.f, self.tiles()
        batches = [  # the operand stays at its first matrix
            Loop(loop.extent, tuple(s if i != inner else 0 for i, s in enumerate(loop.strides)))
            for loop in self.batches
        ]
        names = [f.fresh(f"{name}_{part}") for part in ("layer", "tiles", "data")]
        layer, registers = self._print_layer(tiles, batches, tiles.block, *names[:2])
        print_data_f32(f, self._data(tiles, inner), names[2])
        return f"{{&{layer}, &{registers}, &{names[2]}}}"

    def _data(self, tiles: Tiles, inner: int | None = None) -> dict[str, str]:
        """Print the row function; return the pointers, NULL for the operand ``inner``."""
        f, residual = self.f, self.epilogue.residual
        a, b = self.node.inputs[:2]
        data = {
            "x": "NULL" if inner == self.A else self._pointer(a, "a"),
            "w": self._b_pointer(b, tiles),
            "bias": self._bias(tiles),
            "residual": self._pointer(residual, "residual") if residual is not None else "NULL",
            "y": "NULL" if inner == self.Y else f.write(),
        }
        y_stride, shape = self.row.strides[self.Y], self.node.output.shape
        data["epilogue"], data["ctx"] = emit_row_epilogue(
            f, self.outer, self.epilogue, y_stride, shape, self.order
        )
        return data

    def _emit_board(self, layer: MicroLayerF32) -> None:
        """Print a call of the microcontroller kernel."""
        x, other = self._pointer(self.node.inputs[0], "a"), self.epilogue.residual
        residual = "NULL" if other is None else self._pointer(other, "residual")
        strided = (residual, self.row.strides[self.RESIDUAL])
        kernel, details = BOARDS.choose(layer, self.target.board), (x, strided, self.order)
        address = print_board(self.f, self.step, self.epilogue, layer, kernel, *details)
        self.f.result(kernel.call(layer, address))

    def _pointer(self, value: Value, name: str) -> str:
        if value.is_constant:
            return self.f.constant(name, value.data)
        return self.f.name_read(self.outer.read_values.index(value), name)

    def _b_pointer(self, b: Value, tiles) -> str:
        if not self.is_packed:
            return self._pointer(b, "b")
        weights = packing.to_bf16_pairs(b.data, -2) if self.reduced else b.data
        return weights_text(self.f, packing.pack_matmul(weights, tiles))

    def _bias(self, tiles) -> str:
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        if bias is None:
            return "NULL"
        return self.f.constant("bias", packing.pad_channels(bias.data, tiles.packed))

    def _print_conv(self, tiles, data: dict[str, str]) -> None:
        """Print a matmul with constant weights as a 1 x 1 convolution, which keeps weights
        cached."""
        f, row = self.f, self.row
        layer = LayerF32.conv(self._window(), self.k, self.n, 1, self.kind).as_matmul()
        members = layer.members(row.strides[self.RESIDUAL], *self.epilogue.bounds())
        kernel = conv_kernel(self.kind)
        f.include(f"{kernel}.h")
        struct = print_layer(f, "tvmrt_layer_f32", {**members, **tiles.members()})
        registers = print_tiles(f, tiles)
        print_data_f32(f, data)
        f.result(f"tvmrt_{kernel}(&{struct}, &{registers}, &data)")

    def _print_layer(
        self, tiles, batches, block: int, name: str = "layer", tiles_name: str = "tiles"
    ) -> tuple[str, str]:
        """Print the layer and its tiles; return their lvalues."""
        f, row, b_layout = self.f, self.row, self.b_layout
        padded = [Loop(1, (0, 0, 0, 0))] * (2 - len(batches)) + list(batches)
        scale = 1
        order, b_stride = "TVMRT_B_PACKED", 0
        if self.is_packed:
            scale = round_up(self.n, block) * self.depth
        elif contiguous_axis(b_layout, -1):
            order, b_stride = "TVMRT_B_ROWS", b_layout.strides[-2]
        else:
            order, b_stride = "TVMRT_B_COLUMNS", b_layout.strides[-1]

        def by_batch(operand: int, factor: int = 1) -> tuple[SymInt, ...]:
            return tuple(loop.strides[operand] * factor for loop in padded)

        low, high = self.epilogue.bounds()
        self.scale = scale
        f.include(f"matmul_{self.kind.driver}.h")
        if self.kind.words_per_pair:
            f.macro("TVMRT_MATMUL_BF16_BYTES", str(BF16_BYTES))
        layer = print_layer(
            f,
            "tvmrt_matmul_f32_layer",
            {
                "batch": tuple(loop.extent for loop in padded),
                "m": row.extent,
                "n": self.n,
                "k": self.k,
                "a_batch": by_batch(self.A),
                "b_batch": by_batch(self.B, scale),
                "y_batch": by_batch(self.Y),
                "residual_batch": by_batch(self.RESIDUAL),
                "a_stride": row.strides[self.A],
                "b_stride": b_stride,
                "y_stride": row.strides[self.Y],
                "residual_stride": row.strides[self.RESIDUAL],
                "lo": low,
                "hi": high,
                "b_order": order,
            },
            name,
            work=prod(loop.extent for loop in padded) * row.extent * self.n * self.k,
        )
        return layer, print_tiles(f, tiles, tiles_name)

    def _print_calls(self, outer, data: dict[str, str], layer: str, tiles: str) -> None:
        f = self.f
        variables = [f.fresh(f"i{k}") for k in range(len(outer))]
        with open_loops(f, outer, variables):

            def element_pointer(key: str, operand: int) -> str:
                if data[key] == "NULL" or not outer:
                    return data[key]
                scale = self.scale if key == "w" else 1
                scaled = [
                    Loop(loop.extent, tuple(s * scale for s in loop.strides)) for loop in outer
                ]
                return f"{data[key]} + {index(scaled, variables, operand)}"

            operands = {"x": self.A, "w": self.B, "residual": self.RESIDUAL, "y": self.Y}
            pointers = {key: element_pointer(key, at) for key, at in operands.items()}
            print_data_f32(f, {**data, **pointers})
            product = f"tvmrt_matmul_{self.kind.driver}(&{layer}, &{tiles}, &data)"
            if outer:
                f.line(f"if ({product} != 0) return -1;")
            else:
                f.result(product)
