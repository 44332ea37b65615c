"""Passes on graphs as text: each file of ``graphs/`` has the name of a pass, and cases with the
graph before and after it; without ``->`` nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_text import parse_graph
from test_random_graphs import RandomGraph

from tvmrt.compiler.ir.printer import print_graph
from tvmrt.compiler.transform.optimize import PASSES

GRAPHS = Path(__file__).with_name("graphs")
ALL = 1000  # elements: constants are printed whole


def cases() -> list:
    found = []
    for file in sorted(GRAPHS.glob("*.txt")):
        for case in file.read_text(encoding="utf-8").split("--\n"):
            title, body = case.split("\n", 1)
            before, _, after = body.partition("->\n")
            name = f"{file.stem}: {title.removeprefix('# ')}"
            found.append(pytest.param(file.stem, before, after or before, id=name))
    return found


@pytest.mark.parametrize(("name", "before", "after"), cases())
def test_a_pass_makes_this_graph(name, before, after):
    graph = parse_graph(before)
    dict(PASSES)[name](graph)
    assert print_graph(graph, ALL) == print_graph(parse_graph(after), ALL)


def test_printed_graphs_are_read_again():
    for seed in range(50):
        text = print_graph(RandomGraph(seed).graph, ALL)
        assert print_graph(parse_graph(text, "random"), ALL) == text


def test_a_line_that_is_no_part_of_a_graph_is_named():
    with pytest.raises(ValueError, match=r"this line is not .*: %y add"):
        parse_graph("input %x: float32[2]\n%y add(%x)\n")
    with pytest.raises(ValueError, match=r"%y of neg has the type float32\[2\], not float32\[3\]"):
        parse_graph("input %x: float32[2]\n%y: float32[3] = neg(%x)\n")
