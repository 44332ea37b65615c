"""Memory for strings, string operands, and ONNX's Equal and Cast of strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmrt.compiler.sdk.frontend import NodeContext, check_no_nul, is_text
from tvmrt.compiler.sdk.graph import Value, broadcast
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_text.operators import string_lowerings  # noqa: F401  (registers them)

HEAP_BYTES = 1 << 20  # memory for the strings created by a run


def reserve(state: Any) -> None:
    """Reserve memory for the strings that a run creates, in the network's first node."""
    state.builder.emit("text_heap", [], "strings", bytes=HEAP_BYTES)


def emit_strings(ctx: NodeContext, op: str, *operands: Value, **attrs: Any) -> Value:
    """Emit an operator whose results are strings that take memory."""
    first = ctx.importer.graph.nodes[0] if ctx.importer.graph.nodes else None
    if first is None or first.op != "text_heap":
        raise UnsupportedError("it produces strings in a loop body; do that before the loop")
    return ctx.emit(op, [first.output, *operands], **attrs)


def string_operand(ctx: NodeContext, index: int) -> Value:
    """Return an operand of strings by index."""
    value = ctx.required(index)
    if not is_text(value):
        raise ValueError(f"input {index} has {value.dtype} elements; strings are expected")
    return value


def equal(ctx: NodeContext) -> Value:
    """Import ONNX's Equal on strings."""
    a, b = string_operand(ctx, 0), string_operand(ctx, 1)
    shape = broadcast(a.shape, b.shape)
    return ctx.emit("text_equal", [ctx.expand(a, shape), ctx.expand(b, shape)])


def cast_to_text(ctx: NodeContext, x: Value) -> Value:
    """Import ONNX's Cast to strings."""
    if not (x.dtype.is_float or x.dtype.is_int) or x.dtype.name == "uint64":
        raise UnsupportedError(
            f"{x.dtype} elements cannot be cast to strings; cast them to int64 first"
        )
    single = x.type.element == "float32"
    wide = ctx.cast(x, "float64" if x.dtype.is_float else "int64")
    return emit_strings(ctx, "number_to_text", wide, single=single)


def cast_from_text(ctx: NodeContext, x: Value, to: str) -> Value:
    """Import ONNX's Cast of strings to numbers."""
    if to == "bool":
        raise UnsupportedError("strings cannot be cast to bool; compare them with Equal")
    y = ctx.emit("text_to_number", [x], to="float64" if "float" in to else "int64")
    return ctx.convert(y, to)


def find_strings(ctx: NodeContext, x: Value, keys: Sequence[str]) -> tuple[Value, list[str]]:
    """Return the indices of strings among keys (-1 if absent), and the distinct keys."""
    kept = list(dict.fromkeys(keys))
    check_no_nul(kept)
    return ctx.emit("text_find", [x], keys=tuple(kept)), kept
