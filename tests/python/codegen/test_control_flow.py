"""Branches with a condition that is computed at run time."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_graph import model

import tvmrt


def branch(name, nodes, output):
    info = helper.make_tensor_value_info(output, TensorProto.FLOAT, [2, 3])
    return helper.make_graph(nodes, name, [], [info])


def network():
    inner_then = branch("inner_then", [helper.make_node("Neg", ["x"], ["it"])], "it")
    inner_else = branch("inner_else", [helper.make_node("Abs", ["x"], ["ie"])], "ie")
    then = branch(
        "then",
        [helper.make_node("If", ["d"], ["t"], then_branch=inner_then, else_branch=inner_else)],
        "t",
    )
    other = branch(
        "other",
        [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Mul", ["e", "e"], ["o"])],
        "o",
    )
    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)
    inputs = {"x": np.zeros((2, 3), np.float32), "c": np.array(True), "d": np.array([True])}
    return model([node], inputs, ["y"])


@pytest.fixture(scope="module", params=["graph", "aot"])
def executor(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("if") / "net.so"
    tvmrt.compile(network(), executor=request.param).export_library(path)
    factory = tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0))
    if request.param == "graph":
        return tvmrt.contrib.graph_executor.GraphModule(factory)
    return tvmrt.runtime.executor.AotModule(factory)


@pytest.mark.parametrize(
    "c, d, expected",
    [
        pytest.param(True, True, np.negative, id="then-then"),
        pytest.param(True, False, np.abs, id="then-else"),
        pytest.param(False, True, lambda x: np.exp(x) ** 2, id="else"),
    ],
)
def test_takes_the_branch_of_the_condition(executor, c, d, expected):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    executor.set_input(x=x, c=np.array(c), d=np.array([d]))
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(x), rtol=1e-6)
