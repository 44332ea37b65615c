"""The table of intentional differences, and how ``tvmrt verify`` names the reference."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import onnx
import pytest
from differences import TABLE, differences_of, intentional_differences, nodes_to_evaluate
from differences.exact_reference import evaluators
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvmrt.cli import app, onnx_reference
from tvmrt.cli.onnxruntime_session import run_onnxruntime

pytest.importorskip("onnxruntime")

NAMES = [row.name for row in TABLE]
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "accuracy.md"


def names(op, inputs=("x",), types=None, opset=0, domain="", **attrs):
    node = helper.make_node(op, list(inputs), ["y"], domain=domain, **attrs)
    return [row.name for row in intentional_differences(node, opset, types)]


def test_every_known_difference_is_documented():
    assert len(set(NAMES)) == len(NAMES)
    documented = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| `([\w-]+)`: ([^|]+) \|", line):
            judge = line.rpartition(" | ")[2].removesuffix(" |")
            documented[match[1]] = set(re.findall(r"`([^`]+)`", match[2])), judge
    for row in TABLE:
        assert documented[row.name] == ({*row.operators}, row.judge.value)
        for operator in row.operators:
            domain, _, op = operator.rpartition(":")
            if domain in ("", "ai.onnx.ml"):
                assert onnx.defs.has(op, domain), operator


CONDITIONS = (
    ("resize-nearest-sizes", "Resize", ("x", "", "", "s"), {}, {}),
    ("resize-nearest-scales", "Resize", ("x", "", "s"), {}, {}),
    ("resize-nearest-scales", "Upsample", ("x", "s"), {}, {}),
    ("resize-integers", "Resize", ("x", "", "s"), {"x": "uint8"}, {"mode": "linear"}),
    ("nan-unique", "Unique", ("x",), {"x": "float32"}, {}),
    ("float-to-integer", "Cast", ("x",), {"x": "float32", "y": "int32"}, {"to": 6}),
    ("integer-sums", "ReduceSum", ("x",), {"x": "int32"}, {}),
    ("random-dropout", "Dropout", ("x", "r", "t"), {}, {}),
    ("float-to-4-bits", "Cast", ("x",), {"x": "float16"}, {"to": TensorProto.INT4}),
    ("float-to-4-bits", "CastLike", ("x", "like"), {"x": "float32", "like": "uint2"}, {}),
    ("exponent-of-negative", "Cast", ("x",), {"x": "float32"}, {"to": TensorProto.FLOAT8E8M0}),
    ("l1-norm", "LpNormalization", ("x",), {}, {"p": 1}),
    ("shrink-integers", "Shrink", ("x",), {"x": "int8"}, {}),
)


@pytest.mark.parametrize(("row", "op", "inputs", "types", "attrs"), CONDITIONS)
def test_condition_holds(row, op, inputs, types, attrs):
    assert row in names(op, inputs, types, **attrs)


@pytest.mark.parametrize(
    ("row", "op", "inputs", "types", "attrs"),
    (
        ("resize-nearest-sizes", "Resize", ("x", "", "", "s"), {}, {"mode": "linear"}),
        ("resize-nearest-sizes", "Resize", ("x", "", "s"), {}, {}),
        ("resize-integers", "Resize", ("x", "", "s"), {"x": "float32"}, {"mode": "linear"}),
        ("nan-unique", "Unique", ("x",), {"x": "int64"}, {}),
        ("float-to-integer", "Cast", ("x",), {"x": "int32", "y": "int8"}, {"to": 3}),
        ("float-to-integer", "Cast", ("x",), {"x": "float32"}, {"to": TensorProto.INT4}),
        ("float-to-4-bits", "Cast", ("x",), {"x": "float32"}, {"to": TensorProto.INT8}),
        ("l1-norm", "LpNormalization", ("x",), {}, {"p": 2}),
        ("integer-sums", "ReduceSum", ("x",), {"x": "float32"}, {}),
        ("random-dropout", "Dropout", ("x",), {}, {}),
    ),
)
def test_condition_does_not_hold(row, op, inputs, types, attrs):
    assert row not in names(op, inputs, types, **attrs)


def test_operator_domains_are_distinguished():
    assert names("QuantizeLinear", domain="com.microsoft") == ["nan-quantize"]
    assert not names("QuantizeLinear", domain="mine")


def resized(extent, size, more=(), **attrs):
    """Return a convolution, a nearest Resize by sizes, and a node that uses its result."""
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", **attrs}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["a", "", "", "s"], ["b"], "resize", mode="nearest", **how),
        helper.make_node("Mul", ["b", "b"], ["y"], "last"),
        *more,
    ]
    weights = {
        "w": np.random.default_rng(3).normal(size=(2, 1, 3, 3)).astype(np.float32),
        "s": np.array([1, 2, 4, size], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "resized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, extent])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 4, size])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_nodes_for_the_evaluator_are_not_those_of_onnxruntime():
    """Resize 224 columns to 32: onnxruntime takes the adjacent column for 19 of them."""
    model = resized(224, 32)
    x = np.random.default_rng(1).normal(size=(1, 1, 4, 224)).astype(np.float32)
    chosen = nodes_to_evaluate(model)
    assert chosen == {1: "resize-nearest-sizes"}
    reference, found = onnx_reference.expected_outputs(model, {"x": x}, chosen=chosen)
    assert reference.startswith("onnxruntime, and for 1 node (Resize) with the reference evaluator")
    plain = run_onnxruntime(model, {"x": x}, optimise=False)["y"]
    columns = [floor(Fraction(7) * i) for i in range(32)]
    wide = run_onnxruntime(resized(224, 224), {"x": x}, optimise=False)["y"]
    np.testing.assert_allclose(found["y"].value, wide[..., columns], 1e-5, 1e-6)
    assert np.mean(plain != found["y"].value) > 0.5


def test_network_without_differences_has_one_reference():
    model = resized(224, 32)
    del model.graph.node[1]
    model.graph.node[1].input[:] = ["a", "a"]
    model.graph.output[0].type.tensor_type.shape.dim[3].dim_value = 224
    assert not nodes_to_evaluate(model)
    x = np.ones((1, 1, 4, 224), np.float32)
    assert onnx_reference.expected_outputs(model, {"x": x})[0] == "onnxruntime"


def test_nodes_in_bodies_count_as_their_node():
    body = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "", "s"], ["b"])],
        "body",
        [],
        [helper.make_empty_tensor_value_info("b")],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    model = helper.make_model(helper.make_graph([node], "g", [], []))
    assert "resize-nearest-sizes" in [row.name for row in differences_of(model)[0]]


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_exact_arithmetic_matches_the_reference_evaluator(mode, nearest):
    """Use sizes whose quotients are exact in float64."""
    model = resized(16, 4, coordinate_transformation_mode=mode, nearest_mode=nearest)
    for size in (2, 4, 8, 16, 32):
        model.graph.initializer[1].CopyFrom(
            numpy_helper.from_array(np.array([1, 2, 4, size], np.int64), "s")
        )
        if mode == "align_corners" and size not in (4, 16):
            continue
        x = np.random.default_rng(size).normal(size=(1, 1, 4, 16)).astype(np.float32)
        plain = ReferenceEvaluator(model).run(None, {"x": x})[0]
        exact = ReferenceEvaluator(model, new_ops=evaluators()).run(None, {"x": x})[0]
        np.testing.assert_array_equal(plain, exact)


@pytest.mark.slow
def test_verify_accepts_a_correct_resize_and_names_the_reference(tmp_path, capsys):
    path = tmp_path / "resized.onnx"
    onnx.save(resized(224, 32), path)
    assert app.run(["verify", str(path)]) == app.DONE
    printed = capsys.readouterr().out
    assert "4 of 4 tensors agree with onnxruntime, and for 1 node (Resize)" in printed
    assert app.run(["verify", str(path), "--json", "--outputs-only"]) == app.DONE
    assert "since onnxruntime differs there" in json.loads(capsys.readouterr().out)["judge"]
