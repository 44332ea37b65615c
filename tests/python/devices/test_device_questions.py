"""What devices in C answer while a network is compiled for them."""

from __future__ import annotations

import json

import pytest
from device_here import have

from tvmrt.error import TVMError
from tvmrt.runtime import get_global_func


def graph(dtype: str = "float32") -> str:
    """conv, relu, matmul, one behind the other."""
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


def ask(device: str, slot: str, *arguments):
    return json.loads(str(get_global_func(f"device.{device}.{slot}")(*arguments)))


@pytest.mark.parametrize(
    ("precision", "reduced"), [("int8", [1, 0, 1]), ("float16", [1, 1, 1]), ("other", [0, 0, 0])]
)
def test_simulated_accelerator_reduces(precision, reduced):
    have("tpu")
    assert ask("tpu", "optimize_graph", graph(), bytearray(), precision) == reduced


def test_simulated_accelerator_takes_floats():
    have("tpu")
    assert set(ask("tpu", "split_graph", graph())) != {-1}
    assert ask("tpu", "split_graph", graph("int32")) == [-1, -1, -1]


def test_a_symbol_has_one_region():
    text = json.loads(graph())
    text["regions"] *= 2
    with pytest.raises((ValueError, TVMError), match="two regions 'r'"):
        get_global_func("tvmrt.device.load_regions")(json.dumps(text), bytearray())
