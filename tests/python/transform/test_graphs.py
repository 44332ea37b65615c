"""Passes on graphs as text: each file in a folder ``graphs`` has the name of a pass, and cases with
a graph and what the pass makes of it: the lines that go (-) and come (+), none if the graph stays.
A case may have changes of the last graph instead of a graph.

``./run test tests/python/transform --update`` writes the results into the files, to be read.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from graph_text import format_graph, parse_graph
from test_random_graphs import RandomGraph

from tvmrt.compiler.codegen.builder import build_program
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.export.dump import print_program
from tvmrt.compiler.ir.custom import evaluate_graph
from tvmrt.compiler.ir.program import MemoryPool
from tvmrt.compiler.ir.verifier import print_graph, verify
from tvmrt.compiler.partition.partition import partition
from tvmrt.compiler.planner.plan import plan_program
from tvmrt.compiler.transform.conv_transpose_to_conv import conv_transpose_to_conv
from tvmrt.compiler.transform.fixed_point_requantize import to_fixed_point
from tvmrt.compiler.transform.float_sums import sums_in_float
from tvmrt.compiler.transform.fold_requantization import fold_requantization
from tvmrt.compiler.transform.fold_sign_change import fold_sign_change
from tvmrt.compiler.transform.merge_sibling_convs import merge_sibling_convs
from tvmrt.compiler.transform.move_quantize import move_conversions
from tvmrt.compiler.transform.nest_concats import nest_concats
from tvmrt.compiler.transform.optimize import PASSES, optimize
from tvmrt.devices import Context, CSource, Device

TESTS = Path(__file__).parents[1]
ALL = 1000  # elements: constants are printed whole
MORE = {
    "optimize": lambda graph: optimize(graph, lambda name, graph: None),
    "fold-requantization": fold_requantization,
    "fold-sign-change": fold_sign_change,
    "merge-sibling-convs": lambda graph: merge_sibling_convs(graph, True),
    "nest-concats": nest_concats,
    "conv-transpose-to-conv": conv_transpose_to_conv,
    "fixed-point-requantize": to_fixed_point,
    "float-sums": sums_in_float,
    "move-conversions": move_conversions,
}
EXACT = 1e-6  # of the largest number: sums in another order


class Chip(Device):
    """Device for convolutions and what follows them."""

    name = "chip"
    ops = ("conv", "relu", "add")

    def supports(self, node):
        return None if node.op in self.ops else f"no {node.op}"

    def codegen(self, regions, context):
        return CSource("")


def plan(pools=()):
    def run(graph) -> str:
        program = build_program(graph, get_target("cortex-m4"))
        plan_program(program, [MemoryPool(*pool) for pool in pools])
        used = [f"{p.name}: {p.used_bytes} of {p.lower_bound_bytes} bytes" for p in program.pools]
        return print_program(program) + "\n".join(used) + "\n"

    return run


def regions(graph) -> str:
    graph.op_types = {node.name: node.op for node in graph.nodes}
    report = partition(graph, [Chip()], Context())
    rows = [f"{r.name}: {r.device}{f', {r.reason}' * bool(r.reason)}" for r in report.node_rows()]
    rows += [f"region: {', '.join(row.operators)}" for row in report.region_rows()]
    return "\n".join(rows) + "\n"


PRINTED = {
    "plan": plan(),
    "plan-two-pools": plan([("fast", 512), ("slow", None)]),
    "partition": regions,
}  # fmt: skip


def cases() -> list:
    found = []
    for file in sorted(TESTS.glob("*/graphs/*.txt")):
        for i, case in enumerate(file.read_text(encoding="utf-8").split("--\n")):
            name = f"{file.stem}: {case.partition(chr(10))[0].removeprefix('# ')}"
            found.append(pytest.param(file, i, id=name))
    return found


def graph_of(parts: Sequence[str], index: int) -> str:
    """Return the lines of a graph: its own, or those of the last graph with changes. Lines that
    come (+) take the place of the one that goes (-) before them, or are the last ones."""
    lines = parts[index].partition("->\n")[0].splitlines()[1:]
    if not lines[0].startswith(("+", "-")):
        return "\n".join(lines)
    while parts[index].partition("\n")[2].startswith(("+", "-")):
        index -= 1
    changed = graph_of(parts, index).splitlines()
    at = len(changed)
    for line in lines:
        if line.startswith("-"):
            at = changed.index(line[1:])
            del changed[at]
        else:
            changed.insert(at, line[1:])
            at += 1
    return "\n".join(changed)


def result_of(name: str, text: str) -> str:
    """Return the changed lines, or what is printed. A pass keeps the numbers of a graph."""
    graph = parse_graph(text)
    if name in PRINTED:
        return PRINTED[name](graph)
    before = format_graph(graph).splitlines(keepends=True)
    rng = np.random.default_rng(1)
    feeds = [rng.integers(-9, 10, v.shape).astype(v.dtype.numpy) for v in graph.inputs]
    expected = evaluate_graph(graph, feeds)
    {**dict(PASSES), **MORE}[name](graph)
    verify(graph, name)
    for wanted, value in zip(expected or (), evaluate_graph(graph, feeds) or ()):
        largest = max(np.abs(wanted).max(initial=0), 1) if wanted.dtype.kind == "f" else 0
        np.testing.assert_allclose(value, wanted, rtol=0, atol=EXACT * largest)
    after = format_graph(graph).splitlines(keepends=True)
    differences = difflib.unified_diff(before, after, n=0)
    return "".join(line for line in differences if not line.startswith(("---", "+++", "@@")))


@pytest.mark.everyday(1 << 30)
@pytest.mark.parametrize(("file", "index"), cases())
def test_a_pass_makes_this_graph(file, index, request):
    parts = file.read_text(encoding="utf-8").split("--\n")
    before, _, expected = parts[index].partition("->\n")
    found = result_of(file.stem, graph_of(parts, index))
    if found == expected:
        return
    if request.config.getoption("--update", False):
        parts[index] = before + f"->\n{found}" * bool(found)
        file.write_text("--\n".join(parts), encoding="utf-8")
        return
    lines = [text.splitlines() for text in (expected, found)]
    where = f"{file.relative_to(TESTS)}; --update writes the result"
    pytest.fail("\n".join([where, *difflib.unified_diff(*lines, "expected", "result")]), False)


def test_printed_graphs_are_read_again():
    for seed in range(50):
        text = print_graph(RandomGraph(seed).graph, ALL)
        assert print_graph(parse_graph(text, "random"), ALL) == text


def test_a_line_that_is_no_part_of_a_graph_is_named():
    with pytest.raises(ValueError, match=r"this line is not .*: %y add"):
        parse_graph("input %x: float32[2]\n%y add(%x)\n")
    with pytest.raises(ValueError, match=r"%y of neg has the type float32\[2\], not float32\[3\]"):
        parse_graph("input %x: float32[2]\n%y: float32[3] = neg(%x)\n")
