"""C text of int8 layers: their tiles, and the structs of ``kernels/conv_i8.h``."""

from __future__ import annotations

from collections.abc import Mapping

from tvmrt.compiler.ir.sizes import Extent

from ..c.formatting import braces, wrap
from ..c.initializers import print_layer, print_static_struct, print_struct
from ..c.writer import FunctionWriter
from .plan_i8 import AmxPlan, PlanI8

# Member order of the struct, as C++ requires.
CALL_DATA = (
    "x", "weights", "bias", "scale", "shift", "y", "range", "epilogue", "ctx", "y_bytes",
    "residual_add", "added", "added_stride",
)  # fmt: skip


def print_plan(f: FunctionWriter, plan: PlanI8, fused_add: str = "NULL") -> str:
    """Print the layer as a struct, and the definitions of its tiles; return the struct's lvalue.
    ``fused_add``: the address of the constants of a fused residual add."""
    for line in tile_definitions(plan):
        f.define(line)
    members = layer_members(plan)
    if plan.amx is not None:
        amx = amx_members(plan.amx, fused_add)
        members["amx"] = f"&{print_static_struct(f, 'tvmrt_conv_i8_amx', 'amx', amx)}"
    return print_layer(f, "tvmrt_conv_i8", members)


def print_call_data(f: FunctionWriter, fields: Mapping[str, object]) -> None:
    """Print the tensors of one call as a struct; ``fields`` may be in any order."""
    ordered = {name: fields[name] for name in sorted(fields, key=CALL_DATA.index)}
    print_struct(f, "const tvmrt_conv_i8_data data", ordered)


def tile_headers(plan: PlanI8) -> tuple[str, ...]:
    """Return the headers of the tiles that the kernels do not include themselves."""
    return ("tile/gemm_i8_amx.h",) if plan.variant.fmt.uses_amx else ()


def tile_definitions(plan: PlanI8) -> list[str]:
    """Return the C lines that define the tile functions; a file has each line once."""
    definitions = []
    for size in (size for row in plan.tile_sizes for size in row if all(size)):
        macro, numbers = _macro(plan, size)
        definitions.append("\n".join(wrap(macro, [_tile_name(plan, size), *numbers], "")))
    return definitions


def _tile_name(plan: PlanI8, size: tuple[int, int]) -> str:
    layer, variant, amx = plan.layer, plan.variant, plan.amx
    kind = "s8" if layer.x_signed else "u8"
    rounding = f"_{plan.rounding}" if plan.rounding else ""
    if not layer.depthwise:
        part = "_shared" if variant.shares else ""
        if amx is not None:
            part = f"_amx{'_padded' * bool(amx.padded_pitch)}{'_l2' * amx.exceeds_l1}"
        plus = f"_add_{plan.residual_type}" if plan.residual_type else ""
        return f"tvmrt_tile_i8_{size[0]}x{size[1]}_{kind}{part}{plus}{rounding}"
    rows, columns = variant.depthwise_rows, layer.depthwise_taps[1]
    steps = f"s{layer.window.stride[2]}d{layer.window.dilation[2]}"
    parts = ("", "_wide", "_wider")[variant.overflow.parts - 1]
    return f"tvmrt_depthwise_i8_{rows}x{columns}{steps}_{size[0]}x{size[1]}_{kind}{parts}{rounding}"


def _macro(plan: PlanI8, size: tuple[int, int]) -> tuple[str, tuple[object, ...]]:
    """Return the macro that defines a tile, and its arguments after the tile's name."""
    layer, variant, amx = plan.layer, plan.variant, plan.amx
    signed, parts = int(layer.x_signed), []
    if plan.residual_type or not plan.rounding:
        parts.append(f"TVMRT_RESIDUAL_{plan.residual_type.upper() or 'NONE'}")
    if plan.rounding:
        parts.append(f"TVMRT_ROUND_{plan.rounding.upper()}")
    plus = " | ".join(parts)
    if layer.depthwise:
        shape = (variant.depthwise_rows, layer.depthwise_taps[1])
        steps = (layer.window.stride[2], layer.window.dilation[2])
        sizes = (*shape, *steps, size[1], size[0], variant.overflow.parts)
        return "TVMRT_DEFINE_DEPTHWISE_I8", (*sizes, signed, plus)
    if amx is not None:
        kind = (signed, plus, int(bool(amx.padded_pitch)), int(amx.exceeds_l1))
        return "TVMRT_DEFINE_TILE_I8_AMX", (*size, *kind)
    return "TVMRT_DEFINE_TILE_I8", (*size, signed, int(variant.shares), plus)


def amx_members(plan: AmxPlan, fused_add: str = "NULL") -> dict[str, object]:
    """Return the members of a ``tvmrt_conv_i8_amx`` as C text."""
    return {
        "im2col_across_rows": int(plan.im2col_across_rows),
        "prefetch_bytes": plan.prefetch_bytes,
        "padded_pitch": plan.padded_pitch,
        "row_pairs": int(plan.row_pairs),
        "words": plan.words,
        "fused_add": fused_add,
        "end": "tvmrt_amx_i8_end",
    }


def layer_members(plan: PlanI8) -> dict[str, object]:
    """Return the members of the plan's ``tvmrt_conv_i8`` as C text, without ``amx``."""
    layer, variant, scratch = plan.layer, plan.variant, plan.scratch
    quads = variant.overflow.quads
    tiles = [
        braces([_tile_name(plan, size) if all(size) else "NULL" for size in row])
        for row in plan.tile_sizes
    ]
    return {
        "window": layer.window.members(),
        "rows": variant.windows.members(scratch.rows, scratch.total),
        "groups": plan.groups,
        "in_c": layer.in_c // plan.groups,
        "out_c": plan.out_c,
        "padded": plan.padded,
        "x_signed": int(layer.x_signed),
        "x_zero": layer.x_zero,
        "depthwise": int(layer.depthwise),
        "overflow_row": "TVMRT_NO_ROW" if variant.overflow.row < 0 else variant.overflow.row,
        "overflow_quads": braces([braces(quad) for quad in quads or ((0, 0),)]),
        "num_overflow_quads": len(quads),
        "block": plan.block,
        "blocks": plan.blocks,
        "full_blocks": plan.full_blocks,
        "blocks_at_once": plan.blocks_at_once,
        "channel_bytes": variant.channel_bytes,
        **({"packed": plan.order_nr * variant.order.fmt.lanes} if variant.shares else {}),
        "mr": plan.tile[1],
        **({"tail": plan.tail} if isinstance(variant.width, Extent) else {}),
        "chunk": plan.chunk,
        "chunks": plan.chunks,
        "tile": braces(tiles),
        "at_padding_row": scratch.padding_row,
        "at_im2col": scratch.im2col_buffer,
        "at_window_sums": scratch.sums,
        "at_acc": scratch.acc,
        "work": plan.work,
        "by_blocks": int(plan.by_blocks),
        "threads": plan.layer.threads,
    }
