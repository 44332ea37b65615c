"""Lowering of pooling and unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmrt.compiler.ir import Node, Value
from tvmrt.compiler.ir.program import (
    ANY,
    CHANNELS_LAST,
    DENSE,
    Step,
    channels_last_order,
)
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from ..c.formatting import braces, call
from ..c.initializers import print_layer, triple
from ..c.inputs import input_pointers
from ..c.writer import FunctionWriter, error_location
from ..geometry import DepthFirstLayer, Window
from ..kernel_features import BOARD_KERNELS
from ..lowering import Lowering, ResultLayout, lowers
from ..lowering_protocols import DepthFirstFusable, RowFusable
from .boards import board_lowering
from .conv import ChannelsLastLowering, print_data_f32
from .depth_first_plan import can_tile_depth_first
from .epilogue import Epilogue, emit_row_epilogue

FLOAT_WORK = 3  # multiply-adds in the time to move a float


@lowers("max_pool", "avg_pool", "lp_pool")
class PoolLowering(ChannelsLastLowering, RowFusable, DepthFirstFusable):
    """Float32 pooling over channels-last memory; other element types use plain loops."""

    @property
    def epilogue(self) -> Epilogue:
        # the kernel neither adds nor clamps: the row epilogue does everything
        return Epilogue(self.node.output, row_nodes=list(self.group.after))

    @property
    def vectors(self) -> bool:
        return self.node.output.dtype.name == "float32"

    def accepts_epilogue(self, accesses) -> bool:
        return self.vectors and super().accepts_epilogue(accesses)

    def demand(self, value: Value) -> str:
        if value is not self.node.inputs[0]:
            return ANY
        return CHANNELS_LAST if self.vectors else DENSE

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return super().result_layout(index, accesses) if self.vectors else ResultLayout()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        if not self.vectors:
            emit_indexed_max_pool(self.node, f, "NULL")
            return
        layer, row, context = self._print_layer(step, f)
        self._print_call(step, f, f"&{layer}", row, context)

    def row_layer(self, step: Step) -> RowLayer | None:
        if not self.vectors or not BOARD_KERNELS.of(self.target) or len(step.writes[0].shape) != 4:
            return None
        after = {v for node in self.group.after for v in node.inputs if v is not None}
        if self.node.inputs[0] in after or not all(map(board_lowering.is_per_channel, after)):
            return None
        return board_lowering.pool_row_layer(self._window(step), 4, 4)

    def row_operand(self, step: Step) -> int:
        return step.read_values.index(self.node.inputs[0])

    def depth_first_layer(self, step: Step) -> DepthFirstLayer | None:
        if not self.vectors or BOARD_KERNELS.of(self.target):
            return None
        window = self._window(step)
        pools = window.out[1] > 1 and can_tile_depth_first(window, self.epilogue, step)
        return DepthFirstLayer(window) if pools else None

    def depth_first_width(self, step: Step) -> int:
        return 1  # of a layer that has rows, which are computed whole

    def print_depth_first(self, step: Step, f: FunctionWriter, x, residual, y) -> Sequence[str]:
        names = "layer", "pool", "kernel", "data"
        layer, pool, kernel, data = (f.fresh(name) for name in names)
        window, channels = self._window(step), self.node.output.shape[1]
        f.include("depth_first_pool_f32.h")
        row, context = self._row_epilogue(step, f, window)
        work = window.pixels * channels * window.taps * FLOAT_WORK
        sizes = {"window": window.members(), "out_channels": channels, "work": work, "groups": 1}
        layer = print_layer(f, "tvmrt_layer_f32", sizes, layer)
        pool = print_layer(f, "tvmrt_pool_layer", pool_members(self.node), pool)
        members = braces([f"&{pool}", "tvmrt_pool_f32_some_rows"])
        f.line(f"const tvmrt_depth_first_kernel_f32 {kernel} = {members};")
        print_data_f32(f, {"x": x, "y": y, "epilogue": row, "ctx": context}, data)
        return [f"&{layer}", "NULL", "NULL", f"&{kernel}", f"&{data}"]

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        layer, row, context = self._print_layer(step, f)
        part = board_lowering.print_pool_rows(f, layer)
        self._print_call(step, f, part, row, context)

    def _window(self, step: Step) -> Window:
        return window_of(self.node, self.node.output.shape[0], *self.pixel_strides(step))

    def _print_layer(self, step: Step, f: FunctionWriter) -> tuple[str, str, str]:
        """Print the layer; return it, the epilogue function of finished pixels and its context."""
        window = self._window(step)
        f.include("pool.h")
        epilogue = self._row_epilogue(step, f, window)
        layer = print_layer(f, "tvmrt_pool_layer", pool_members(self.node, window))
        return layer, *epilogue

    def _row_epilogue(self, step: Step, f: FunctionWriter, window: Window) -> tuple[str, str]:
        shape = self.node.output.shape
        order = channels_last_order(len(shape))
        return emit_row_epilogue(f, step, self.epilogue, window.y_stride, shape, order)

    def _print_call(
        self, step: Step, f: FunctionWriter, layer: str, row: str, context: str
    ) -> None:
        x = f.read(step.read_values.index(self.node.inputs[0]))
        f.result(call("tvmrt_pool_f32", layer, x, f.write(), row, context))


def pool_members(node: Node, window: Window | None = None) -> dict[str, object]:
    """Return the members of a ``tvmrt_pool_layer`` in order; no window for None."""
    attrs, (kind, _, _) = node.attrs, node.op.removeprefix("q").upper().partition("_POOL")
    if kind == "AVG":
        kind = "AVERAGE_PADDED" if attrs["count_pads"] else "AVERAGE"
    return {
        "kind": f"TVMRT_POOL_{kind}",
        "p": attrs.get("p", 0),
        "channels": node.output.shape[1],
        **({"window": window.members()} if window else {}),
        "pad_end": triple(attrs["pads_after"], 0),
        "is_signed": int(node.inputs[0].dtype.name == "int8"),
    }


def window_of(node: Node, batch: int, x_stride: int, y_stride: int) -> Window:
    """Return the window of a pooling layer."""
    x, out = node.inputs[0].shape, (batch, 1, *node.attrs["out_spatial"])
    shapes = (batch, *x[1:]), out, node.attrs["kernel"]
    return Window.of(*shapes, node.attrs, x_stride, y_stride)


@lowers("max_pool_index")
class MaxPoolIndexLowering(Lowering):
    """Plain loops that record the index of the maximum."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        emit_indexed_max_pool(self.node, f, f.name_write(1, "places"))


def emit_indexed_max_pool(node, f: FunctionWriter, indices: str) -> None:
    x = node.inputs[0]
    spatial = triple(x.shape[2:], 1)
    distance = (spatial[1] * spatial[2], spatial[2], 1)
    if node.attrs.get("columns_first"):
        distance = (1, spatial[0], spatial[0] * spatial[1])
        if len(x.shape) < 5:
            distance = (0, 1, spatial[1])
    kernel = f"max_pool_{x.dtype.name}"
    f.include("op/max_pool_indices.h")
    lowest = f"INT{x.dtype.bits}_MIN" if x.dtype.is_signed else "0"
    if x.dtype.is_float:
        lowest = "-INFINITY"
    f.define(f"TVMRT_DEFINE_MAX_POOL({kernel}, {x.dtype.c}, {lowest})")
    layer = print_layer(
        f,
        "tvmrt_max_pool_indices_layer",
        {"window": window_of(node, prod(x.shape[:2]), 1, 1).members(), "index_stride": distance},
    )
    f.result(f"{kernel}(&{layer}, {f.read(0)}, {f.write(0)}, {indices})")


@lowers("max_unpool")
class MaxUnpoolLowering(Lowering):
    """Scatter elements to their indices in a zeroed output; a bad index is a run-time error."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x = self.node.inputs[0]
        pointers = input_pointers(f, "x", "places")
        f.include("op/max_pool_indices.h")
        where, size = error_location(self.node, "indices"), self.node.output.type.size
        f.result(
            f"tvmrt_max_unpool({pointers[0]}, {pointers[1]}, {x.type.size}, {f.write()}, "
            f"{size}, {x.dtype.itemsize}, {where})"
        )
