"""SiLU is one function if the sigmoid has no other reader."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.runtime.executor import AotModule

X = np.float32([0, -0.0, 1.5, -20, 87.9, -87.9, 88.5, -88.5, 1e30, -1e30, 3e38, -3e38, np.nan])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


op = helper.make_node
GATE, PRODUCT = op("Sigmoid", ["x"], ["s"]), op("Mul", ["s", "x"], ["y"])
# Nodes, their result y in float64, and whether the fused function is called.
CASES = {
    "alone": ([GATE, PRODUCT], lambda x: x * sigmoid(x), True),
    "inside": (
        [
            op("Neg", ["x"], ["z"]), op("Sigmoid", ["z"], ["s"]), op("Mul", ["z", "s"], ["g"]),
            op("Abs", ["g"], ["y"]),
        ],
        lambda x: np.abs(x * sigmoid(-x)),
        True,
    ),
    "second reader": (
        [GATE, op("Mul", ["x", "s"], ["g"]), op("Add", ["g", "s"], ["y"])],
        lambda x: x * sigmoid(x) + sigmoid(x),
        False,
    ),
    "square": ([GATE, op("Mul", ["s", "s"], ["y"])], lambda x: sigmoid(x) ** 2, False),
    "other operand": (
        [op("Neg", ["x"], ["z"]), op("Sigmoid", ["z"], ["s"]), PRODUCT],
        lambda x: x * sigmoid(-x),
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_product_with_its_sigmoid_matches_both_nodes(case, tmp_path):
    nodes, right, together = CASES[case]
    library = tvmrt.compile(make_model(nodes, {"x": X}, ["y"], {}), executor="aot")
    assert ("tvmrt_silu_f32(" in "".join(library.sources.files.values())) == together
    library.export_library(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = AotModule(module["default"](tvmrt.cpu(0)))
    executor.set_input("x", X)
    executor.run()
    with np.errstate(over="ignore"):
        expected = right(X.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-6, atol=1.5e-36)
