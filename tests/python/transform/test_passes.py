"""Each pass on graphs that it rewrites, and on graphs that it must not change."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx_graph import model

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform import optimize

F32 = np.float32


def optimized(network):
    graph = import_model(network)
    optimize(graph, lambda name, graph: None)
    return graph


def ops(network) -> list[str]:
    return [node.op for node in optimized(network).nodes]


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


X = {"x": np.zeros((1, 4, 6, 6), F32)}
W = {"w": np.ones((8, 4, 3, 3), F32)}
CHANNELS = np.arange(8, dtype=F32).reshape(8, 1, 1)


@pytest.mark.parametrize(
    "nodes, weights, expected",
    [
        pytest.param(
            [node("Conv", "x w", "c"), node("Add", "c b", "y")],
            {**W, "b": CHANNELS},
            ["conv"],
            id="bias-after-convolution",
        ),
        pytest.param(
            [node("Conv", "x w", "c"), node("Mul", "c s", "m"), node("Add", "m b", "y")],
            {**W, "s": CHANNELS, "b": CHANNELS},
            ["conv"],
            id="scale-then-bias",
        ),
        pytest.param(
            [node("Conv", "x w", "c"), node("Add", "c b", "y")],
            {**W, "b": np.arange(4, dtype=F32)},
            ["conv", "add"],
            id="bias-along-width-stays",
        ),
        pytest.param(
            [node("Pad", "x p", "q"), node("Conv", "q w", "y")],
            {**W, "p": np.array([0, 0, 1, 1, 0, 0, 1, 1])},
            ["conv"],
            id="padding-into-convolution",
        ),
        pytest.param(
            [node("Pad", "x p v", "q"), node("Conv", "q w", "y")],
            {**W, "p": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "v": np.array(2, F32)},
            ["pad", "conv"],
            id="padding-with-twos-stays",
        ),
        pytest.param(
            [
                node("Transpose", "x", "t", perm=[0, 2, 3, 1]),
                node("Transpose", "t", "y", perm=[0, 3, 1, 2]),
            ],
            {},
            [],
            id="transposes-cancel",
        ),
        pytest.param(
            [
                node("Reshape", "x s1", "a"),
                node("Reshape", "a s2", "b"),
                node("Relu", "b", "y"),
            ],
            {"s1": np.array([4, 36]), "s2": np.array([2, 72])},
            ["reshape", "relu"],
            id="reshape-of-reshape",
        ),
        pytest.param(
            [node("Mul", "x one", "a"), node("Add", "a zero", "b"), node("Relu", "b", "y")],
            {"one": np.ones(1, F32), "zero": np.zeros((), F32)},
            ["relu"],
            id="neutral-elements",
        ),
        pytest.param([node("Pow", "x two", "y")], {"two": np.array(2, F32)}, ["mul"], id="square"),
        pytest.param(
            [node("Relu", "x", "a"), node("Relu", "x", "b"), node("Add", "a b", "y")],
            {},
            ["relu", "add"],
            id="equal-nodes-once",
        ),
        pytest.param(
            [node("Relu", "x", "unused"), node("Neg", "x", "y")], {}, ["neg"], id="dead-code"
        ),
        pytest.param(
            [node("Conv", "x w", "c"), node("Flatten", "c", "f"), node("MatMul", "f d", "y")],
            {**W, "d": np.ones((8 * 16, 3), F32)},
            ["conv", "transpose", "reshape", "matmul"],
            id="flatten-before-dense",
        ),
    ],
)
def test_operators_after_all_passes(nodes, weights, expected):
    assert ops(model(nodes, X, ["y"], weights)) == expected


def test_a_value_that_is_also_an_output_is_not_folded_away():
    network = model(
        [node("Conv", "x w", "c"), node("Add", "c b", "y")], X, ["c", "y"], {**W, "b": CHANNELS}
    )
    graph = optimized(network)
    assert [n.op for n in graph.nodes] == ["conv", "add"]
    assert graph.output_names == ["c", "y"]


def test_folded_weights_hold_the_product():
    weights = {**W, "s": CHANNELS, "b": CHANNELS + 1}
    nodes = [node("Conv", "x w", "c"), node("Mul", "c s", "m"), node("Add", "m b", "y")]
    (conv,) = optimized(model(nodes, X, ["y"], weights)).nodes
    np.testing.assert_allclose(conv.inputs[1].data, W["w"] * CHANNELS[:, None])
    np.testing.assert_allclose(conv.inputs[2].data, (CHANNELS + 1).reshape(-1))


def test_an_input_may_be_an_output():
    graph = optimized(model([node("Identity", "x", "y")], X, ["y"]))
    assert graph.nodes == [] and graph.outputs == graph.inputs
