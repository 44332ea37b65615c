"""Representations and attributes of objects."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule


@pytest.fixture(scope="module")
def library():
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "n", ends[:1], ends[1:])
    return tvmrt.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )


def test_reprs(library, tmp_path):
    library.export(tmp_path / "n.so")
    module = tvmrt.runtime.load_module(tmp_path / "n.so")
    executor = GraphModule(module["default"](tvmrt.cpu(0)))
    assert "default: 1 operators" in repr(library)
    assert repr(executor) == "<GraphModule, inputs: 1, outputs: 1>"
    executor.set_input(0, np.zeros((2, 3), np.float32))
    report = executor.profile()
    assert repr(report).startswith("<profile of 1 operators")
    assert "Operator" in report._repr_html_()


def test_network_is_not_a_module(tmp_path):
    onnx.save(onnx.ModelProto(), tmp_path / "n.onnx")
    with pytest.raises(ValueError, match=r"not compiled; tvmrt\.load compiles it"):
        tvmrt.runtime.load_module(tmp_path / "n.onnx")


def test_dir_shows_what_is_public():
    shown = {name for name in dir(tvmrt) if not name.startswith("__")}
    assert shown == {name for name in tvmrt.__all__ if not name.startswith("__")}
