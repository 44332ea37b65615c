"""Strings that a run brings or makes.

In the graph a string is an int64 that stands for it, so that nodes which only move or choose
strings are imported as for numbers; ``ImportState.texts`` has the values that are such. Strings
that are known when compiling are places in a list for as long as that is enough, see ``names``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from tvmrt.compiler.ir import DTYPES, Value, broadcast, constant
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .definitions import definition_of, rule_of, type_rule
from .halves import HALF
from .import_state import ImportState
from .names import LOOKS_UP
from .registry import Importer, find, onnx_op
from .tensors import nodes

HEAP_BYTES = 1 << 20  # for the strings that a run makes

_STRING = "tensor(string)"
# Operators that look at strings by their importers, or move them alone; of these, those that make
# strings. string_op enters more.
_SERVED = {
    ("", name)
    for name in (
        "Cast CenterCropPad Compress Concat DepthToSpace Equal Expand Flatten Gather "
        "GatherElements GatherND Identity Pad Reshape ReverseSequence Scatter ScatterElements "
        "ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where"
    ).split()
}
_MAKERS: set[tuple[str, str]] = set()


def string_op(*names: str, domain: str = "", makes: bool = False) -> Callable[[Importer], Importer]:
    """Decorator: the function imports these operators, whose operands may be strings.

    ``makes``: whether their results are strings that take memory.
    """
    keys = [(domain, name) for name in names]
    _SERVED.update(keys)
    if makes:
        _MAKERS.update(keys)
    return onnx_op(*names, domain=domain)


def reserve(state: ImportState) -> None:
    """Make the memory for strings the network's first node, if any node makes strings."""
    if any(map(_makes, nodes(state.model))):
        state.text_heap = state.builder.emit("text_heap", [], "strings", bytes=HEAP_BYTES)


def heap_of(state: ImportState) -> Value:
    """The memory for strings that a run makes, which is empty when it begins."""
    if state.text_heap is None or state.text_heap.producer not in state.graph.nodes:
        raise UnsupportedError("it produces strings in a loop body; do that before the loop")
    return state.text_heap


def among(state: ImportState, values: Sequence[object]) -> list[int]:
    """Which of the values are strings."""
    return [i for i, v in enumerate(values) if isinstance(v, Value) and v in state.texts]


def marked(state: ImportState, value: Value) -> Value:
    """The value, whose elements stand for strings."""
    state.texts.add(value)
    return value


def written(state: ImportState, value: Value) -> Value:
    """Places of names as the strings themselves; other values as they are."""
    names = state.names.get(value)
    if names is None:
        return value
    check_plain(names)
    emit = state.builder.emit
    table = emit("texts", [], "texts", values=tuple(names), shape=(len(names),))
    if value.data is not None:
        value = constant(value.data, f"{value.name}_places")
    return marked(state, emit("gather", [table, value], value.name, axis=0))


def alike(state: ImportState, a: Value, b: Value) -> tuple[Value, Value]:
    """Two values of which the run chooses one, as strings if one is."""
    if not among(state, [a, b]) and not state.names.among([a, b]):
        return a, b
    return written(state, a), written(state, b)


def prepared(
    state: ImportState, node: onnx.NodeProto, opset: int, inputs: Sequence[Value | None]
) -> list[Value | None]:
    """The inputs as the node's importer takes them. Raises UnsupportedError where it takes no
    strings."""
    names = state.names
    named, held = names.among(inputs), among(state, inputs)
    if not named and not held:
        return list(inputs)
    if node.domain == "ai.onnx.ml" and node.op_type in LOOKS_UP:
        return list(inputs)
    if not held and names.carries(node, inputs):
        return list(inputs)
    if (node.domain, node.op_type) in state.functions:
        return list(inputs)
    definition = definition_of(node.op_type, opset, node.domain)
    if not all(_serves(node, definition, i) for i in (*named, *held)):
        raise UnsupportedError("it handles strings; do that before or after the network")
    return [written(state, v) if v is not None and i in named else v for i, v in enumerate(inputs)]


def carry(
    state: ImportState,
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
) -> None:
    """Mark what has the type of an input that is strings."""
    definition = definition_of(node.op_type, opset, node.domain)
    if definition is None:
        return
    held = {type_rule(definition.inputs, i) for i in among(state, inputs)}
    for i, value in enumerate(outputs):
        if isinstance(value, Value) and type_rule(definition.outputs, i) in held:
            state.texts.add(value)


def _makes(node: onnx.NodeProto) -> bool:
    """Whether a node may make strings."""
    to = [a.i for a in node.attribute if a.name == "to"]
    cast = node.op_type == "Cast" and to == [onnx.TensorProto.STRING]
    return cast or _key(node) in _MAKERS


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    """The node's operator, whose importer has been entered if there is one."""
    find(node.domain, node.op_type)
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _serves(node: onnx.NodeProto, definition: onnx.defs.OpSchema | None, index: int) -> bool:
    """Whether an operator takes strings: the numbers that stand for them cannot be sorted, summed
    up or held against 0."""
    key = _key(node)
    if key not in _SERVED:
        return False
    if definition is None:
        return bool(key[0])  # of a domain that the onnx package does not have
    rule = rule_of(definition.inputs, index)
    reductions = [a.s for a in node.attribute if a.name == "reduction"]
    return rule is not None and _STRING in rule.types and reductions in ([], [b"none"])


def check_plain(texts: Sequence[str]) -> None:
    """Strings of C end with a NUL."""
    if any("\0" in text for text in texts):
        raise UnsupportedError("a string contains a NUL character, which is not supported")


def operand(ctx: NodeContext, index: int) -> Value:
    """Strings by position."""
    value = ctx.required(index)
    if value not in ctx.importer.texts:
        raise ValueError(f"input {index} has {value.dtype} elements; strings are expected")
    return value


def made(ctx: NodeContext, op: str, *operands: Value, **attrs) -> Value:
    """Strings that take memory."""
    heap = heap_of(ctx.importer)
    return marked(ctx.importer, ctx.emit(op, [heap, *operands], **attrs))


def equal(ctx: NodeContext) -> Value:
    """ONNX's Equal on strings."""
    a, b = operand(ctx, 0), operand(ctx, 1)
    shape = broadcast(a.shape, b.shape)
    return ctx.emit("text_equal", [ctx.expand(a, shape), ctx.expand(b, shape)])


def cast_to_text(ctx: NodeContext, x: Value) -> Value:
    """ONNX's Cast to strings."""
    if x in ctx.importer.texts:
        return x
    if x.dtype.is_float:
        single = x.dtype.name == "float32" and ctx.half_of(x) is None
        wide = ctx.cast(x, "float64")
        return made(ctx, "number_to_text", wide, single=single)
    if not x.dtype.is_int or x.dtype.name == "uint64":
        raise UnsupportedError(
            f"{x.dtype} elements cannot be cast to strings; cast them to int64 first"
        )
    wide = ctx.cast(x, "int64")
    return made(ctx, "number_to_text", wide, single=False)


def cast_from_text(ctx: NodeContext, x: Value, to: str) -> Value:
    """ONNX's Cast of strings to numbers."""
    if to == "bool":
        raise UnsupportedError("strings cannot be cast to bool; compare them with Equal")
    floats = to in HALF or DTYPES[to].is_float
    y = ctx.emit("text_to_number", [x], to="float64" if floats else "int64")
    return ctx.converted(y, to)


def found(ctx: NodeContext, x: Value, keys: Sequence[str]) -> tuple[Value, list[str]]:
    """The places of strings among keys, -1 where they are none, and the different keys."""
    kept = list(dict.fromkeys(keys))
    check_plain(kept)
    return ctx.emit("text_find", [x], keys=tuple(kept)), kept
