"""Strings that a run brings or makes.

In the graph a string is an int64 that stands for it, so that nodes which only move or choose
strings are imported as for numbers; ``ImportState.texts`` has the values that are such. Strings
that are known when compiling are places in a list for as long as that is enough, see ``names``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvmrt.compiler.ir import DTYPES, Value, broadcast, constant
from tvmrt.compiler.ir.extent import Whole, most
from tvmrt.error import UnsupportedError

from . import regex
from .context import NodeContext
from .definitions import definition_of, rule_of, type_rule
from .halves import HALF
from .import_state import ImportState
from .names import LOOKS_UP
from .registry import onnx_op
from .tensors import nodes

HEAP_BYTES = 1 << 20  # for the strings that a run makes
MOST_PARTS = 64  # of a string that is split
MOST_TOKENS = 1024  # of a string

_STRING = "tensor(string)"
_SERVED = frozenset(
    "ArrayFeatureExtractor Cast CenterCropPad Compress Concat DepthToSpace Equal Expand Flatten "
    "Gather GatherElements GatherND Identity Pad RegexFullMatch Reshape ReverseSequence Scatter "
    "ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze StringConcat "
    "StringNormalizer StringSplit TfIdfVectorizer Tile Tokenizer Transpose Unsqueeze Where".split()
)
_MAKERS = frozenset(["StringConcat", "StringNormalizer", "StringSplit", "Tokenizer"])


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
    _check_plain(names)
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
    return cast or node.op_type in _MAKERS


def _serves(node: onnx.NodeProto, definition: onnx.defs.OpSchema | None, index: int) -> bool:
    """Whether an operator looks at strings by importers of this module, or moves them alone: the
    numbers that stand for them cannot be sorted, summed up or held against 0."""
    if node.domain == "com.microsoft":
        return node.op_type == "Tokenizer"
    rule = None if definition is None else rule_of(definition.inputs, index)
    if rule is None or _STRING not in rule.types:
        return False
    reductions = [a.s for a in node.attribute if a.name == "reduction"]
    return node.op_type in _SERVED and reductions in ([], [b"none"])


def _check_plain(texts: Sequence[str]) -> None:
    """Strings of C end with a NUL."""
    if any("\0" in text for text in texts):
        raise UnsupportedError("a string contains a NUL character, which is not supported")


def _operand(ctx: NodeContext, index: int) -> Value:
    """Strings by position."""
    value = ctx.required(index)
    if value not in ctx.importer.texts:
        raise ValueError(f"input {index} has {value.dtype} elements; strings are expected")
    return value


def _made(ctx: NodeContext, op: str, *operands: Value, **attrs) -> Value:
    """Strings that take memory."""
    heap = heap_of(ctx.importer)
    return marked(ctx.importer, ctx.emit(op, [heap, *operands], **attrs))


def equal(ctx: NodeContext) -> Value:
    """ONNX's Equal on strings."""
    a, b = _operand(ctx, 0), _operand(ctx, 1)
    shape = broadcast(a.shape, b.shape)
    return ctx.emit("text_equal", [ctx.expand(a, shape), ctx.expand(b, shape)])


@onnx_op("StringConcat")
def string_concat(ctx: NodeContext) -> Value:
    a, b = _operand(ctx, 0), _operand(ctx, 1)
    shape = broadcast(a.shape, b.shape)
    return _made(ctx, "text_join", ctx.expand(a, shape), ctx.expand(b, shape))


@onnx_op("RegexFullMatch")
def regex_full_match(ctx: NodeContext) -> Value:
    classes, table = regex.compiled(ctx.attr("pattern", ""))
    return ctx.emit("text_match", [_operand(ctx, 0), ctx.const(classes), ctx.const(table)])


def _most_of(ctx: NodeContext, counts: Value, limit: int, what: str) -> Whole:
    """The greatest of the counts, which no run may have above the limit."""
    if not most(counts.type.size):
        return 0
    flat = ctx.reshape(counts, (counts.type.size,))
    widest = ctx.emit("reduce_max", [flat], axes=(0,), keepdims=0)
    return ctx.found(widest, 0, limit, what)


@onnx_op("StringSplit")
def string_split(ctx: NodeContext) -> list[Value]:
    x, delimiter = _operand(ctx, 0), ctx.attr("delimiter") or ""
    _check_plain([delimiter])
    cuts = ctx.attr("maxsplit")
    limit = min(int(cuts) + 1, MOST_PARTS) if cuts is not None and cuts >= 0 else None
    parts = limit or 1 << 30
    counts = ctx.emit("text_parts", [x], delimiter=delimiter, most=parts)
    width = _most_of(ctx, counts, limit or MOST_PARTS, "parts of a string")
    y = _made(ctx, "text_split", x, delimiter=delimiter, most=parts, width=width)
    return [y, counts]


@onnx_op("Tokenizer", domain="com.microsoft")
def tokenizer(ctx: NodeContext) -> Value:
    """Of onnxruntime: what a pattern finds in each string; scikit-learn's vectorizers begin so."""
    x, pattern = _operand(ctx, 0), ctx.attr("tokenexp")
    if pattern is None or ctx.attr("mark", 0):
        raise UnsupportedError("separators or mark are set; only tokenexp is supported")
    pad, least = ctx.attr("pad_value", ""), max(ctx.attr("mincharnum", 1), 1)
    _check_plain([pad])
    automaton = [ctx.const(table) for table in regex.searching(pattern)]
    counts = ctx.emit("text_tokens_count", [x, *automaton], least=least)
    width = _most_of(ctx, counts, MOST_TOKENS, "tokens of a string")
    return _made(ctx, "text_tokens", x, *automaton, least=least, width=width, pad=pad)


@onnx_op("StringNormalizer")
def string_normalizer(ctx: NodeContext) -> Value:
    x = _operand(ctx, 0)
    action = ctx.attr("case_change_action", "NONE")
    stops = list(dict.fromkeys(ctx.attr("stopwords") or []))
    if action not in ("NONE", "UPPER", "LOWER"):
        raise ValueError(f"case_change_action is {action}, expected NONE, UPPER or LOWER")
    if len(x.shape) not in (1, 2) or (len(x.shape) == 2 and x.shape[0] != 1):
        raise ValueError(f"input 0 is {x.type}, expected [C] or [1, C]")
    flat = ctx.reshape(x, (x.type.size,))
    if stops:
        flat = _without(ctx, flat, stops)
    if action != "NONE":
        flat = _made(ctx, "text_case", flat, to=action.lower())
    shape = flat.shape if len(x.shape) == 1 else (1, *flat.shape)
    return marked(ctx.importer, ctx.reshape(flat, shape))


def _without(ctx: NodeContext, x: Value, stops: list[str]) -> Value:
    """Strings that are no stop words; an empty one where all are."""
    asked = x
    if not ctx.attr("is_case_sensitive", 0):
        stops = list(dict.fromkeys(_lower(word) for word in stops))
        asked = _made(ctx, "text_case", x, to="lower")
    _check_plain(stops)
    place = ctx.emit("text_find", [asked], keys=tuple(stops))
    kept = ctx.emit("less", [place, ctx.like(0, place)])
    number = ctx.emit("count_nonzero", [kept])
    number = ctx.emit("max", [number, ctx.const(1, np.int64)])
    limit = x.shape[0] if most(x.shape[0]) else 1
    count = ctx.found(number, 1, limit, "strings")
    return ctx.emit("text_keep", [x, kept], count=count)


def _lower(word: str) -> str:
    """In lower case as the run does it: what becomes several code points stays."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in word)


def cast_to_text(ctx: NodeContext, x: Value) -> Value:
    """ONNX's Cast to strings."""
    if x in ctx.importer.texts:
        return x
    if x.dtype.is_float:
        single = x.dtype.name == "float32" and ctx.half_of(x) is None
        wide = ctx.cast(x, "float64")
        return _made(ctx, "number_to_text", wide, single=single)
    if not x.dtype.is_int or x.dtype.name == "uint64":
        raise UnsupportedError(
            f"{x.dtype} elements cannot be cast to strings; cast them to int64 first"
        )
    wide = ctx.cast(x, "int64")
    return _made(ctx, "number_to_text", wide, single=False)


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
    _check_plain(kept)
    return ctx.emit("text_find", [x], keys=tuple(kept)), kept
