"""Strings that are inputs of a run or computed by it.

In the graph a string is an int64 handle, so nodes that only move or select strings are imported as
for numbers. ``ImportState.texts`` has the values with handles. Compile-time strings stay indices
into a string table as long as that is sufficient, see ``string_table``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from tvmrt.compiler.ir import DTYPES, Value, broadcast, constant
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .half_precision import HALF
from .import_state import ImportState
from .operator_schemas import find_schema, formal_parameter, formal_type
from .registry import Importer, find, onnx_op
from .string_table import LOOKUP_OPERATORS
from .tensors import nodes

HEAP_BYTES = 1 << 20  # memory for the strings created by a run

_STRING = "tensor(string)"
# Operators that support strings in their importers, or only move them; and those that create
# strings. string_op adds more.
_SUPPORTED = {
    ("", name)
    for name in (
        "Cast CenterCropPad Compress Concat DepthToSpace Equal Expand Flatten Gather "
        "GatherElements GatherND Identity Pad Reshape ReverseSequence Scatter ScatterElements "
        "ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where"
    ).split()
}
_CREATORS: set[tuple[str, str]] = set()


def string_op(
    *names: str, domain: str = "", creates_strings: bool = False
) -> Callable[[Importer], Importer]:
    """Decorator: register an importer of these operators, whose operands may be strings.

    ``creates_strings``: whether their results are strings that take memory.
    """
    keys = [(domain, name) for name in names]
    _SUPPORTED.update(keys)
    if creates_strings:
        _CREATORS.update(keys)
    return onnx_op(*names, domain=domain)


def reserve(state: ImportState) -> None:
    """Reserve memory for strings in the network's first node, if any node creates strings."""
    if any(map(_creates_strings, nodes(state.model))):
        state.text_heap = state.builder.emit("text_heap", [], "strings", bytes=HEAP_BYTES)


def heap_of(state: ImportState) -> Value:
    """Return the memory for strings created by a run; it is empty when the run begins."""
    if state.text_heap is None or state.text_heap.producer not in state.graph.nodes:
        raise UnsupportedError("it produces strings in a loop body; do that before the loop")
    return state.text_heap


def indices_of(state: ImportState, values: Sequence[object]) -> list[int]:
    """Return the indices of those values that are strings."""
    return [i for i, v in enumerate(values) if isinstance(v, Value) and v in state.texts]


def mark_strings(state: ImportState, value: Value) -> Value:
    """Mark a value whose elements are string handles."""
    state.texts.add(value)
    return value


def to_handles(state: ImportState, value: Value) -> Value:
    """Convert string table indices to string handles; other values are returned unchanged."""
    names = state.string_tables.get(value)
    if names is None:
        return value
    check_no_nul(names)
    emit = state.builder.emit
    table = emit("texts", [], "texts", values=tuple(names), shape=(len(names),))
    if value.data is not None:
        value = constant(value.data, f"{value.name}_places")
    return mark_strings(state, emit("gather", [table, value], value.name, axis=0))


def unify_strings(state: ImportState, a: Value, b: Value) -> tuple[Value, Value]:
    """Convert two values, one of which is selected at run time, to strings if one is a string."""
    if not indices_of(state, [a, b]) and not state.string_tables.indices_of([a, b]):
        return a, b
    return to_handles(state, a), to_handles(state, b)


def prepare_inputs(
    state: ImportState, node: onnx.NodeProto, opset: int, inputs: Sequence[Value | None]
) -> list[Value | None]:
    """Return the inputs as the node's importer expects them. Raises UnsupportedError if the
    operator does not support strings."""
    names = state.string_tables
    table_inputs, string_inputs = names.indices_of(inputs), indices_of(state, inputs)
    if not table_inputs and not string_inputs:
        return list(inputs)
    if node.domain == "ai.onnx.ml" and node.op_type in LOOKUP_OPERATORS:
        return list(inputs)
    if not string_inputs and names.passes_through(node, inputs):
        return list(inputs)
    if (node.domain, node.op_type) in state.functions:
        return list(inputs)
    definition = find_schema(node.op_type, opset, node.domain)
    if not all(_supports_strings(node, definition, i) for i in (*table_inputs, *string_inputs)):
        raise UnsupportedError("it handles strings; do that before or after the network")
    return [
        to_handles(state, v) if v is not None and i in table_inputs else v
        for i, v in enumerate(inputs)
    ]


def propagate_strings(
    state: ImportState,
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
) -> None:
    """Mark outputs that have the type of a string input."""
    definition = find_schema(node.op_type, opset, node.domain)
    if definition is None:
        return
    string_inputs = {formal_type(definition.inputs, i) for i in indices_of(state, inputs)}
    for i, value in enumerate(outputs):
        if isinstance(value, Value) and formal_type(definition.outputs, i) in string_inputs:
            state.texts.add(value)


def _creates_strings(node: onnx.NodeProto) -> bool:
    """Return whether a node may create strings."""
    to = [a.i for a in node.attribute if a.name == "to"]
    cast = node.op_type == "Cast" and to == [onnx.TensorProto.STRING]
    return cast or _key(node) in _CREATORS


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    """Return the key of the node's operator, and load its importer if there is one."""
    find(node.domain, node.op_type)
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _supports_strings(
    node: onnx.NodeProto, definition: onnx.defs.OpSchema | None, index: int
) -> bool:
    """Whether an operator supports strings: handles cannot be sorted, summed up or compared with
    0."""
    key = _key(node)
    if key not in _SUPPORTED:
        return False
    if definition is None:
        return bool(key[0])  # a domain that the onnx package does not know
    rule = formal_parameter(definition.inputs, index)
    reductions = [a.s for a in node.attribute if a.name == "reduction"]
    return rule is not None and _STRING in rule.types and reductions in ([], [b"none"])


def check_no_nul(texts: Sequence[str]) -> None:
    """Raise UnsupportedError for NUL characters, which end strings in C."""
    if any("\0" in text for text in texts):
        raise UnsupportedError("a string contains a NUL character, which is not supported")


def string_operand(ctx: NodeContext, index: int) -> Value:
    """Return an operand of strings by index."""
    value = ctx.required(index)
    if value not in ctx.importer.texts:
        raise ValueError(f"input {index} has {value.dtype} elements; strings are expected")
    return value


def emit_strings(ctx: NodeContext, op: str, *operands: Value, **attrs) -> Value:
    """Emit an operator whose results are strings that take memory."""
    heap = heap_of(ctx.importer)
    return mark_strings(ctx.importer, ctx.emit(op, [heap, *operands], **attrs))


def equal(ctx: NodeContext) -> Value:
    """Import ONNX's Equal on strings."""
    a, b = string_operand(ctx, 0), string_operand(ctx, 1)
    shape = broadcast(a.shape, b.shape)
    return ctx.emit("text_equal", [ctx.expand(a, shape), ctx.expand(b, shape)])


def cast_to_text(ctx: NodeContext, x: Value) -> Value:
    """Import ONNX's Cast to strings."""
    if x in ctx.importer.texts:
        return x
    if x.dtype.is_float:
        single = x.dtype.name == "float32" and ctx.half_of(x) is None
        wide = ctx.cast(x, "float64")
        return emit_strings(ctx, "number_to_text", wide, single=single)
    if not x.dtype.is_int or x.dtype.name == "uint64":
        raise UnsupportedError(
            f"{x.dtype} elements cannot be cast to strings; cast them to int64 first"
        )
    wide = ctx.cast(x, "int64")
    return emit_strings(ctx, "number_to_text", wide, single=False)


def cast_from_text(ctx: NodeContext, x: Value, to: str) -> Value:
    """Import ONNX's Cast of strings to numbers."""
    if to == "bool":
        raise UnsupportedError("strings cannot be cast to bool; compare them with Equal")
    floats = to in HALF or DTYPES[to].is_float
    y = ctx.emit("text_to_number", [x], to="float64" if floats else "int64")
    return ctx.convert(y, to)


def find_strings(ctx: NodeContext, x: Value, keys: Sequence[str]) -> tuple[Value, list[str]]:
    """Return the indices of strings among keys (-1 if absent), and the distinct keys."""
    kept = list(dict.fromkeys(keys))
    check_no_nul(kept)
    return ctx.emit("text_find", [x], keys=tuple(kept)), kept
