"""Weights that the first run packs, because the library stores only the network's order."""

from __future__ import annotations

from ..c.initializers import print_struct
from ..c.writer import FunctionWriter
from .packing_f32 import PackingOrder
from .packing_i8 import PackingOrderI8


def print_pack_once(
    f: FunctionWriter, order: PackingOrder, block: int, weights: str, own: str, name: str = "order"
) -> str:
    """Return the pointer to packed floats, in blocks of ``block`` channels.

    ``weights`` and ``own`` are C expressions for the weights and for memory of the run. ``name`` is
    unique within a function.
    """
    memory = _declare_packed_memory(f, "float", order.floats(block))
    f.include("pack_f32.h")
    print_struct(f, f"static const tvmrt_pack_f32 {name}", order.members(block))
    packed = f.fresh("packed")
    call = f"tvmrt_pack_once_f32(&{name}, {weights}, &{memory}, {own})"
    f.line(f"const float *const {packed} = {call};")
    return packed


def print_pack_once_i8(
    f: FunctionWriter, order: PackingOrderI8, weights: str, zeros: str, own: str
) -> str:
    """Return a call that packs 8-bit integers; ``zeros`` points to the weights' zero points."""
    packed = _declare_packed_memory(f, "int16_t" if order.wide else "int8_t", order.elements)
    f.include("pack_i8.h")
    print_struct(f, "static const tvmrt_pack_i8 order", order.members())
    return f"tvmrt_pack_once_i8(&order, {weights}, {zeros}, &{packed}, {own})"


def _declare_packed_memory(f: FunctionWriter, kind: str, size: int) -> str:
    """Declare memory for packed weights with the library's lifetime, outside of its file."""
    kept, weights, state = (f.static_symbol(ending) for ending in ("_kept", "_weights", "_state"))
    f.helper(
        f"static {kind} {weights}[{size}];\n"
        f"static int {state};\n"
        f"static const tvmrt_packed_weights {kept} = {{{weights}, &{state}}};\n"
    )
    return kept
