"""Space-to-depth slices before a convolution ("focus") are folded into its stride."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform import optimize
from tvmrt.runtime.executor import AotModule

FOCUS = [(0, 0), (1, 0), (0, 1), (1, 1)]
TURNED = [(1, 1), (0, 1), (1, 0), (0, 0)]
THIRDS = [(row, column) for column in range(3) for row in range(3)]


def focus(phases, step: int, rows_first: bool = False, **window):
    """Return slices that begin at those pixels, concatenated, and a 3 x 2 convolution."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 3, 12 * step, 10 * step), np.float32)
    weights = {
        "w": rng.standard_normal((9, 3 * len(phases), 3, 2), np.float32) / 8,
        "b": rng.standard_normal(9, np.float32),
        "steps": np.array([step, step], np.int64),
        "one": np.array([step], np.int64),
        "axes": np.array([2, 3], np.int64),
    }
    nodes, parts = [], []
    for i, phase in enumerate(phases):
        weights[f"from{i}"] = np.array(phase, np.int64)
        weights[f"to{i}"] = np.array([1 << 30, 1 << 30], np.int64)
        if rows_first:
            for axis, source, to in ((2, "x", f"r{i}"), (3, f"r{i}", f"p{i}")):
                for name, value in (("s", phase[axis - 2]), ("e", 1 << 30), ("a", axis)):
                    weights[f"{name}{axis}_{i}"] = np.array([value], np.int64)
                at = [f"{name}{axis}_{i}" for name in "sea"]
                nodes.append(helper.make_node("Slice", [source, *at, "one"], [to]))
        else:
            at = [f"from{i}", f"to{i}", "axes", "steps"]
            nodes.append(helper.make_node("Slice", ["x", *at], [f"p{i}"]))
        parts.append(f"p{i}")
    nodes.append(helper.make_node("Concat", parts, ["c"], axis=1))
    nodes.append(helper.make_node("Conv", ["c", "w", "b"], ["y"], **window))
    return make_model(nodes, {"x": x}, ["y"], weights), x


def convolution(model):
    graph = import_model(model)
    optimize(graph, lambda name, graph: None)
    return next(node for node in graph.nodes if node.op == "conv")


CASES = {
    "focus": (focus, (FOCUS, 2, True), {"pads": [1, 1, 1, 1]}),
    "stride": (focus, (TURNED, 2), {"pads": [0, 1, 2, 0], "strides": [2, 1]}),
    "thirds": (focus, (THIRDS, 3), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_focus_becomes_a_stride(case, tmp_path):
    make, arguments, window = CASES[case]
    model, x = make(*arguments, **window)
    node, step = convolution(model), arguments[1]
    assert node.inputs[0].name == "x"
    assert node.inputs[1].shape == (9, 3, 3 * step, 2 * step)
    tvmrt.compile(model, executor="aot").export_library(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))["default"](tvmrt.cpu(0))
    executor = AotModule(module)
    executor.set_input(0, x)
    executor.run()
    found = executor.get_output(0).numpy()
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    assert found.shape == right.shape
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()


@pytest.mark.parametrize(
    ("phases", "window"),
    [
        (FOCUS[:3], {}),  # a phase is missing
        ([*FOCUS[:3], FOCUS[0]], {}),  # a phase is used twice
        (FOCUS, {"dilations": [2, 1]}),  # dilated kernel
    ],
)
def test_other_slices_stay(phases, window):
    assert convolution(focus(phases, 2, **window)[0]).inputs[0].producer.op == "concat"
