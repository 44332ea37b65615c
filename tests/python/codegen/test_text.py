"""Long lines of generated C are broken where only spaces change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvmrt.codegen.c.text import LINE, folded

TERMS = ["*(y + i0 * 140)", "* edge_2[i2] * 5", "= f(a, b)", "&& x", '"a  b"', "z;", "(int8_t) q"]
STATEMENTS = st.lists(st.sampled_from(TERMS), max_size=30).map(" ".join)


@given(st.lists(STATEMENTS, max_size=5), st.integers(0, 4))
def test_code_keeps_its_tokens(statements, depth):
    text = "\n".join("  " * depth + statement for statement in statements)
    broken = folded(text)
    assert "".join(broken.split()) == "".join(text.split())
    assert all(len(line) <= LINE for line in broken.split("\n"))


@given(st.lists(STATEMENTS.filter(bool), min_size=1, max_size=3))
def test_code_behind_a_comment_is_code(statements):
    words = " word" * 40
    broken = folded("\n".join(["/*", f" *{words}", " */", *statements])).split("\n")
    end = broken.index(" */")
    assert all(line.startswith(" * ") for line in broken[1:end])
    assert "".join("".join(broken[end + 1 :]).split()) == "".join("".join(statements).split())


def test_a_comment_of_one_line_goes_on_as_a_comment():
    first, second, third = folded(f"  /* {'word ' * 30}*/\nint x;").split("\n")
    assert first.startswith("  /* word")
    assert second.startswith("   * word")
    assert third == "int x;"
