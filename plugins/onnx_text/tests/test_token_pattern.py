"""Automata of token patterns find what Python's ``re`` finds, and the patterns that have none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_text.operators.token_pattern import search_automaton

PATTERNS = [
    "[a-zA-Z0-9_]+", r"\b\w+\b", r"\b\w\w+\b", r"\b[a-z]{3,}\b", ".", r"\d{2}", r"[^ ]{1,3}",
    r"\S+", r"[\w-]+", r"[^\s]+", r"\w\w*", r"\W", r"\b[a-z]{1,2}\b", "a+",
]  # fmt: skip


def kind(byte: int) -> int:
    return 2 if chr(byte) == "_" or (byte < 128 and chr(byte).isalnum()) else 1


def tokens(pattern: str, text: str) -> list[str]:
    """Return the tokens that the kernel finds with the automaton."""
    classes, table = search_automaton(pattern)
    data, found, begin = text.encode(), [], 0
    while begin < len(data):
        state, end = kind(data[begin - 1]) if begin else 0, None
        for at in range(begin, len(data)):
            state = table[state, classes[data[at]]]
            following = kind(data[at + 1]) if at + 1 < len(data) else 0
            end = at + 1 if table[state, 6 + following] else end
        found += [data[begin:end].decode()] if end else []
        begin = end or begin + 1
    return found


@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("pattern", PATTERNS)
@given(st.text("abc1_ -.é日\n", max_size=9))
def test_tokens_are_those_of_python(pattern, text):
    assert tokens(pattern, text) == re.findall(pattern, text, re.ASCII)


def test_automata_are_small():
    assert len(search_automaton("[a-z]+")[1]) == 5
    assert search_automaton("[^a]{1000}")[1].dtype == np.int32


@pytest.mark.parametrize(
    "pattern",
    ["", "(a|b)+", "ab", "[a-z]+[0-9]", "^a", "a$", "[é]+", r"\p{Greek}", "[[:alpha:]]+", "a*",
     r"\b[^a]+\b", "a{2000}", "a{3,2}", "(?i)a", "[z-a]", r"[\S]"],
)  # fmt: skip
def test_other_patterns_are_refused(pattern):
    with pytest.raises(UnsupportedError, match=r"is not one class of characters .*; split the"):
        search_automaton(pattern)
