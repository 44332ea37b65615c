"""Scales of a slice of a matmul's channels: which weights absorb them, and when they stay."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform import optimize

F32 = np.float32
RNG = np.random.default_rng(6)
X = {"x": np.zeros((1, 10, 24), F32)}
CONSTANTS = {
    "w": RNG.normal(size=(24, 72)).astype(F32),
    "b": RNG.normal(size=72).astype(F32),
    "apart": np.array([1, 10, 3, 3, 8]),
    "heads": np.array([1, 10, 3, 8]),
    "scale": np.array([0.3], F32),
    **{f"i{k}": np.array(k) for k in range(3)},
}


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


JOINT = [node("MatMul", "x w", "m"), node("Add", "m b", "qkv")]
# as in torch attention: an axis of three, split into query, key and value
BY_GATHER = [
    node("Reshape", "qkv apart", "r"),
    node("Transpose", "r", "t", perm=[2, 0, 3, 1, 4]),
    *(node("Gather", f"t i{k}", name, axis=0) for k, name in enumerate("qkv")),
]
# as in GPT
BY_SPLIT = [node("Split", "qkv", "q0 k0 v0", axis=-1)] + [
    each
    for name in "qkv"
    for each in (
        node("Reshape", f"{name}0 heads", f"{name}1"),
        node("Transpose", f"{name}1", name, perm=[0, 2, 1, 3]),
    )
]
SCORES = [
    node("Mul", "q scale", "qs"),
    node("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
    node("MatMul", "qs kt", "s"),
    node("Softmax", "s", "p", axis=-1),
    node("MatMul", "p v", "y"),
]
FORMS = {"gather": BY_GATHER, "split": BY_SPLIT}


def attention(form: str, outputs=("y",)):
    return model([*JOINT, *FORMS[form], *SCORES], X, list(outputs), CONSTANTS)


def multiplications(network) -> int:
    graph = import_model(network)
    optimize(graph, lambda name, graph: None)
    return sum(n.op == "mul" for n in graph.nodes)


@pytest.mark.parametrize("form", FORMS)
def test_scale_is_folded_into_query_columns(form):
    network = attention(form)
    assert multiplications(network) == 0
    x = RNG.normal(size=(1, 10, 24)).astype(F32)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    found = tvmrt.load(tvmrt.compile(network))(x=x)
    found = found if isinstance(found, np.ndarray) else next(iter(dict(found).values()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["qkv", "q"])
def test_channels_with_other_readers_are_kept(form, name):
    assert multiplications(attention(form, ("y", name))) == 1


def test_parts_that_overlap_stay():
    rest = [
        node("Slice", "qkv begin end axis", "q"),
        node("Mul", "q scale", "qs"),
        node("Slice", "qkv inside end axis", "k"),
        node("Exp", "k", "z"),
    ]
    places = {"begin": [0], "inside": [20], "end": [24], "axis": [2]}
    constants = {**CONSTANTS, **{name: np.array(at) for name, at in places.items()}}
    assert multiplications(model([*JOINT, *rest], X, ["qs", "z"], constants)) == 1
    constants["inside"], constants["end2"] = np.array([24]), np.array([48])
    rest[2] = node("Slice", "qkv inside end2 axis", "k")
    assert multiplications(model([*JOINT, *rest], X, ["qs", "z"], constants)) == 0
