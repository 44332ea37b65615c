"""Test the compiler's queries to the simulated accelerator."""

from __future__ import annotations

import json

import pytest
from device_here import have

from tvmrt.runtime import get_global_func


def graph(dtype: str = "float32") -> str:
    """Return a graph of conv, relu and matmul in sequence."""
    shapes = [[1, 2, 4, 4], [2, 2, 1, 1], [1, 2, 4, 4], [1, 2, 4, 4], [4, 4], [1, 2, 4, 4]]
    tensors = [{"name": f"t{i}", "dtype": dtype, "shape": s} for i, s in enumerate(shapes)]
    window = {"strides": [1, 1], "dilations": [1, 1], "pads_before": [0, 0], "groups": 1}
    nodes = [
        {"op": "conv", "name": "c", "inputs": [0, 1], "outputs": [2], "attrs": window},
        {"op": "relu", "name": "r", "inputs": [2], "outputs": [3], "attrs": {}},
        {"op": "matmul", "name": "m", "inputs": [3, 4], "outputs": [5], "attrs": {}},
    ]
    region = {"symbol": "r", "tensors": tensors, "nodes": nodes, "inputs": [0, 1, 4]}
    head = {"format": "tvmrt-regions", "version": 1, "device": "any"}
    return json.dumps(head | {"regions": [region | {"outputs": [5]}]})


def ask(slot: str, *arguments):
    have("tpu")
    return json.loads(str(get_global_func(f"device.tpu.{slot}")(*arguments)))


@pytest.mark.parametrize(
    ("precision", "reduced"), [("int8", [1, 0, 1]), ("float16", [1, 1, 1]), ("other", [0, 0, 0])]
)
def test_it_reduces(precision, reduced):
    assert ask("optimize_graph", graph(), bytearray(), precision) == reduced


def test_it_takes_floats():
    assert set(ask("split_graph", graph())) != {-1}
    assert ask("split_graph", graph("int32")) == [-1, -1, -1]
