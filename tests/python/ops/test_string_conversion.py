"""Conversion and movement of strings, without operators that compose new strings."""

from __future__ import annotations

import numpy as np
import onnx_backend
import pytest
from onnx import TensorProto, helper
from string_case import FLOAT, INT64, STRING, compare, network, node, strings, tensor

from tvmrt.compiler import pipeline
from tvmrt.error import UnsupportedError


def test_strings_are_moved_and_compared():
    nodes = [
        node("Equal", ["x", "y"], "same"),
        node("Where", ["same", "x", "ends"], "chosen"),
        node("Concat", ["x", "ends"], "both", axis=0),
        node("Gather", ["y", "places"], "gathered", axis=0),
    ]
    outputs = [("same", TensorProto.BOOL), *((n.output[0], STRING) for n in nodes[1:])]
    inputs = [("x", STRING, [3]), ("y", STRING, [3]), ("places", INT64, [2])]
    model = network(nodes, inputs, outputs, [tensor("ends", "a", "日本", "")])
    x, y = strings("one", "", "Zoë"), strings("one", "two", "zoë")
    compare(model, *({"x": a, "y": b, "places": np.array([2, 0])} for a, b in ((x, y), (y, x))))


def test_numbers_become_strings_and_back():
    nodes = [
        node("Cast", ["x"], "floats", to=FLOAT),
        node("Cast", ["x"], "doubles", to=TensorProto.DOUBLE),
        node("Cast", ["n"], "whole", to=INT64),
        node("Cast", ["n"], "small", to=TensorProto.INT8),
        node("Cast", ["i"], "of_whole", to=STRING),
        node("Cast", ["f"], "of_float", to=STRING),
        node("Cast", ["d"], "of_double", to=STRING),
    ]
    kinds = [FLOAT, TensorProto.DOUBLE, INT64, TensorProto.INT8, STRING, STRING, STRING]
    inputs = [
        ("x", STRING, [6]), ("n", STRING, [3]), ("i", INT64, [3]), ("f", FLOAT, [7]),
        ("d", TensorProto.DOUBLE, [4]),
    ]  # fmt: skip
    outputs = [(n.output[0], kind) for n, kind in zip(nodes, kinds)]
    compiled = onnx_backend.prepare(network(nodes, inputs, outputs))
    texts = ["1.5", "-3e38", " 7 ", "1e-45", "inf", "0.1"]
    floats = np.array([0.1, 1 / 3, 1e30, -2.5e-7, np.inf, -np.inf, 16777216.0], np.float32)
    doubles = np.array([0.1, 1 / 3, -1e300, 5e-324])
    whole = np.array([-(2**63), 2**63 - 1, 0])
    feeds = {
        "x": strings(*texts), "n": strings("12", "-7", "100"), "i": whole, "f": floats,
        "d": doubles,
    }  # fmt: skip
    found = compiled.run(feeds)
    np.testing.assert_array_equal(found.floats, np.array(list(map(float, texts)), np.float32))
    np.testing.assert_array_equal(found.doubles, np.array(list(map(float, texts))))
    assert found.whole.tolist() == [12, -7, 100] and found.small.dtype == np.int8
    assert found.of_whole.tolist() == [str(n) for n in whole.tolist()]
    assert [np.float32(t) for t in found.of_float.tolist()] == floats.tolist()
    assert [float(t) for t in found.of_double.tolist()] == doubles.tolist()
    assert found.of_float[0] == "0.1" and found.of_double[0] == "0.1"
    feeds["n"] = strings("12", "7up", "1")
    with pytest.raises(ValueError, match=r"whole.*has '7up', which is not a valid number"):
        compiled.run(feeds)


@pytest.mark.parametrize(
    "op, inputs, attrs",
    [
        ("Unique", ["x"], {}),
        ("NonZero", ["x"], {}),
        ("ScatterElements", ["x", "i", "x"], {"reduction": "add"}),
    ],
)
def test_non_numeric_strings(op, inputs, attrs):
    index = helper.make_tensor("i", INT64, [2], [0, 1])
    kind = INT64 if op == "NonZero" else STRING
    bad = network([node(op, inputs, "y", **attrs)], [("x", STRING, [2])], [("y", kind)], [index])
    with pytest.raises(UnsupportedError, match=f"y .{op}: it handles strings"):
        pipeline.compile(bad)
