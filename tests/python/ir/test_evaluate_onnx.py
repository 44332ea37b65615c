"""The node tests of the onnx package in numpy, without a C compiler: the definitions of operators
give the expected results, and so does the graph after all passes; its text is read again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np
import onnx
import pytest
from graph_text import parse_graph

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.tensors import array_of
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.contract import ContractError
from tvmrt.compiler.ir.custom import evaluate_graph
from tvmrt.compiler.ir.verifier import print_graph
from tvmrt.compiler.transform.optimize import optimize
from tvmrt.error import TVMError

PARTS = 16
LEAST = 50  # networks of a part that are compared; the others have operators without a definition
TOLERANCES = {"bfloat16": 2e-2, "float16": 3e-3}
ALL = 1 << 30


@cache
def networks() -> list:
    """Return the tests of single nodes, not of the bodies of their functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return [each for each in collect_testcases(None) if not each.name.endswith("_expanded")]


def arrays(values) -> list[np.ndarray]:
    if any(value is None or isinstance(value, list) for value in values):
        raise TypeError("sequences and missing values are no arrays")
    return [array_of(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in values]


def imported(part: int) -> Iterator[tuple[str, Graph, list, list]]:
    """Yield the graphs of a part, with inputs and expected outputs; none without open sizes."""
    for each in networks()[part::PARTS]:
        ((feeds, expected),) = each.data_sets
        try:
            graph = import_model(each.model)
            by_name = dict(zip([i.name for i in each.model.graph.input], arrays(feeds)))
            yield each.name, graph, [by_name[v.name] for v in graph.inputs], arrays(expected)
        except (TVMError, ValueError, TypeError, KeyError):
            continue  # other tests look at networks that the compiler refuses


def compare(name: str, graph: Graph, feeds: list, expected: list) -> bool:
    """Compare the outputs. Return whether numpy computes all operators."""
    with np.errstate(all="ignore"):
        found = evaluate_graph(graph, feeds)
    for wanted, value in zip(expected, found or ()):
        tolerance = TOLERANCES.get(
            next((t for t in TOLERANCES if t in str(wanted.dtype)), ""), 1e-3
        )
        np.testing.assert_allclose(
            value.astype(wanted.dtype), wanted, tolerance, tolerance / 10, err_msg=name
        )
    return found is not None


def is_read_again(graph: Graph) -> bool:
    """Compare the text of a graph with that of the graph read from it. Return False for what text
    does not have: open sizes, sequences and graphs in attributes."""
    text = print_graph(graph, ALL)
    try:
        again = parse_graph(text, graph.name)
    except (KeyError, ValueError, ContractError):
        return False
    assert print_graph(again, ALL) == text
    return True


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_compute_what_onnx_expects(part):
    compared = texts = 0
    for name, graph, feeds, expected in imported(part):
        texts += is_read_again(graph)
        compared += compare(name, graph, feeds, expected)
        optimize(graph, lambda name, graph: None)
        compare(f"{name}, optimised", graph, feeds, expected)
    assert compared > LEAST and texts > LEAST
