"""Transposing copies of every element size, with partial blocks at the edges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import helper
from onnx_graph import model

import tvmrt

SHAPES = [(8, 8), (17, 9), (3, 64, 5), (2, 9, 10, 11), (1, 3, 20, 30), (300, 257)]
TYPES = ["float32", "int8", "int32", "int64", "bool", "float64"]


def cases():
    for shape in SHAPES:
        orders = [p for p in itertools.permutations(range(len(shape))) if p != tuple(sorted(p))]
        yield from ((shape, order) for order in orders[:: max(1, len(orders) // 6)])


@pytest.mark.everyday(2)
@pytest.mark.parametrize("kind", TYPES)
def test_a_transposed_copy_moves_every_element(kind, tmp_path):
    inputs, nodes, expected = {}, [], {}
    rng = np.random.default_rng(0)
    for i, (shape, order) in enumerate(cases()):
        x = rng.integers(-100, 100, shape).astype(kind)
        inputs[f"x{i}"] = x
        nodes.append(helper.make_node("Transpose", [f"x{i}"], [f"y{i}"], perm=order))
        expected[f"y{i}"] = x.transpose(order)
    tvmrt.compile(model(nodes, inputs, list(expected)), executor="aot").export_library(
        tmp_path / "net.so"
    )
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = tvmrt.runtime.executor.AotModule(factory["default"](tvmrt.cpu(0)))
    executor.set_input(**inputs)
    executor.run()
    for i, y in enumerate(expected.values()):
        np.testing.assert_array_equal(executor.get_output(i).numpy(), y)
