"""Generated C is wrapped at break marks only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmrt.compiler.codegen.c.formatting import GAP, LINE, break_lines, call, wrap

TERMS = ["*(y + i0 * 140)", "* edge_2[i2] * 5", "= f(a, b)", "&& x", '"a  b"', "z;", "/* q"]
STATEMENTS = st.lists(st.sampled_from(TERMS), max_size=30).map(GAP.join)


@given(st.lists(STATEMENTS, max_size=5), st.integers(0, 4))
def test_code_keeps_its_tokens(statements, depth):
    text = "\n".join("  " * depth + statement for statement in statements)
    lines = break_lines(text).split("\n")
    assert " ".join(line.strip() for line in lines) == " ".join(
        line.strip() for line in text.replace(GAP, " ").split("\n")
    )
    assert all(len(line) <= LINE for line in lines)


@given(st.text(alphabet=' \n/*"\\,;(=x', max_size=400))
def test_text_without_break_marks_is_unchanged(text):
    assert break_lines(text) == text


def test_continuation_lines_are_indented_by_four():
    first, second = break_lines(f"  return {call('f', 'a' * 50, 'b' * 50)};").split("\n")
    assert first == f"  return f({'a' * 50},"
    assert second == f"      {'b' * 50});"


@pytest.mark.parametrize("end", [";", " {", " != 0) {"])
@given(parts=st.lists(st.text("ab *&->", min_size=1, max_size=40), min_size=1, max_size=12))
def test_call_is_wrapped_with_its_closing_bracket(parts, end):
    lines = wrap("return f", parts, end, 3)
    assert all(len(line) <= LINE for line in lines)
    text = f"return f({', '.join(parts)}){end}"
    assert "".join("".join(lines).split()) == "".join(text.split())
