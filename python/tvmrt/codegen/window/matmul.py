"""Matrix products in float32."""

from __future__ import annotations

from contextlib import ExitStack

from tvmrt.ir import Strided, Value, dense
from tvmrt.ir.program import MATRIX, ROWS, Access, Step, contiguous_axis, satisfies
from tvmrt.ir.rounding import round_up

from ..c.initializers import print_struct, print_tiles
from ..c.text import braces, call
from ..c.writer import FunctionWriter
from ..loops.nest import Loop, index, merge_loops
from ..lowering import ANY, Lowering, lowers, same_place
from . import packing_f32 as packing
from .boards import float32 as micro
from .boards.shape import MicroShape
from .conv import emit_micro, print_data_f32
from .epilogue import emit_row_epilogue, sort_epilogue
from .layer_f32 import LayerF32
from .plan import Window
from .row_operands import fits_rows


@lowers("matmul")
class MatMulLowering(Lowering):
    """Constant right factors are packed; computed ones are read as they lie, transposed or not."""

    in_memory = ()

    takes_epilogue = True

    @property
    def epilogue(self):
        return sort_epilogue(self.node.output, self.group.after)

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
        # the kernel counts rows over two batch axes; more are loops around it
        shape = self.node.output.shape
        return not epilogue.rest or (
            sum(n > 1 for n in shape[:-2]) <= 2
            and fits_rows(epilogue.rest, shape, self.order, accesses)
        )

    def demand(self, value: Value) -> str:
        if value is self.node.inputs[1] and value is not self.node.inputs[0]:
            return MATRIX
        if value in (self.node.inputs[0], self.epilogue.residual):
            return ROWS
        return ANY

    def result_demand(self, index: int) -> str:
        return ROWS

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        residual = self.epilogue.residual
        if residual is None or residual in self.node.inputs:
            return []
        i = step.read_values.index(residual)
        return [(i, 0)] if same_place(step.reads[i].at, step.writes[0].at) else []

    def emit(self, step: Step, f: FunctionWriter) -> None:
        _MatMulPrinter(self, step, f).emit()


class _MatMulPrinter:
    """Prints one product; operands are numbered a, b, y, residual."""

    A, B, Y, RESIDUAL = range(4)

    def __init__(self, lowering: MatMulLowering, step: Step, f: FunctionWriter) -> None:
        self.node = lowering.node
        self.order = lowering.order
        self.target = lowering.target
        self.epilogue = lowering.epilogue
        self.step = step
        self.f = f
        self.m, self.n = self.node.output.shape[-2:]
        self.k = self.node.inputs[0].shape[-1]

    def emit(self) -> None:
        f, y = self.f, self.step.writes[0].at
        a, b = self.node.inputs[:2]
        batch = self.node.output.shape[:-2]
        a_at = self._at(a).expand((*batch, self.m, self.k))
        b_at = None if b.is_constant else self._at(b).expand((*batch, self.k, self.n))
        residual = self.epilogue.residual
        r_at = self._at(residual) if residual is not None else None
        rows = len(batch) + 1
        strides = [
            a_at.strides[:rows],
            (*self._b_batch_strides(b, b_at, batch), 0),
            y.strides[:rows],
            r_at.strides[:rows] if r_at else (0,) * rows,
        ]
        shape = (*batch, self.m)
        loops = merge_loops(shape, range(rows), strides)
        if self.m == 1 or not loops:
            # a single row: the batch's loops stay batches
            row = Loop(1, (self.k, 0, self.n, 0))
            if len(loops) == 1 and loops[0].strides[self.B] == 0:
                row, loops = loops[0], []
        else:
            row, loops = loops[-1], loops[:-1]
        total_rows = row.extent
        if self._emit_micro(row, loops):
            return
        tiles = packing.choose_tiles(total_rows, self.n, self.k, self.target)
        names = {
            "a": self._pointer(a, "a"),
            "b": self._b_pointer(b, tiles),
            "bias": self._bias(tiles),
            "residual": self._pointer(residual, "residual") if residual is not None else "NULL",
            "y": f.write(),
        }
        row_function, context = emit_row_epilogue(
            f, self.step, self.epilogue, row.strides[self.Y], self.node.output.shape, self.order
        )
        if b.is_constant and not loops:
            self._print_conv(tiles, row, {**names, "epilogue": row_function, "ctx": context})
            return
        outer, inner = loops[:-2], loops[-2:]
        self._print_layer(tiles, row, inner, b_at, b, tiles.block)
        self._print_calls(outer, names, row_function, context)

    def _emit_micro(self, row: Loop, batches: list[Loop]) -> bool:
        """Print a call of the microcontrollers' kernel, where that can do the product."""
        a, b = self.node.inputs[:2]
        shape = MicroShape(
            1, (1, row.extent), (1, row.extent), (1, 1), (1, 1), (1, 1), (0, 0), self.k, self.n,
            row.strides[self.A], row.strides[self.Y], False,
        )  # fmt: skip
        packed = b.is_constant and b.type.rank == 2 and not batches
        if self.target.board is None or not packed or not shape.fits:
            return False
        if self._emit_dense(row):
            return True
        small, residual = micro.MicroLayer(shape, False), self.epilogue.residual
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        weights = b.data.T.reshape(self.n, self.k, 1, 1)
        bias_data = small.pad_channels(None if bias is None else bias.data)
        operands = {
            "x": self._pointer(a, "a"),
            "weights": self.f.constant("weights", small.pack(weights)),
            "bias": self.f.constant("bias", bias_data),
            "residual": "NULL" if residual is None else self._pointer(residual, "residual"),
        }
        stride = row.strides[self.RESIDUAL]
        emit_micro(self.f, self.step, self.epilogue, small, self.order, operands, stride)
        return True

    def _emit_dense(self, row: Loop) -> bool:
        """Print a call of the kernel with the least code, where the product is small."""
        epilogue = self.epilogue
        bounds = (epilogue.low, epilogue.high)
        plain = epilogue.residual is None and not epilogue.rest
        few = row.extent == 1 and 0 < self.k * self.n <= micro.SMALL_MACS
        if not (plain and few and bounds in ((0, float("inf")), (-float("inf"), float("inf")))):
            return False
        a, b = self.node.inputs[:2]
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        packed = micro.pack_dense(b.data, None if bias is None else bias.data)
        self.f.include("board/dense_f32.h")
        weights = self.f.constant("weights", packed)
        layer = f"TVMRT_MICRO_DENSE({self.k}, {self.n}, {int(bounds[0] == 0)})"
        operands = f"{self._pointer(a, 'a')}, {self.f.write()}, {weights}"
        self.f.line(f"return tvmrt_micro_dense_f32({operands}, {layer});")
        return True

    def _at(self, value: Value) -> Strided:
        if value.is_constant:
            return dense(value.shape)
        return self.step.reads[self.step.read_values.index(value)].at

    def _pointer(self, value: Value, name: str) -> str:
        if value.is_constant:
            return self.f.constant(name, value.data)
        return self.f.name_read(self.step.read_values.index(value), name)

    def _b_pointer(self, b: Value, tiles) -> str:
        if not b.is_constant:
            return self._pointer(b, "b")
        return self.f.constant("weights", packing.pack_matmul(b.data, tiles))

    def _bias(self, tiles) -> str:
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        if bias is None:
            return "NULL"
        return self.f.constant("bias", packing.pad_channels(bias.data, tiles.block))

    def _b_batch_strides(self, b: Value, b_at: Strided | None, batch) -> tuple[int, ...]:
        """Strides by batch axis; of packed factors in whole packed matrices, see _print_layer."""
        if b_at is not None:
            return b_at.strides[: len(batch)]
        lead = (1,) * (len(batch) - (b.type.rank - 2))
        own = (*lead, *b.shape[:-2])
        strides, step = [], 1
        for extent in reversed(own):
            strides.append(step if extent > 1 else 0)
            step *= extent
        return tuple(reversed(strides))

    def _print_conv(self, tiles, row: Loop, operands: dict[str, str]) -> None:
        """One product with constant weights is a 1 x 1 convolution, whose loops keep the weights
        in cache."""
        f, rows = self.f, (1, 1, row.extent)
        window = Window(1, rows, rows, row.strides[self.A], row.strides[self.Y])
        layer = LayerF32.conv(window, self.k, self.n, 1)
        members = layer.members(row.strides[self.RESIDUAL], *self.epilogue.bounds())
        f.include("conv_f32.h")
        print_struct(f, "static const tvmrt_layer_f32 layer", members)
        print_tiles(f, tiles)
        print_data_f32(f, {"x": operands.pop("a"), "w": operands.pop("b"), **operands})
        f.line("return tvmrt_conv_f32(&layer, &tiles, &data);")

    def _print_layer(self, tiles, row: Loop, batches, b_at, b: Value, block: int) -> None:
        f = self.f
        padded = [Loop(1, (0, 0, 0, 0))] * (2 - len(batches)) + list(batches)
        scale = 1
        order, b_stride = "TVMRT_B_PACKED", 0
        if b.is_constant:
            scale = round_up(self.n, block) * self.k
        elif contiguous_axis(b_at, -1):
            order, b_stride = "TVMRT_B_ROWS", b_at.strides[-2]
        else:
            order, b_stride = "TVMRT_B_COLUMNS", b_at.strides[-1]

        def by_batch(operand: int, factor: int = 1) -> str:
            return braces([loop.strides[operand] * factor for loop in padded])

        low, high = self.epilogue.bounds()
        self.scale = scale
        f.include("matmul_f32.h")
        if order != "TVMRT_B_PACKED":
            f.kernel_scratch(self.k * block * 4)
        print_struct(
            f,
            "static const tvmrt_matmul_f32_layer layer",
            {
                "batch": braces([loop.extent for loop in padded]),
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
        )
        print_tiles(f, tiles)

    def _print_calls(self, outer, names, row_function: str, context: str) -> None:
        f = self.f
        variables = [f.fresh(f"i{k}") for k in range(len(outer))]
        with ExitStack() as stack:
            for loop, name in zip(outer, variables):
                stack.enter_context(
                    f.block(f"for (int {name} = 0; {name} < {loop.extent}; ++{name})")
                )

            def place(key: str, operand: int, scale: int = 1) -> str:
                if names[key] == "NULL" or not outer:
                    return names[key]
                scaled = [
                    Loop(loop.extent, tuple(s * scale for s in loop.strides)) for loop in outer
                ]
                return f"{names[key]} + {index(scaled, variables, operand)}"

            product = call(
                "tvmrt_matmul_f32", "&layer", "&tiles", place("a", self.A),
                place("b", self.B, self.scale), names["bias"],
                place("residual", self.RESIDUAL), place("y", self.Y), row_function, context,
            )  # fmt: skip
            if outer:
                f.line(f"if ({product} != 0) return -1;")
        f.line("return 0;" if outer else f"return {product};")
