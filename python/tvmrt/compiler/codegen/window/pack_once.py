"""Weights that the first run packs, since the library has them in the network's order alone."""

from __future__ import annotations

from ..c.initializers import print_struct
from ..c.writer import FunctionWriter
from .packing_f32 import Order
from .packing_i8 import OrderI8


def packed_once(
    f: FunctionWriter, order: Order, block: int, weights: str, own: str, name: str = "order"
) -> str:
    """The pointer to packed floats, in blocks of so many channels.

    ``weights`` and ``own`` are C expressions: where they lie, and memory of the run. ``name`` is
    another for each of a function's.
    """
    kept = _kept(f, "float", order.floats(block))
    f.include("pack_f32.h")
    print_struct(f, f"static const tvmrt_pack_f32 {name}", order.members(block))
    packed = f.fresh("packed")
    call = f"tvmrt_pack_once_f32(&{name}, {weights}, &{kept}, {own})"
    f.line(f"const float *const {packed} = {call};")
    return packed


def packed_once_i8(f: FunctionWriter, order: OrderI8, weights: str, zeros: str, own: str) -> str:
    """The pointer to packed 8-bit integers; ``zeros``: to the zero points of the weights."""
    kept = _kept(f, "int16_t" if order.wide else "int8_t", order.elements)
    f.include("pack_i8.h")
    print_struct(f, "static const tvmrt_pack_i8 order", order.members())
    return f"tvmrt_pack_once_i8(&order, {weights}, {zeros}, &{kept}, {own})"


def _kept(f: FunctionWriter, kind: str, size: int) -> str:
    """Memory for packed weights that is as long as the library's, and no part of its file."""
    kept, weights, state = (f.own(ending) for ending in ("_kept", "_weights", "_state"))
    f.helper(
        f"static {kind} {weights}[{size}];\n"
        f"static int {state};\n"
        f"static const tvmrt_kept {kept} = {{{weights}, &{state}}};\n"
    )
    return kept
