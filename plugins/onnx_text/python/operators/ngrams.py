"""TfIdfVectorizer: n-gram counts of rows."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, is_text, string_op, to_handles
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_text.operators.text import find_strings

MODES = ("TF", "IDF", "TFIDF")


def _required(ctx: NodeContext, name: str):
    value = ctx.attr(name)
    if value is None:
        raise ValueError(f"attribute {name} is missing")
    return value


def _pool(ctx: NodeContext, x: Value) -> tuple[Value, np.ndarray]:
    """Return the rows and the n-gram pool as numbers."""
    words, numbers = ctx.attr("pool_strings"), ctx.attr("pool_int64s")
    if (words is None) == (numbers is None):
        raise ValueError("give one of pool_int64s and pool_strings")
    if numbers is not None:
        if is_text(x):
            raise ValueError("pool_int64s is given, the input has strings")
        return ctx.cast(x, "int64"), np.asarray(numbers, np.int64)
    x = to_handles(ctx.builder, x)
    if not is_text(x):
        raise ValueError(f"pool_strings is given, the input has {x.dtype} elements")
    found, kept = find_strings(ctx, x, words)
    positions = {word: i for i, word in enumerate(kept)}
    return found, np.array([positions[word] for word in words], np.int64)


def _sorted_grams(ctx: NodeContext, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the n-grams by length, each group sorted; their columns; the group sizes."""
    starts, columns = _required(ctx, "ngram_counts"), _required(ctx, "ngram_indexes")
    grams, order, lengths, first = [], [], [], 0
    ends = [*starts[1:], pool.size]
    for n, (start, end) in enumerate(zip(starts, ends), 1):
        if not 0 <= start <= end <= pool.size or (end - start) % n:
            raise ValueError(f"ngram_counts {starts} does not divide a pool of {pool.size}")
        rows = pool[start:end].reshape(-1, n)
        positions = np.lexsort(rows.T[::-1])
        grams.append(rows[positions].reshape(-1))
        order += (first + positions).tolist()
        lengths.append(len(rows))
        first += len(rows)
    if len(columns) != first or min(columns, default=0) < 0:
        raise ValueError(f"there are {len(columns)} ngram_indexes for {first} n-grams")
    return np.concatenate(grams), np.asarray(columns, np.int32)[order], lengths


@string_op("TfIdfVectorizer")
def tf_idf_vectorizer(ctx: NodeContext) -> Value:
    x, mode = ctx.required(0), _required(ctx, "mode")
    least, longest = _required(ctx, "min_gram_length"), _required(ctx, "max_gram_length")
    if mode not in MODES:
        raise ValueError(f"mode is {mode}, expected one of {', '.join(MODES)}")
    if len(x.shape) not in (1, 2):
        raise ValueError(f"input 0 is {x.type}, expected [C] or [N, C]")
    if not 1 <= least <= longest:
        raise ValueError(f"min_gram_length {least} must be from 1 to max_gram_length {longest}")
    rows, pool = _pool(ctx, x)
    grams, columns, lengths = _sorted_grams(ctx, pool)
    lengths = (lengths + [0] * longest)[:longest]
    kept = sum(lengths)
    total = sum(n * count for n, count in enumerate(lengths, 1))
    width = max(_required(ctx, "ngram_indexes"), default=-1) + 1
    ctx.check_table_size(width, "the columns")
    one_row = len(x.shape) == 1
    counts = ctx.emit(
        "count_ngrams",
        [
            ctx.reshape(rows, (1, *x.shape) if one_row else x.shape),
            ctx.const(grams[:total], np.int64),
            ctx.const(columns[:kept], np.int32),
        ],
        lengths=tuple(lengths),
        least=least,
        skips=_required(ctx, "max_skip_count"),
        width=width,
    )
    y = _apply_weights(ctx, counts, mode, width)
    return ctx.reshape(y, (width,)) if one_row else y


def _apply_weights(ctx: NodeContext, counts: Value, mode: str, width: int) -> Value:
    """Apply ``mode`` and ``weights``, one per n-gram of the pool in the order of ngram_indexes."""
    if mode == "TF":
        return counts
    weights, columns = ctx.attr("weights"), _required(ctx, "ngram_indexes")
    row = np.ones(width, np.float32)
    if weights is not None:
        if len(weights) != len(columns):
            raise ValueError(f"there are {len(weights)} weights for {len(columns)} n-grams")
        row[np.asarray(columns, np.int64)] = weights
    if mode == "IDF":
        is_present = ctx.emit("greater", [counts, ctx.like(0, counts)])
        return ctx.emit("where", [is_present, ctx.const(row), ctx.like(0, counts)])
    return ctx.emit("mul", [counts, ctx.const(row)])
