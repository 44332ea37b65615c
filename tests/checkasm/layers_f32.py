"""Random float layers: convolutions and matmuls by register tiles of float32 and bfloat16 pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from layers import Layers, Shape, bounds, spread, struct

from tvmrt.compiler.codegen.c.formatting import initializer
from tvmrt.compiler.codegen.geometry import Window
from tvmrt.compiler.codegen.window import packing_f32 as packing
from tvmrt.compiler.codegen.window.conv_transpose import tile_sizes
from tvmrt.compiler.codegen.window.depthwise_tile_f32 import depthwise_options
from tvmrt.compiler.codegen.window.layer_f32 import LayerF32
from tvmrt.compiler.codegen.window.tile_kinds import TILE_KINDS, TileKind
from tvmrt.compiler.codegen.window.tiles_f32 import (
    MIN_STREAMED_BYTES,
    Tiles,
    TileSizes,
    available_tiles,
    choose_tiles,
)
from tvmrt.compiler.codegen.window.winograd import WinogradLayer

DATA = """  const tvmrt_data_f32 data = {
      t->x, t->w, t->bias, t->residual, t->y, t->epilogue, t->ctx};
  return tvmrt_%s(&layer, &tiles, &data);"""


def window_of(s: Shape) -> Window:
    strides = (1 if s.planes else s.channels[0] + s.slices[0], s.channels[1] + s.slices[1])
    before = tuple(pads[0] for pads in s.pads)
    return Window(
        s.batch, s.size, s.out, *strides, s.kernel, s.stride, s.dilation, before
    )  # fmt: skip


def tiles_of(layers: Layers, machine, sizes: TileSizes, alone: bool) -> Tiles:
    """Return the selected tiles, or random ones; ``alone``: for weights that no wider ISA level
    reads."""
    random = layers.random
    small = random.one(machine.l2_bytes, machine.l2_bytes, 4096)
    machine = replace(machine, l2_bytes=small, widest=None if alone else machine.widest)
    sizes = sizes._replace(machine=machine)
    available = available_tiles(sizes)
    # tiles with many registers are the default; every second layer uses a random one
    drawn = available[random.int(0, len(available) - 1)]
    tiles = drawn if random.chance(0.5) else choose_tiles(*sizes)
    return replace(tiles, dynamic_rows=random.chance(0.35))


def add_conv(layers: Layers, number: int, kind: TileKind, planes: bool = False) -> None:
    random, machine = layers.random, layers.target
    s = random.pictures() if planes else random.dense(number)
    window = window_of(s)
    if planes:
        layer = LayerF32.conv_nchw(window, *s.channels, kind)
    else:
        layer = LayerF32.conv(window, *s.channels, s.groups, kind)
    outs = s.channels[1] // s.groups
    sizes = TileSizes(layer.row_pixels, outs, layer.row_weights, machine, layer.pixel_step, kind)
    tiles = tiles_of(layers, machine, sizes, random.chance(0.5))
    if window.is_identity_window and s.groups == 1 and random.chance(0.3):
        tiles = tiles.with_weight_streams(layer.row_pixels, MIN_STREAMED_BYTES, machine.registers)
    w = random.normal(s.channels[1], s.channels[0] // s.groups, *s.kernel)
    packed = packing.pack_conv(
        packing.to_bf16_pairs(w, 1) if kind.words_per_pair else w, tiles, s.groups
    )
    add_tiled(layers, f"conv_{kind.name}", s, layer, tiles, w, packed, f"conv_{kind.driver}")


def add_transposed(layers: Layers, number: int, kind: TileKind) -> None:
    random, machine = layers.random, layers.target
    s = random.transposed(number)
    divides = s.kernel[2] % s.stride[2] == 0 and s.dilation[2] == 1
    joins = divides and s.groups == 1 and s.slices[1] == 0 and machine.lanes > 1
    is_joined = joins and random.chance(0.7)
    phases = s.stride[2] if is_joined else 1
    layer = LayerF32.transposed(window_of(s), *s.channels, s.groups, kind, phases)
    tiles = tiles_of(layers, machine, tile_sizes(layer, machine), random.chance(0.5))
    w = random.normal(s.channels[0], s.channels[1] // s.groups, *s.kernel)
    packed = packing.pack_conv_transpose(w, tiles, s.groups, bool(kind.words_per_pair), phases)
    kernel, name = f"conv_transpose_{kind.driver}", f"transposed_{kind.name}"
    add_tiled(layers, f"{name} phases {phases}", s, layer, tiles, w, packed, kernel)


def add_tiled(
    layers: Layers, name: str, s: Shape, layer: LayerF32, tiles: Tiles, w: np.ndarray,
    packed: np.ndarray, kernel: str,
) -> None:  # fmt: skip
    """Add a layer computed by register tiles."""
    bias, fields = finish(layers, s)
    members = {**layer.members(s.channels[1], fields["low"], fields["high"]), **tiles.members()}
    packed_bias = (
        None if bias is None else packing.pack_bias(np.tile(bias, layer.phases), tiles, s.groups)
    )
    body = [struct("tvmrt_tiles_f32", "tiles", tiles.initializer()),
            struct("tvmrt_layer_f32", "layer", initializer(members)), DATA % kernel]  # fmt: skip
    layers.need([f"{kernel}.h", *tiles.headers], tiles.definitions())
    if tiles.kind.words_per_pair:
        fields |= {"type": "CK_BF16", "has_nan": 0, "loss": "2.0f"}
    name = f"{name} {'/'.join(tiles.names())}"
    layers.add(name, s, "\n".join(body), fields, [w, None, packed, bias, packed_bias] + [None] * 3)


def finish(layers: Layers, s: Shape) -> tuple[np.ndarray | None, dict[str, object]]:
    """Set the bias of a layer, and the members of its ``ck_layer`` for the epilogue."""
    random = layers.random
    bias = random.normal(s.channels[1]) if random.chance(0.8) else None
    fields = {
        "type": "CK_F32",
        "has_residual": int(random.chance(0.4)),
        "has_epilogue": int(random.chance(0.3)),
        "has_nan": int(random.chance(0.2)),
        **bounds(random),
    }
    if fields["has_nan"]:  # passed through by the clamp
        fields |= {"low": "-0.5f", "high": "0.5f"}
    return bias, fields


def add_depthwise(layers: Layers, number: int) -> None:
    random = layers.random
    s = random.depthwise(number)
    layer = LayerF32.depthwise(window_of(s), s.channels[0])
    widest = None if random.chance(0.5) else layers.target.widest
    machine = replace(layers.target, widest=widest)
    options = depthwise_options(layer.window, s.channels[0], machine)
    tile = options[random.int(0, len(options) - 1) if random.chance(0.5) else 0]
    if number % 3 == 1:  # the tile for all window sizes also runs a few fixed sizes
        tile = replace(tile, columns=0, stride=0)
    w = random.normal(s.channels[0], 1, *s.kernel)
    bias, fields = finish(layers, s)
    members = layer.members(s.channels[1], fields["low"], fields["high"])
    body = [struct("tvmrt_depthwise_f32_tile", "tiles", tile.initializer()),
            struct("tvmrt_layer_f32", "layer", initializer(members)),
            DATA % "depthwise_f32"]  # fmt: skip
    layers.need(["depthwise_f32.h"], tile.definitions())
    packed_bias = None if bias is None else packing.pad_channels(bias, tile.packed)
    packed = packing.pack_depthwise(w, tile.packed)
    arrays = [w, None, packed, bias, packed_bias, None, None, None]
    layers.add(f"depthwise_f32 {tile.name()}", s, "\n".join(body), fields, arrays)


def add_winograd(layers: Layers, number: int) -> None:
    random = layers.random
    s, size = random.winograd(), (2, 4)[number % 2]
    if number % 6 == 5:  # more tiles than the scratch memory holds
        s = Shape((1, 33, 21), (120, 40), (1, 3, 3), pads=((0, 0), (1, 1), (1, 1)))
    layer = WinogradLayer.of(window_of(s), size, s.channels, layers.target)
    w = random.normal(s.channels[1], s.channels[0], 1, 3, 3)
    bias, fields = finish(layers, s)
    members = layer.members(s.channels[1], fields["low"], fields["high"])
    body = [struct("tvmrt_tiles_f32", "tiles", layer.tiles.initializer()),
            struct("tvmrt_winograd_f32", "layer", initializer(members)),
            DATA % f"winograd_f32_{size}"]  # fmt: skip
    layers.need(["winograd_f32.h"], layer.tiles.definitions())
    fields |= {"has_nan": 0, "loss": "64.0f"}
    arrays = [w, None, layer.pack(w[:, :, 0]), bias, bias, None, None, None]
    layers.add(f"winograd_f32 {size}", s, "\n".join(body), fields, arrays)


MATMUL = """  static const tvmrt_matmul_f32_layer layer = {layer};
  const tvmrt_data_f32 data = {{t->x, t->w, t->bias, t->residual, t->y, t->epilogue, t->ctx}};
  return tvmrt_matmul_{driver}(&layer, &tiles, &data);"""


def add_matmul(layers: Layers, number: int, kind: TileKind) -> None:
    """Add a matmul whose right operand is packed, row-major or column-major."""
    random, machine = layers.random, layers.target
    order = ("PACKED", "ROWS", "COLUMNS")[number % 3]
    m = (random.one(1, random.int(1, 4)), random.int(5, 30), 14 * random.int(1, 3) + 1)[
        number // 3 % 3
    ]
    n, k = random.int(1, 131), random.one(1, random.int(2, 20), random.int(20, 130))
    exceeds_l1 = number % 9 == 0  # read in several segments at a time
    if order == "COLUMNS" and random.chance(0.5):  # whose last transposed block of rows is shorter
        n, k = 8 * random.int(1, 9) + 7, 8 * random.int(1, 9) + 7
    if exceeds_l1:
        m, n, k = 1, random.int(40, 131), random.one(3, 4 * random.int(5, 30) + random.int(1, 3))
    batch = random.one((1, 1), random.pair(1, 3))
    wider = random.one((0, 0, 0), (3, 5, 7))
    one_b = random.chance(0.3)
    depth = (k + 1) // 2 if kind.words_per_pair else k
    sizes = TileSizes(m, n, depth, replace(machine, widest=None), 0, kind)
    tiles = tiles_of(layers, machine, sizes, True).without_single_row_tail(m)
    if exceeds_l1:
        tiles = choose_tiles(*sizes)
        tiles = tiles.with_weight_streams(m, MIN_STREAMED_BYTES, machine.registers)
    b = random.normal(*((1, 1) if one_b else batch), k, n)
    stride_b = {"PACKED": 0, "ROWS": n + wider[1], "COLUMNS": k + wider[1]}[order]
    rows_b = {"ROWS": k, "COLUMNS": n}.get(order, 0)
    stored = laid_b(b, order, wider[1], tiles, kind)
    each = stored.size // (b.shape[0] * b.shape[1]) if order == "PACKED" else rows_b * stride_b
    residual = random.one("none", "rows", "one_row")
    low_high, has_epilogue = bounds(random), int(random.chance(0.4))
    a_stride, y_stride = k + wider[0], n + wider[2]
    b_batch = (0, 0) if one_b else (batch[1] * each, each)
    r_batch = (batch[1] * m * n, m * n) if residual == "rows" else (0, 0)
    layer = {
        "batch": batch, "m": m, "n": n, "k": k,
        "a_batch": (batch[1] * m * a_stride, m * a_stride), "b_batch": b_batch,
        "y_batch": (batch[1] * m * y_stride, m * y_stride), "residual_batch": r_batch,
        "a_stride": a_stride, "b_stride": stride_b, "y_stride": y_stride,
        "residual_stride": n if residual == "rows" else 0, "lo": low_high["low"],
        "hi": low_high["high"], "b_order": f"TVMRT_B_{order}",
    }  # fmt: skip
    bias = random.normal(n) if random.chance(0.7) else None
    text = MATMUL.format(layer=initializer(layer), driver=kind.driver)
    body = [struct("tvmrt_tiles_f32", "tiles", tiles.initializer()), text]
    layers.need([f"matmul_{kind.driver}.h", *tiles.headers], tiles.definitions())
    s = Shape((1, 1, batch[0] * batch[1] * m), (k, n), slices=(wider[0], wider[2]))
    fields = {
        "type": "CK_BF16" if kind.words_per_pair else "CK_F32",
        "products": f"{{{batch[0] * batch[1]}, "
        f"{int(one_b)}}}", "has_residual": {"none": 0, "rows": 1, "one_row": 2}[residual],
        "has_epilogue": has_epilogue, **low_high, "loss": "2.0f",
    }  # fmt: skip
    packed_bias = None if bias is None else packing.pack_bias(bias, tiles)
    name = f"matmul_{kind.name} {order} {'/'.join(tiles.names())}"
    arrays = [b, None, stored, bias, packed_bias, None, None, None]
    layers.add(name, s, "\n".join(body), fields, arrays)


def laid_b(b: np.ndarray, order: str, wider: int, tiles: Tiles, kind) -> np.ndarray:
    """Return the right operand as the kernel reads it, with NaN between its rows."""
    if order == "PACKED":
        return packing.pack_matmul(
            packing.to_bf16_pairs(b, -2) if kind.words_per_pair else b, tiles
        )
    rows = b if order == "ROWS" else b.swapaxes(-1, -2)
    wide = np.full((*rows.shape[:-1], rows.shape[-1] + wider), np.nan, np.float32)
    wide[..., : rows.shape[-1]] = rows
    return wide


def add_all(layers: Layers, part: float) -> None:
    """Add layers of all float kernels; ``part``: number of parts."""
    kinds = [TILE_KINDS["f32"]]
    bf16 = layers.target.bf16 or "bf16_wide"
    kinds.append(TILE_KINDS[bf16])
    for kind, some in zip(kinds, (1.0, 0.6)):
        for number in spread(39, part * some):
            add_conv(layers, number, kind)
        for number in range(round(4 * part * some) + 1):
            add_conv(layers, number, kind, planes=True)
        for number in spread(12, part * some):
            add_transposed(layers, number, kind)
        for number in spread(27, part * some):
            add_matmul(layers, number, kind)
    for number in spread(24, part):
        add_depthwise(layers, number)
    for number in spread(12, part):
        add_winograd(layers, number)
