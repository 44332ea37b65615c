"""Operators that create strings from strings and search them."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.frontend.onnx.context import NodeContext
from tvmrt.compiler.frontend.onnx.text import check_plain, made, marked, operand, string_op
from tvmrt.compiler.ir import Value, broadcast
from tvmrt.compiler.ir.extent import SymInt, upper_bound
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_text.operators import regex

MOST_PARTS = 64  # maximum number of parts of a split string
MOST_TOKENS = 1024  # maximum number of tokens of a string


@string_op("StringConcat", makes=True)
def string_concat(ctx: NodeContext) -> Value:
    a, b = operand(ctx, 0), operand(ctx, 1)
    shape = broadcast(a.shape, b.shape)
    return made(ctx, "text_join", ctx.expand(a, shape), ctx.expand(b, shape))


@string_op("RegexFullMatch")
def regex_full_match(ctx: NodeContext) -> Value:
    classes, table = regex.compiled(ctx.attr("pattern", ""))
    return ctx.emit("text_match", [operand(ctx, 0), ctx.const(classes), ctx.const(table)])


def _most_of(ctx: NodeContext, counts: Value, limit: int, what: str) -> SymInt:
    """Return the maximum of the counts; a run in which it exceeds the limit fails."""
    if not upper_bound(counts.type.size):
        return 0
    flat = ctx.reshape(counts, (counts.type.size,))
    widest = ctx.emit("reduce_max", [flat], axes=(0,), keepdims=0)
    return ctx.data_dependent_extent(widest, 0, limit, what)


@string_op("StringSplit", makes=True)
def string_split(ctx: NodeContext) -> list[Value]:
    x, delimiter = operand(ctx, 0), ctx.attr("delimiter") or ""
    check_plain([delimiter])
    cuts = ctx.attr("maxsplit")
    limit = min(int(cuts) + 1, MOST_PARTS) if cuts is not None and cuts >= 0 else None
    parts = limit or 1 << 30
    counts = ctx.emit("text_parts", [x], delimiter=delimiter, most=parts)
    width = _most_of(ctx, counts, limit or MOST_PARTS, "parts of a string")
    y = made(ctx, "text_split", x, delimiter=delimiter, most=parts, width=width)
    return [y, counts]


@string_op("Tokenizer", domain="com.microsoft", makes=True)
def tokenizer(ctx: NodeContext) -> Value:
    """onnxruntime's Tokenizer: all matches of a pattern. scikit-learn's vectorizers use it."""
    x, pattern = operand(ctx, 0), ctx.attr("tokenexp")
    if pattern is None or ctx.attr("mark", 0):
        raise UnsupportedError("separators or mark are set; only tokenexp is supported")
    pad, least = ctx.attr("pad_value", ""), max(ctx.attr("mincharnum", 1), 1)
    check_plain([pad])
    automaton = [ctx.const(table) for table in regex.searching(pattern)]
    counts = ctx.emit("text_tokens_count", [x, *automaton], least=least)
    width = _most_of(ctx, counts, MOST_TOKENS, "tokens of a string")
    return made(ctx, "text_tokens", x, *automaton, least=least, width=width, pad=pad)


@string_op("StringNormalizer", makes=True)
def string_normalizer(ctx: NodeContext) -> Value:
    x = operand(ctx, 0)
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
        flat = made(ctx, "text_case", flat, to=action.lower())
    shape = flat.shape if len(x.shape) == 1 else (1, *flat.shape)
    return marked(ctx.importer, ctx.reshape(flat, shape))


def _without(ctx: NodeContext, x: Value, stops: list[str]) -> Value:
    """Remove stop words; if all strings are stop words, return one empty string."""
    asked = x
    if not ctx.attr("is_case_sensitive", 0):
        stops = list(dict.fromkeys(_lower(word) for word in stops))
        asked = made(ctx, "text_case", x, to="lower")
    check_plain(stops)
    place = ctx.emit("text_find", [asked], keys=tuple(stops))
    kept = ctx.emit("less", [place, ctx.like(0, place)])
    number = ctx.emit("count_nonzero", [kept])
    number = ctx.emit("max", [number, ctx.const(1, np.int64)])
    limit = x.shape[0] if upper_bound(x.shape[0]) else 1
    count = ctx.data_dependent_extent(number, 1, limit, "strings")
    return ctx.emit("text_keep", [x, kept], count=count)


def _lower(word: str) -> str:
    """Convert to lower case as the runtime does: skip results of several code points."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in word)
