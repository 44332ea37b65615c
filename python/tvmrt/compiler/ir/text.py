"""Strings. Each is one int64, which stands for it: the graph moves and chooses them as it does
numbers, and the operators here are those that look at what they say."""

from __future__ import annotations

from math import prod

import numpy as np

from .contract import Contract, holds, let
from .op import Op, register


class TextOp(Op):
    """For hosts alone: a string is an address, and lives in memory that a board has not."""

    host_only = "it handles strings, which are not supported on boards; do that before the network"


@register("text_in")
class TextIn(TextOp):
    """Strings of an input."""

    contract = Contract("x: handle[*S] -> y: int64[*S]")


@register("text_out")
class TextOut(TextOp):
    """Strings as a result of the network."""

    contract = Contract("x: int64[*S] -> y: handle[*S]")


@register("texts")
class Texts(TextOp):
    """Constant strings, ``values``, a tuple of them in row-major order."""

    contract = Contract(
        "-> y: int64[*shape]",
        "values: object, shape: ints 0..",
        rules=[
            holds(
                "shape has as many elements as values",
                lambda values, shape: isinstance(values, tuple) and prod(shape) == len(values),
            )
        ],
        example={"values": ("a", "b"), "shape": (2,)},
    )


@register("text_heap")
class TextHeap(TextOp):
    """Memory for the strings that a run makes, empty; it stays until the next run."""

    keeps = True
    contract = Contract("-> y: uint8[bytes]", "bytes: int 64..", example={"bytes": 64})


@register("text_equal")
class TextEqual(TextOp):
    """Whether strings are the same."""

    contract = Contract("a: int64[*S], b: int64[*S] -> y: bool[*S]")


@register("text_find")
class TextFind(TextOp):
    """The place of each string among ``keys``, a tuple of different ones; -1 where it is none."""

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
class TextJoin(TextOp):
    """a, then b."""

    contract = Contract("heap: uint8[_], a: int64[*S], b: int64[*S] -> y: int64[*S]")


@register("text_case")
class TextCase(TextOp):
    """All in upper or in lower case, code point by code point."""

    contract = Contract("heap: uint8[_], x: int64[*S] -> y: int64[*S]", "to: upper|lower")


@register("text_keep")
class TextKeep(TextOp):
    """The strings for which kept holds, ``count`` of them; where those are fewer, empty ones."""

    contract = Contract(
        "x: int64[N], kept: bool[N] -> y: int64[count]", "count: int 0..", example={"count": 2}
    )


@register("text_parts")
class TextParts(TextOp):
    """How many parts text_split finds in each string."""

    contract = Contract("x: int64[*S] -> y: int64[*S]", "delimiter: text, most: int 1..")


@register("text_split")
class TextSplit(TextOp):
    """The parts between delimiters, of an empty one the words; the last of ``most`` is the rest.

    Rows of ``width`` are filled up with empty strings.
    """

    contract = Contract(
        "heap: uint8[_], x: int64[*S] -> y: int64[*S width]",
        "delimiter: text, most: int 1.., width: int 0..",
        example={"width": 2},
    )


@register("text_match")
class TextMatch(TextOp):
    """Whether an automaton accepts all of each string.

    ``classes``: of each byte; ``table``: for each state the next one by class, then whether it
    accepts. It begins in state 0.
    """

    contract = Contract(
        "x: int64[*S], classes: constant uint8[256], table: constant int32[Q C] -> y: bool[*S]",
        rules=[
            holds(
                "classes are columns of table but the last",
                lambda classes_data, C: bool(classes_data.max() < C - 1),
            ),
            holds(
                "table leads to its states",
                lambda table_data, Q: bool(table_data.size and _within(table_data, Q)),
            ),
        ],
        example={"C": 3},
    )


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
    """How many tokens text_tokens finds in each string."""

    contract = Contract(
        f"{_TOKEN_OPERANDS} -> y: int64[*S]",
        "least: int 1..",
        rules=_Tokens.rules,
        example={"C": 4},
    )


@register("text_tokens")
class TextTokens(_Tokens):
    """What an automaton accepts in each string, from the left, each as long as may be; only what
    has ``least`` code points. Rows of ``width`` are filled up with ``pad``.

    ``table``: for each state the next one by class, then whether it accepts before the end, before
    a byte of no word, and of a word. States 0 to 2 are where a match begins behind these.
    """

    contract = Contract(
        f"heap: uint8[_], {_TOKEN_OPERANDS} -> y: int64[*S width]",
        "least: int 1.., width: int 0.., pad: text",
        rules=_Tokens.rules,
        example={"C": 4, "width": 2},
    )


def _within(table: np.ndarray, states: int) -> bool:
    return bool(table.min() >= 0 and table[:, :-1].max() < states)


@register("text_to_number")
class TextToNumber(TextOp):
    """The number that each string says; the run ends with an error where it says none."""

    contract = Contract("x: int64[*S] -> y: to[*S]", "to: dtype float64|int64")


@register("number_to_text")
class NumberToText(TextOp):
    """Numbers as people write them, in as few digits as tell them apart; ``single``: from other
    numbers of float32."""

    contract = Contract("heap: uint8[_], x: float64|int64[*S] -> y: int64[*S]", "single: bool")


@register("count_ngrams")
class CountNgrams(Op):
    """How often each row has the grams that belong to a column of the result.

    ``grams``: those of one number, then of two and so on, ``lengths`` of each, sorted;
    ``columns``: of each. The numbers of a gram of ``least`` to ``most`` follow each other in the
    row, or with 1 to ``skips`` others between each two.
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
