"""Operators of the IR that read or create the text of strings, and n-gram counts."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Contract, Kernel, Op, StringsOp, TextOp, holds, let, register

STRINGS = "op/string_tensors.h"


@register("text_heap")
class TextHeap(TextOp):
    """Empty memory for the strings that a run creates; it stays valid until the next run."""

    results_persist = True
    contract = Contract("-> y: uint8[bytes]", "bytes: int 64..", example={"bytes": 64})
    kernel = Kernel(STRINGS, "tvmrt_text_reset", "y bytes")


@register("text_equal")
class TextEqual(TextOp):
    """Compare strings for equality."""

    contract = Contract("a: int64[*S], b: int64[*S] -> y: bool[*S]")


@register("text_find")
class TextFind(TextOp):
    """Index of each string in ``keys``, a tuple of distinct ones; -1 if it is not among them."""

    contract = Contract(
        "x: int64[*S] -> y: int64[*S]",
        "keys: object",
        rules=[
            holds(
                "keys are a tuple of different strings",
                lambda keys: isinstance(keys, tuple) and len(set(keys)) == len(keys),
            )
        ],
        example={"keys": ("a", "b")},
    )


@register("text_join")
class TextJoin(StringsOp):
    """Concatenate a and b."""

    contract = Contract("heap: uint8[_], a: int64[*S], b: int64[*S] -> y: int64[*S]")
    kernel = Kernel(STRINGS, "tvmrt_text_join", "heap a b y.size y !strings")


@register("text_case")
class TextCase(StringsOp):
    """Convert to upper or lower case, code point by code point."""

    contract = Contract("heap: uint8[_], x: int64[*S] -> y: int64[*S]", "to: upper|lower")


@register("text_keep")
class TextKeep(StringsOp):
    """Select the strings for which ``kept`` is true, filled up to ``count`` with empty strings."""

    contract = Contract(
        "x: int64[N], kept: bool[N] -> y: int64[count]", "count: int 0..", example={"count": 2}
    )
    kernel = Kernel(STRINGS, "tvmrt_text_keep", "x kept x.size y y.size")


@register("text_parts")
class TextParts(TextOp):
    """Number of parts that text_split returns for each string."""

    contract = Contract("x: int64[*S] -> y: int64[*S]", "delimiter: text, most: int 1..")
    kernel = Kernel(STRINGS, "tvmrt_text_parts", "x y.size delimiter most y")


@register("text_split")
class TextSplit(StringsOp):
    """Split at delimiters, or at white space for an empty one; part ``most`` has the remainder.

    Rows of ``width`` are filled up with empty strings.
    """

    contract = Contract(
        "heap: uint8[_], x: int64[*S] -> y: int64[*S width]",
        "delimiter: text, most: int 1.., width: int 0..",
        example={"width": 2},
    )
    kernel = Kernel(STRINGS, "tvmrt_text_split", "heap x x.size delimiter most width y !strings")


class _Tokens(TextOp):
    rules = (
        holds(
            "classes are columns of table but the last three",
            lambda classes_data, C: bool(classes_data.max() < C - 3),
        ),
        holds("table has three states or more", lambda Q: Q >= 3),
        holds(
            "table leads to its states",
            lambda table_data, Q: bool(table_data.size and _within(table_data[:, :-2], Q)),
        ),
    )


_TOKEN_OPERANDS = "x: int64[*S], classes: constant uint8[256], table: constant int32[Q C]"


@register("text_tokens_count")
class TextTokensCount(_Tokens):
    """Number of tokens that text_tokens finds in each string."""

    contract = Contract(
        f"{_TOKEN_OPERANDS} -> y: int64[*S]",
        "least: int 1..",
        rules=_Tokens.rules,
        example={"C": 4},
    )
    kernel = Kernel(STRINGS, "tvmrt_text_tokens_count", "x x.size classes table C-3 least y")


@register("text_tokens")
class TextTokens(StringsOp):
    """Tokens that an automaton accepts in each string, from the left, each as long as possible.
    Tokens below ``least`` code points are dropped. Rows of ``width`` are filled up with ``pad``.

    ``table``: for each state the next by class, then whether it accepts before the end, a non-word
    byte, a word byte. A match starts in state 0, 1 or 2: after the start, or either kind of byte.
    """

    contract = Contract(
        f"heap: uint8[_], {_TOKEN_OPERANDS} -> y: int64[*S width]",
        "least: int 1.., width: int 0.., pad: text",
        rules=_Tokens.rules,
        example={"C": 4, "width": 2},
    )
    kernel = Kernel(
        STRINGS,
        "tvmrt_text_tokens",
        "heap x x.size classes table C-3 least width pad y !strings",
    )


def _within(table: np.ndarray, states: int) -> bool:
    return bool(table.min() >= 0 and table[:, :-1].max() < states)


@register("text_to_number")
class TextToNumber(TextOp):
    """Parse the number in each string; the run ends with an error if there is none."""

    contract = Contract("x: int64[*S] -> y: to[*S]", "to: dtype float64|int64")
    kernel = Kernel(STRINGS, "tvmrt_text_to_{to}", "x y.size y !strings")


@register("number_to_text")
class NumberToText(StringsOp):
    """Format numbers in decimal with as few digits as identify them; ``single``: identify them
    among float32 numbers."""

    contract = Contract("heap: uint8[_], x: float64|int64[*S] -> y: int64[*S]", "single: bool")


@register("count_ngrams")
class CountNgrams(Op):
    """Count the n-grams of each row, one column of the result for each n-gram.

    ``grams``: n-grams of one number, then of two and so on, ``lengths`` of each, sorted;
    ``columns``: the column of each. The numbers of an n-gram of at least ``least`` numbers are
    adjacent in the row, or have 1 to ``skips`` others between any two.
    """

    contract = Contract(
        "x: int64[N L], grams: constant int64[_], columns: constant int32[G] -> "
        "y: float32[N width]",
        "lengths: ints 0.., least: int 1.., skips: int 0.., width: int 0..",
        rules=[
            let("T", "the numbers in all grams", lambda lengths: sum(_numbers(lengths))),
            holds("there are columns for all grams", lambda G, lengths: sum(lengths) == G),
            holds("grams has T numbers", lambda grams, T: grams.size == T),
            holds(
                "columns are less than width",
                lambda columns_data, width: bool(
                    not columns_data.size or 0 <= columns_data.min() <= columns_data.max() < width
                ),
            ),
        ],
        example={"lengths": (1, 1), "width": 4, "G": 2, "grams": (3,), "L": 4},
    )


def _numbers(lengths) -> list[int]:
    return [count * (i + 1) for i, count in enumerate(lengths)]
