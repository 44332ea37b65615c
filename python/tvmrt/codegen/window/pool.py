"""Pooling over windows, and its inverse."""

from __future__ import annotations

from math import prod

from tvmrt.ir import Node, Value
from tvmrt.ir.program import ANY, CHANNELS_LAST, DENSE, Step, channels_last_order, pixel_stride
from tvmrt.planner.row_chains import RowLayer

from ..c.initializers import print_layer, triple
from ..c.text import call
from ..c.writer import FunctionWriter, place_text
from ..lowering import Lowering, lowers
from .boards import row_layers
from .conv import ChannelsLastLowering
from .epilogue import Epilogue, emit_row_epilogue
from .plan import Window


@lowers("max_pool", "avg_pool", "lp_pool")
class PoolLowering(ChannelsLastLowering):
    """Float32 over channels-last memory; maxima of other element types by plain loops."""

    @property
    def epilogue(self) -> Epilogue:
        # the kernel neither adds nor bounds: all that follows is done by rows
        return Epilogue(self.node.output, rest=list(self.group.after))

    @property
    def vectors(self) -> bool:
        return self.node.output.dtype.name == "float32"

    def accepts_epilogue(self, accesses) -> bool:
        return self.vectors and super().accepts_epilogue(accesses)

    def demand(self, value: Value) -> str:
        if value is not self.node.inputs[0]:
            return ANY
        return CHANNELS_LAST if self.vectors else DENSE

    def result_demand(self, index: int) -> str:
        return CHANNELS_LAST if self.vectors else DENSE

    def result_order(self, index: int, accesses):
        return channels_last_order(self.node.output.type.rank) if self.vectors else None

    def emit(self, step: Step, f: FunctionWriter) -> None:
        if not self.vectors:
            emit_plain_max(self.node, f, "NULL")
            return
        row, context = self._print_layer(step, f)
        self._print_call(step, f, "&layer", row, context)

    def row_layer(self, step: Step) -> RowLayer | None:
        if not self.vectors or self.target.board is None or len(step.writes[0].shape) != 4:
            return None
        after = {v for node in self.group.after for v in node.inputs if v is not None}
        if self.node.inputs[0] in after or not all(map(row_layers.of_channels, after)):
            return None
        return row_layers.pool_layer(self._window(step), 4, 4)

    def row_operand(self, step: Step) -> int:
        return step.read_values.index(self.node.inputs[0])

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        row, context = self._print_layer(step, f)
        part = row_layers.print_part(f, "tvmrt_pool_f32_layer", "layer")
        self._print_call(step, f, part, row, context)

    def _window(self, step: Step) -> Window:
        x = step.reads[step.read_values.index(self.node.inputs[0])].at
        strides = pixel_stride(x), pixel_stride(step.writes[0].at)
        return window_of(self.node, self.node.output.shape[0], *strides)

    def _print_layer(self, step: Step, f: FunctionWriter) -> tuple[str, str]:
        """Print ``layer``; what is called on finished pixels, and its context."""
        window, shape = self._window(step), self.node.output.shape
        f.include("pool.h")
        epilogue = emit_row_epilogue(
            f, step, self.epilogue, window.y_stride, shape, channels_last_order(len(shape))
        )
        print_layer(
            f,
            "tvmrt_pool_f32_layer layer",
            {
                "kind": self._kind(),
                "p": self.node.attrs.get("p", 0),
                "channels": shape[1],
                "window": window.members(),
                "pad_end": triple(self.node.attrs["pads_after"], 0),
            },
        )
        return epilogue

    def _print_call(
        self, step: Step, f: FunctionWriter, layer: str, row: str, context: str
    ) -> None:
        x = f.read(step.read_values.index(self.node.inputs[0]))
        f.line(f"return {call('tvmrt_pool_f32', layer, x, f.write(), row, context)};")

    def _kind(self) -> str:
        if self.node.op == "avg_pool":
            return "TVMRT_POOL_AVERAGE" + ("_PADDED" if self.node.attrs["count_pads"] else "")
        return {"max_pool": "TVMRT_POOL_MAX", "lp_pool": "TVMRT_POOL_LP"}[self.node.op]


def window_of(node: Node, batch: int, x_stride: int, y_stride: int) -> Window:
    """The window of a pooling layer."""
    x, out = node.inputs[0].shape, (batch, 1, *node.attrs["out_spatial"])
    shapes = (batch, *x[1:]), out, node.attrs["kernel"]
    return Window.of(*shapes, node.attrs, x_stride, y_stride)


def pool_window(node: Node, batch: int, x_stride: int, y_stride: int) -> dict[str, object]:
    """The same, as a member of its struct."""
    return {"window": window_of(node, batch, x_stride, y_stride).members()}


@lowers("max_pool_index")
class MaxPoolIndexLowering(Lowering):
    """Plain loops that remember where the maximum was."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        emit_plain_max(self.node, f, f.name_write(1, "places"))


def emit_plain_max(node, f: FunctionWriter, places: str) -> None:
    x = node.inputs[0]
    spatial = triple(x.shape[2:], 1)
    distance = (spatial[1] * spatial[2], spatial[2], 1)
    if node.attrs.get("columns_first"):
        distance = (1, spatial[0], spatial[0] * spatial[1])
        if len(x.shape) < 5:
            distance = (0, 1, spatial[1])
    kernel = f"max_pool_{x.dtype.name}"
    f.include("op/pool_index.h")
    lowest = "-INFINITY" if x.dtype.is_float else _lowest(x.dtype)
    f.define(f"TVMRT_DEFINE_MAX_POOL({kernel}, {x.dtype.c}, {lowest})")
    print_layer(
        f,
        "tvmrt_pool_index_layer layer",
        {
            **pool_window(node, prod(x.shape[:2]), 1, 1),
            "place": distance,
        },
    )
    f.line(f"return {kernel}(&layer, {f.read(0)}, {f.write(0)}, {places});")


def _lowest(dtype) -> str:
    return f"INT{dtype.bits}_MIN" if dtype.is_signed else "0"


@lowers("max_unpool")
class MaxUnpoolLowering(Lowering):
    """Zeros, then each element at its place; a place outside is an error at run time."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x = self.node.inputs[0]
        pointers = [self.pointer(step, f, i, name) for i, name in enumerate(("x", "places"))]
        f.include("op/pool_index.h")
        where, size = place_text(self.node, "indices"), self.node.output.type.size
        f.line(
            f"return tvmrt_max_unpool({pointers[0]}, {pointers[1]}, {x.type.size}, {f.write()}, "
            f"{size}, {x.dtype.itemsize}, {where});"
        )
