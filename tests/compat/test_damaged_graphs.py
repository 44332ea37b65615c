"""Test damaged graph JSON through the Python API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from artefacts import network
from artefacts.damage import FAILURES, paths, replaced
from artefacts.releases import RELEASES

import tvmrt
from tvmrt.contrib import graph_executor

VALUES: list[Any] = [None, [], {}, "", "x", -1, 2**44, 2**63, 1e308, True, [[[[]]]], "9" * 400]
GRAPH = network.graph(RELEASES[-1])


@pytest.mark.parametrize("key", GRAPH)
def test_graph_json(plain, key):
    """Put any value at any position: the result is an error, or a network that runs or reports an
    error."""
    errors = 0
    for path in paths({key: GRAPH[key]}):
        for value in VALUES:
            try:
                executor = graph_executor.create(replaced(GRAPH, path, value), plain, tvmrt.cpu(0))
                executor.run()
            except (*FAILURES, MemoryError) as error:
                assert str(error)
                errors += 1
    assert errors > 0


@pytest.mark.parametrize("key", [*GRAPH, "dltype", "storage_id", "shape"])
def test_graph_json_without_a_part(plain, key):
    graph = json.loads(json.dumps(GRAPH))
    del (graph if key in graph else graph["attrs"])[key]
    with pytest.raises(FAILURES, match=rf"attrs\.{key}|{key}"):
        graph_executor.create(json.dumps(graph), plain, tvmrt.cpu(0))


@pytest.mark.parametrize(
    "data",
    ["", " ", "null", "[]", "{}", '{"nodes": []}', "\ufeff{}", "{" * 10000, '"' * 3, "{}{}"],
    ids=range(10),
)
def test_texts_that_are_no_graph(plain, data):
    with pytest.raises(FAILURES):
        graph_executor.create(data, plain, tvmrt.cpu(0))
