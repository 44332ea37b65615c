"""Test that automata of regular expressions accept what Python's ``re`` matches."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_text.operators.regex import match_automaton, search_automaton

LETTERS = "ab1_ -.é日"
ATOMS = st.sampled_from(
    ["a", "b", "1", "é", "日", ".", r"\w", r"\W", r"\d", r"\s", "[a-z]", "[^ab]", "[^é]", r"[\w-]",
     r"\b", r"\B", "^", "[а-яé-ÿ日]"]
)  # fmt: skip
PATTERNS = st.recursive(
    ATOMS,
    lambda part: st.one_of(
        st.lists(part, max_size=3).map("".join),
        st.lists(part, min_size=2, max_size=3).map(lambda p: f"(?:{'|'.join(p)})"),
        st.tuples(part, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])).map(
            lambda p: f"({p[0]}){p[1]}"
        ),
    ),
    max_leaves=6,
)


def accepts(pattern: str, text: str) -> bool:
    classes, table = match_automaton(pattern)
    state = 0
    for byte in text.encode():
        state = table[state, classes[byte]]
    return bool(table[state, -1])


@settings(max_examples=300, deadline=None)
@given(PATTERNS, st.lists(st.text(LETTERS, max_size=6), max_size=6))
def test_automata_accept_the_matches_of_python(pattern, texts):
    right = re.compile(pattern, re.ASCII)
    for text in ["", *texts]:
        # Python lets \B fail in an empty text, RE2 does not
        if text or r"\B" not in pattern:
            assert accepts(pattern, text) == bool(right.fullmatch(text)), (pattern, text)


def test_search_measures_layers_in_their_network():
    classes, table = search_automaton(r"\bab\b")
    width = classes.max() + 1
    for before, starts in enumerate([True, True, False]):
        state = before
        for byte in b"ab":
            state = table[state, classes[byte]]
        ends = table[state, width:]
        np.testing.assert_array_equal(ends, [starts, starts, False])


@pytest.mark.parametrize(
    "pattern, said",
    [
        ("(a", r"a \( without a \) at 2"),
        ("a)", r"a \) without a \( at 1"),
        ("[a", "an end at 2"),
        ("*a", r"\* after nothing at 1"),
        (r"\p{Greek}", r"\\p at 2"),
        ("(?=a)", "flags or a lookaround"),
        ("a{3000}", "bounds of a repetition"),
        ("[z-a]", "a range"),
        (r"\x{110000}", r"\\x at"),
        ("((a{100}){100}){100}", "more than 20000 positions"),
    ],
)
def test_unsupported_features_have_a_one_line_error(pattern, said):
    with pytest.raises(UnsupportedError, match=said):
        match_automaton(pattern)
