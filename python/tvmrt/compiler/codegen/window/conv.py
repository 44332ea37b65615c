"""Lowering of dense and depthwise convolution in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from tvmrt.compiler.ir import Node, Value
from tvmrt.compiler.ir.program import (
    CHANNELS_LAST,
    DENSE,
    Access,
    Step,
    channels_last_order,
    pixel_stride,
)
from tvmrt.compiler.ir.reduced_precision import is_reduced
from tvmrt.compiler.ir.sizes import symbols_of

from ...ir.program import ANY
from ..c.initializers import print_layer, print_struct, print_tiles, share_layer, triple
from ..c.writer import FunctionWriter
from ..geometry import FLOAT, DepthFirstLayer, Window
from ..kernel_features import BOARD_KERNELS, NCHW_CONVOLUTIONS
from ..lowering import ImageLowering, Scratch, in_place_pair, lowers
from ..lowering_protocols import DepthFirstFusable
from ..target import Target
from . import packing_f32 as packing
from .boards.board_lowering import BoardLowering, print_weights
from .boards.float32 import KERNELS as BOARDS
from .boards.kernel import MicroKernel
from .boards.layer_f32 import MicroLayerF32
from .boards.shape import MicroShape
from .depth_first_plan import can_tile_depth_first
from .depthwise_tile_f32 import DepthwiseTile, choose_depthwise
from .epilogue import Epilogue, emit_row_epilogue, residual_fits, split_epilogue
from .epilogue_operands import fits_rows
from .first_run_packing import print_pack_once
from .layer_f32 import LayerF32
from .tile_kinds import F32, TileKind, bf16_kind
from .tiles_f32 import Tiles, choose_tiles

BOARD_STRUCT = "tvmrt_micro_conv_f32"
MAX_NCHW_CHANNELS = 4  # maximum channels of NCHW input that a layer reads directly
# Minimum window rows for which the kernel may write partial sums: TVMRT_DEPTHWISE_ROWS.
DEPTHWISE_ROWS = 16


class ChannelsLastLowering(ImageLowering):
    """Common base of convolutions and pooling: residual, clamping, row epilogue."""

    takes_epilogue = True

    @property
    def epilogue(self):
        return split_epilogue(self.node.output, self.group.after)

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        last = self.group.after[-1].output
        if last.dtype != self.node.output.dtype:
            return False
        epilogue = self.epilogue
        shape = self.node.output.shape
        return residual_fits(epilogue.residual, accesses) and fits_rows(
            epilogue.row_nodes, shape, channels_last_order(len(shape)), accesses
        )

    def demand(self, value: Value) -> str:
        return CHANNELS_LAST if value is self.node.inputs[0] else ANY

    def pixel_strides(self, step: Step) -> tuple[int, int]:
        """Return the pixel strides of the input and of the result."""
        x = step.reads[step.read_values.index(self.node.inputs[0])]
        return pixel_stride(x.at), pixel_stride(step.writes[0].at)

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        residual = self.epilogue.residual
        if residual is None or residual is self.node.inputs[0]:
            return []
        return in_place_pair(step, residual)

    def residual_parts(self, step: Step, f: FunctionWriter, epilogue) -> tuple[str, int]:
        """Return the pointer and pixel stride of the residual."""
        if epilogue.residual is None:
            return "NULL", 0
        i = step.read_values.index(epilogue.residual)
        return f.name_read(i, "residual"), pixel_stride(step.reads[i].at)


@dataclass(frozen=True)
class TiledLayer:
    """A layer with its kernel and tiles; ``bias`` is packed for the tiles, and ``pack`` packs
    weights."""

    kernel: str
    layer: LayerF32
    tiles: Tiles | DepthwiseTile
    pack: Callable[[np.ndarray], np.ndarray]
    bias: np.ndarray


def tile_kind(node: Node, target: Target) -> TileKind:
    """Return the kind of the tiles that compute a convolution or matmul."""
    return bf16_kind(target) if is_reduced(node) else F32


class ConvolutionLowering(ChannelsLastLowering):
    """Convolutions with constant weights and bias."""

    @property
    def kind(self) -> TileKind:
        return tile_kind(self.node, self.target)

    def operands(self) -> list[Value]:
        for value, what in zip(self.node.inputs[1:], ("weights", "bias")):
            if value is not None and not value.is_constant:
                raise ValueError(f"the convolution's {what} are computed at run time")
        return super().operands()

    def window(self, step: Step) -> Window:
        """Return the layer's window; missing spatial dimensions have extent 1."""
        x, w, y = self.node.inputs[0], self.node.inputs[1], self.node.output
        strides = self.pixel_strides(step)
        return Window.of(x.shape, y.shape, w.shape[2:], self.node.attrs, *strides)

    def layer(self, step: Step) -> LayerF32:
        """Return the layer for tiles."""
        raise NotImplementedError

    def runtime_packing_order(self) -> packing.PackingOrder | None:
        """Return the layout of weights that the run packs; None if they are packed here. A run
        packs weights of a region's fallback, which the library already stores for the device."""
        w = self.node.inputs[1]
        if not w.keeps_layout:
            return None  # includes Winograd, which has no groups
        groups = self.node.attrs["groups"]
        return packing.PackingOrder(w.shape[0] // groups, w.shape[1], prod(w.shape[2:]), groups)

    def scratch(self, step: Step) -> Scratch:
        order = self.runtime_packing_order()
        packed = 0 if order is None else order.max_bytes
        return Scratch(packed, (self.layer(step).scratch_bytes,))

    def bias(self) -> np.ndarray:
        """Return the bias of each output channel."""
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        if bias is None:
            return np.zeros(self.node.output.shape[1], np.float32)
        return bias.data

    def tiled(self, step: Step) -> TiledLayer:
        """Return the layer for hosts."""
        raise NotImplementedError

    def emit(self, step: Step, f: FunctionWriter) -> None:
        self.emit_layer(step, f, self.tiled(step))

    def emit_layer(self, step: Step, f: FunctionWriter, tiled: TiledLayer) -> None:
        """Print the call of a kernel that uses tiles."""
        x = f.name_read(step.read_values.index(self.node.inputs[0]), "in")
        residual = self.residual_parts(step, f, self.epilogue)
        layer, tiles, data = self.print_layer(step, f, tiled, x, residual, f.write())
        f.result(f"tvmrt_{tiled.kernel}(&{layer}, &{tiles}, &{data})")

    def print_layer(
        self,
        step: Step,
        f: FunctionWriter,
        tiled: TiledLayer,
        x: str,
        residual: tuple[str, int],
        y: str,
    ) -> tuple[str, str, str]:
        """Print variables for the layer, its tiles and its tensors; return their lvalues. ``x``,
        ``y``: pointers; ``residual``: pointer and pixel stride."""
        epilogue, shape = self.epilogue, self.node.output.shape
        layer, tiles, data = (f.fresh(name) for name in ("layer", "tiles", "data"))
        order = channels_last_order(len(shape))
        fields = {
            "x": x,
            "w": self._weights(f, tiled.tiles, tiled.pack),
            "bias": f.constant("bias", tiled.bias),
            "residual": residual[0],
            "y": y,
        }
        y_stride = tiled.layer.window.y_stride
        row, context = emit_row_epilogue(f, step, epilogue, y_stride, shape, order)
        f.include(f"{tiled.kernel}.h")
        members = {**tiled.layer.members(residual[1], *epilogue.bounds()), **tiled.tiles.members()}
        layer = print_layer(f, "tvmrt_layer_f32", members, layer)
        tiles = print_tiles(f, tiled.tiles, tiles)
        print_data_f32(f, {**fields, "epilogue": row, "ctx": context}, data)
        return layer, tiles, data

    def _weights(
        self,
        f: FunctionWriter,
        tiles: Tiles | DepthwiseTile,
        pack: Callable[[np.ndarray], np.ndarray],
    ) -> str:
        """Return the pointer to packed weights."""
        w, order = self.node.inputs[1].data, self.runtime_packing_order()
        if order is None:
            return weights_text(f, pack(w))
        scratch = f"(float *)(void *){f.scratch()}"
        return print_pack_once(f, order, tiles.packed, f.constant("weights", w), scratch)


def conv_kernel(kind: TileKind) -> str:
    """Return the name of the kernel for such tiles, and of its header."""
    return f"conv_{kind.driver}"


def weights_text(f: FunctionWriter, weights: np.ndarray) -> str:
    """Return the pointer to packed weights: floats, or bfloat16 pairs cast to floats."""
    name = f.constant("weights", weights)
    return name if weights.dtype == np.float32 else f"(const float *)(const void *){name}"


def print_data_f32(
    f: FunctionWriter, fields: dict[str, str], name: str = "data", kind: str = "tvmrt_data_f32"
) -> None:
    """Print the tensors of a call, without NULL members."""
    members = {member: text for member, text in fields.items() if text != "NULL"}
    print_struct(f, f"const {kind} {name}", members)


def print_board(
    f: FunctionWriter,
    step: Step,
    epilogue: Epilogue,
    layer: MicroLayerF32,
    kernel: MicroKernel[MicroLayerF32],
    x: str,
    residual: tuple[str, int],
    order: tuple[int, ...],
) -> str:
    """Print the layer and the tensors, ``data``, as structs; return the layer's address in C.

    ``x``: the input's pointer; ``residual``: its pointer and pixel stride; ``order``: the result's
    axes with the channels last.
    """
    packed = kernel.pack(layer)
    fields = {"x": x, "weights": print_weights(f, step, packed.weights)}
    if packed.bias is not None:
        fields["bias"] = f.constant("bias", packed.bias)
    y_stride, shape = layer.shape.window.y_stride, step.lowering.node.output.shape
    row, context = emit_row_epilogue(f, step, epilogue, y_stride, shape, order)
    f.include(kernel.header)
    members = layer.members(kernel, residual[1])
    address = share_layer(f, BOARD_STRUCT, members, layer.shape.of_run, step.name)
    fields |= {"residual": residual[0], "y": f.write(), "epilogue": row, "ctx": context}
    print_data_f32(f, fields, kind="tvmrt_micro_data_f32")
    return address


@lowers("conv")
class ConvLowering(BoardLowering, ConvolutionLowering, DepthFirstFusable):
    """Direct convolution by tiles; depthwise layers have a separate kernel."""

    kernels = BOARDS
    struct = BOARD_STRUCT
    tile_scratch = ConvolutionLowering.scratch
    emit_tiles = ConvolutionLowering.emit

    def macs(self) -> int:
        w = self.node.inputs[1]
        return self.node.output.type.size * prod(w.shape[1:])

    @property
    def depthwise(self) -> bool:
        w, groups = self.node.inputs[1], self.node.attrs["groups"]
        return w.shape[1] == 1 and groups == w.shape[0] and groups > 1

    def runtime_packing_order(self) -> packing.PackingOrder | None:
        order = super().runtime_packing_order()
        if order is None or not self.depthwise:
            return order
        return replace(order, channels=order.groups, groups=1)  # interleaved in vectors

    def board_layer(self, step: Step, by_rows: bool = False) -> MicroLayerF32 | None:
        w, groups = self.node.inputs[1], self.node.attrs["groups"]
        if not BOARD_KERNELS.of(self.target) or not (self.depthwise or groups == 1):
            return None
        shape = MicroShape(self.window(step), w.shape[1] * groups, w.shape[0], self.depthwise)
        if not shape.is_supported:
            return None
        epilogue = self.epilogue
        weights = w.data.reshape(*w.shape[:2], *triple(w.shape[2:], 1)[1:])
        bounds = (epilogue.low, epilogue.high)
        may_overwrite_input = shape.pointwise if by_rows else shape.in_place
        return MicroLayerF32(
            shape, weights, self.bias(), *bounds, may_overwrite_input, epilogue.only_clamps
        )

    def print_board(
        self,
        step: Step,
        f: FunctionWriter,
        layer: MicroLayerF32,
        kernel: MicroKernel[MicroLayerF32],
    ) -> str:
        x = f.name_read(step.read_values.index(self.node.inputs[0]), "in")
        residual = self.residual_parts(step, f, self.epilogue)
        order = channels_last_order(len(self.node.output.shape))
        return print_board(f, step, self.epilogue, layer, kernel, x, residual, order)

    @property
    def reads_nchw(self) -> bool:
        """Whether the layer reads few-channel NCHW input of the network directly, as for pictures.
        A separate transpose would take a good part of the layer's time."""
        x, w, attrs = self.node.inputs[0], self.node.inputs[1], self.node.attrs
        if not NCHW_CONVOLUTIONS.of(self.target) or x.producer is not None:
            return False
        if len(x.shape) != 4 or x.is_constant or attrs["groups"] != 1 or symbols_of(*x.shape):
            return False
        one = x.shape[0] == 1 and attrs["dilations"][1] == 1
        return one and 1 < x.shape[1] <= MAX_NCHW_CHANNELS and w.shape[3] > 1

    def demand(self, value: Value) -> str:
        planes = value is self.node.inputs[0] and self.reads_nchw
        return DENSE if planes else super().demand(value)

    def window(self, step: Step) -> Window:
        window = super().window(step)
        return replace(window, x_stride=1) if self.reads_nchw else window

    def layer(self, step: Step) -> LayerF32:
        w, groups = self.node.inputs[1], self.node.attrs["groups"]
        if self.reads_nchw:
            return LayerF32.conv_nchw(self.window(step), w.shape[1], w.shape[0], self.kind)
        if self.depthwise:
            return LayerF32.depthwise(self.window(step), w.shape[0])
        sizes = (w.shape[1] * groups, w.shape[0], groups)
        return LayerF32.conv(self.window(step), *sizes, self.kind)

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        pairs = super().in_place(step)
        if self.depthwise and prod(self.node.inputs[1].shape[2:-1]) >= DEPTHWISE_ROWS:
            pairs = []  # the kernel writes partial results before it adds the residual
        if self.may_overwrite_input(step):
            pairs += in_place_pair(step, self.node.inputs[0])
        return pairs

    def tiled(self, step: Step) -> TiledLayer:
        return self._depthwise_tiled(step) if self.depthwise else self._dense_tiled(step)

    def depth_first_layer(self, step: Step) -> DepthFirstLayer | None:
        is_float = not (BOARD_KERNELS.of(self.target) or self.kind.words_per_pair)
        if not is_float or self.runtime_packing_order():
            return None
        layer = self.layer(step)
        joins_columns = layer.in_channels != self.node.inputs[1].shape[1]
        if joins_columns or not can_tile_depth_first(layer.window, self.epilogue, step):
            return None
        weights = layer.weights * layer.out_channels * layer.groups
        return DepthFirstLayer(layer.window, weights * FLOAT, self.depthwise)

    def depth_first_width(self, step: Step) -> int:
        tiles = self.tiled(step).tiles
        return tiles.width if self.depthwise else tiles.widths[0]

    def print_depth_first(self, step: Step, f: FunctionWriter, x, residual, y) -> Sequence[str]:
        names = self.print_layer(step, f, self.tiled(step), x, residual, y)
        layer, tiles, data = (f"&{name}" for name in names)
        kinds = ("NULL", tiles) if self.depthwise else (tiles, "NULL")
        return [layer, *kinds, "NULL", data]

    def _dense_tiled(self, step: Step) -> TiledLayer:
        groups, layer = self.node.attrs["groups"], self.layer(step)
        sizes = (layer.row_pixels, layer.out_channels, layer.row_weights)
        tiles = choose_tiles(*sizes, self.target, layer.pixel_step, self.kind)
        pack = partial(self._pack, tiles=tiles, groups=groups)
        bias = packing.pack_bias(self.bias(), tiles, groups)
        return TiledLayer(conv_kernel(self.kind), layer, tiles, pack, bias)

    def _pack(self, weights: np.ndarray, tiles: Tiles, groups: int) -> np.ndarray:
        if self.kind.words_per_pair:
            weights = packing.to_bf16_pairs(weights, 1)
        return packing.pack_conv(weights, tiles, groups)

    def _depthwise_tiled(self, step: Step) -> TiledLayer:
        w, layer = self.node.inputs[1], self.layer(step)
        tile = choose_depthwise(layer.window, w.shape[0], self.target)
        pack = partial(packing.pack_depthwise, lanes=tile.packed)
        bias = packing.pad_channels(self.bias(), tile.packed)
        return TiledLayer("depthwise_f32", layer, tile, pack, bias)
