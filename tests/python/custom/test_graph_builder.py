"""Inputs and outputs of graphs that are built in Python."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.custom import GraphBuilder


@pytest.mark.parametrize(
    "dtype",
    [np.int64, np.dtype("int64"), np.array([1]).dtype.newbyteorder(">"), "int64"],
    ids=["class", "dtype", "big-endian", "name"],
)
def test_element_types_of_numpy(dtype):
    g = GraphBuilder("g")
    x = g.input("x", np.array([2, np.int8(3)]), dtype)
    g.output("y", g.Add(x, x))
    given = np.arange(6).reshape(2, 3)
    y = tvmrt.load(g, cache=False)(given)
    assert y.dtype == np.int64
    assert y.tolist() == (2 * given).tolist()


def test_half_precision_types_of_numpy():
    g = GraphBuilder("g")
    x = g.input("x", (3,), ml_dtypes.bfloat16)
    g.output("y", g.Relu(x), np.float16)
    net = tvmrt.load(g, cache=False)
    assert [t.dtype for t in (*net.inputs, *net.outputs)] == ["bfloat16", "float16"]


WRONG = {
    "declaration": (("batch<=8", 5), "float32", "not 'batch<=8'; give a number, or build a net"),
    "name": (("N", 5), "float32", "input x: sizes are whole numbers or extents of another value's"),
    "none": ((None, 5), "float32", "another value's shape, not None"),
    "fraction": ((2.5, 5), "float32", "another value's shape, not 2.5"),
    "number": (5, "float32", r"input x: 5 is not a shape; give a tuple of sizes, such as (1, 3)"),
    "text": ("5", "float32", "input x: '5' is not a shape"),
    "complex": ((5,), np.complex64, "input x: unknown element type complex64; choose from float32"),
    "no type": ((5,), None, "input x: unknown element type None; choose from"),
    "object": ((5,), [1], "input x: unknown element type [1]; choose from"),
}


@pytest.mark.parametrize("case", WRONG)
def test_shapes_and_element_types_that_a_builder_does_not_take(case):
    shape, dtype, sentence = WRONG[case]
    with pytest.raises(ValueError) as caught:
        GraphBuilder("g").input("x", shape, dtype)
    assert sentence in str(caught.value)


def test_a_graph_without_outputs_computes_nothing(tmp_path):
    """From Python and from an ONNX model."""
    g = GraphBuilder("lonely")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^graph lonely has no outputs.*add one with output"):
            tvmrt.load(g, cache=tmp_path)
        y = g.Relu(np.float32([-1, 2]))  # without an output, too
    g.output("y", y)
    assert tvmrt.load(g, cache=tmp_path)().tolist() == [0, 2]

    node = helper.make_node("Relu", ["x"], ["y"])
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(
        helper.make_graph([node], "g", [info], []), opset_imports=opset, ir_version=8
    )
    with pytest.raises(ValueError, match="the graph has no outputs"):
        tvmrt.load(model, cache=tmp_path)
