"""Operators that create strings from strings and search them."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, check_no_nul, string_op
from tvmrt.compiler.sdk.graph import SymInt, Value, broadcast, upper_bound
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_text.operators.text import emit_strings, string_operand
from tvmrt.plugins.onnx_text.operators.token_pattern import search_automaton

MAX_PARTS = 64  # maximum number of parts of a split string
MAX_TOKENS = 1024  # maximum number of tokens of a string


@string_op("StringConcat", creates_strings=True)
def string_concat(ctx: NodeContext) -> Value:
    a, b = string_operand(ctx, 0), string_operand(ctx, 1)
    shape = broadcast(a.shape, b.shape)
    return emit_strings(ctx, "text_join", ctx.expand(a, shape), ctx.expand(b, shape))


def _max_count(ctx: NodeContext, counts: Value, limit: int, what: str) -> SymInt:
    """Return the maximum of the counts; a run in which it exceeds the limit fails."""
    if not upper_bound(counts.type.size):
        return 0
    flat = ctx.reshape(counts, (counts.type.size,))
    widest = ctx.emit("reduce_max", [flat], axes=(0,), keepdims=0)
    return ctx.data_dependent_extent(widest, 0, limit, what)


@string_op("StringSplit", creates_strings=True)
def string_split(ctx: NodeContext) -> list[Value]:
    x, delimiter = string_operand(ctx, 0), ctx.attr("delimiter") or ""
    check_no_nul([delimiter])
    cuts = ctx.attr("maxsplit")
    limit = min(int(cuts) + 1, MAX_PARTS) if cuts is not None and cuts >= 0 else None
    parts = limit or 1 << 30
    counts = ctx.emit("text_parts", [x], delimiter=delimiter, most=parts)
    width = _max_count(ctx, counts, limit or MAX_PARTS, "parts of a string")
    y = emit_strings(ctx, "text_split", x, delimiter=delimiter, most=parts, width=width)
    return [y, counts]


@string_op("Tokenizer", domain="com.microsoft", creates_strings=True)
def tokenizer(ctx: NodeContext) -> Value:
    """onnxruntime's Tokenizer: all tokens of a pattern. scikit-learn's vectorizers use it."""
    x, pattern = string_operand(ctx, 0), ctx.attr("tokenexp")
    if pattern is None or ctx.attr("mark", 0):
        raise UnsupportedError("separators or mark are set; only tokenexp is supported")
    pad, least = ctx.attr("pad_value", ""), max(ctx.attr("mincharnum", 1), 1)
    check_no_nul([pad])
    automaton = [ctx.const(table) for table in search_automaton(pattern)]
    counts = ctx.emit("text_tokens_count", [x, *automaton], least=least)
    width = _max_count(ctx, counts, MAX_TOKENS, "tokens of a string")
    return emit_strings(ctx, "text_tokens", x, *automaton, least=least, width=width, pad=pad)


@string_op("StringNormalizer", creates_strings=True)
def string_normalizer(ctx: NodeContext) -> Value:
    x = string_operand(ctx, 0)
    action = ctx.attr("case_change_action", "NONE")
    stops = list(dict.fromkeys(ctx.attr("stopwords") or []))
    if action not in ("NONE", "UPPER", "LOWER"):
        raise ValueError(f"case_change_action is {action}, expected NONE, UPPER or LOWER")
    if len(x.shape) not in (1, 2) or (len(x.shape) == 2 and x.shape[0] != 1):
        raise ValueError(f"input 0 is {x.type}, expected [C] or [1, C]")
    flat = ctx.reshape(x, (x.type.size,))
    if stops:
        flat = _remove_stop_words(ctx, flat, stops)
    if action != "NONE":
        flat = emit_strings(ctx, "text_case", flat, to=action.lower())
    shape = flat.shape if len(x.shape) == 1 else (1, *flat.shape)
    return ctx.reshape(flat, shape)


def _remove_stop_words(ctx: NodeContext, x: Value, stops: list[str]) -> Value:
    """Remove stop words; if all strings are stop words, return one empty string."""
    compared = x
    if not ctx.attr("is_case_sensitive", 0):
        stops = list(dict.fromkeys(_lower(word) for word in stops))
        compared = emit_strings(ctx, "text_case", x, to="lower")
    check_no_nul(stops)
    stop_index = ctx.emit("text_find", [compared], keys=tuple(stops))
    is_kept = ctx.emit("less", [stop_index, ctx.like(0, stop_index)])
    kept_count = ctx.emit("count_nonzero", [is_kept])
    kept_count = ctx.emit("max", [kept_count, ctx.const(1, np.int64)])
    limit = x.shape[0] if upper_bound(x.shape[0]) else 1
    count = ctx.data_dependent_extent(kept_count, 1, limit, "strings")
    return ctx.emit("text_keep", [x, is_kept], count=count)


def _lower(word: str) -> str:
    """Convert to lower case as the runtime does: skip results of several code points."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in word)
