"""Test networks with map inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvmrt

STRING, INT64, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT
WORDS = {"string_vocabulary": ["a", "b", "c"]}
NUMBERS = {"int64_vocabulary": [5, 1]}
SPARSE = {"map_form": "SPARSE", "max_map": 4}


def network(key: int, value: int, *nodes: tuple[str, dict, int]) -> onnx.ModelProto:
    """Make a network of operators over one map m: each with its name, attributes and result
    type."""
    kind = onnx.TypeProto()
    kind.map_type.key_type = key
    kind.map_type.value_type.tensor_type.elem_type = value
    kind.map_type.value_type.tensor_type.shape.SetInParent()
    made = [
        helper.make_node(op, ["m"], [f"y{i}"], domain="ai.onnx.ml", **attributes)
        for i, (op, attributes, _) in enumerate(nodes)
    ]
    results = [
        helper.make_tensor_value_info(f"y{i}", to, [1, None]) for i, (_, _, to) in enumerate(nodes)
    ]
    graph = helper.make_graph(made, "maps", [helper.make_value_info("m", kind)], results)
    opsets = [helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("key", "value", "node", "given"),
    [
        (STRING, FLOAT, ("DictVectorizer", WORDS, FLOAT), {"b": 2.5, "z": 1.0}),
        (INT64, FLOAT, ("DictVectorizer", NUMBERS, FLOAT), {1: 2.5, 7: 1.0}),
        (INT64, FLOAT, ("CastMap", {**SPARSE, "cast_to": "TO_FLOAT"}, FLOAT), {1: 2.5, 3: 1.0}),
        (INT64, FLOAT, ("CastMap", {**SPARSE, "cast_to": "TO_INT64"}, INT64), {1: 2.5, 9: 1.0}),
    ],
    ids=["words", "numbers", "cast", "cast-to-int64"],
)
def test_map_operator_equals_onnxruntime(key, value, node, given):
    model = network(key, value, node)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = tvmrt.load(model, cache=False)({"m": given})["y0"]
    np.testing.assert_array_equal(found, session.run(None, {"m": given})[0])
    assert found.dtype == session.run(None, {"m": given})[0].dtype


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (("DictVectorizer", NUMBERS, STRING), ["", "2.5"]),
        (("CastMap", {**SPARSE, "cast_to": "TO_FLOAT"}, FLOAT), [0, 2.5, 0, 0]),
    ],
    ids=["texts", "cast"],
)
def test_string_values(node, expected):
    """onnxruntime's Python API does not accept string values."""
    net = tvmrt.load(network(INT64, STRING, node), cache=False)
    assert net(m={1: "2.5", 7: "y"}).tolist() == [expected]


def test_map_input_is_one_row_in_other_processes(tmp_path):
    """Pass the row itself, and load the library in another process."""
    model = network(STRING, FLOAT, ("DictVectorizer", WORDS, FLOAT))
    net = tvmrt.load(model, cache=tmp_path)
    again = tvmrt.load(model, cache=tmp_path)
    assert again(m={"c": 3}).tolist() == net(m={"c": 3}).tolist() == [[0, 0, 3]]
    assert net(m=np.array([[4, 5, 6]], np.float32)).tolist() == [[4, 5, 6]]
    assert net.inputs[0].shape == (1, 3)


def test_a_pipeline_of_scikit_learn():
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(3)
    rows = [{k: float(rng.normal()) for k in ("height", "width")} for _ in range(40)]
    labels = [int(row["height"] > row["width"]) for row in rows]
    pipeline = make_pipeline(DictVectorizer(sparse=False), LogisticRegression()).fit(rows, labels)
    kind = DictionaryType(StringTensorType([1]), FloatTensorType([1]))
    exported = skl2onnx.to_onnx(
        pipeline, initial_types=[("x", kind)], options={LogisticRegression: {"zipmap": False}}
    )
    net = tvmrt.load(exported, cache=False)
    for row in rows[:5]:
        label, chances = net({"x": row}).values()
        assert label.tolist() == pipeline.predict([row]).tolist()
        np.testing.assert_allclose(chances, pipeline.predict_proba([row]), rtol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        ([("CastMap", {}, FLOAT)], r"CastMap .* reads an unknown number of its values"),
        ([], "m is a map that nothing reads"),
        (
            [("DictVectorizer", WORDS, FLOAT), ("DictVectorizer", NUMBERS, FLOAT)],
            "m is a map that its consumers use with different keys",
        ),
    ],
    ids=["dense", "unread", "two-vocabularies"],
)
def test_other_maps_are_refused(nodes, sentence):
    with pytest.raises(tvmrt.error.UnsupportedError, match=sentence):
        tvmrt.compile(network(STRING, FLOAT, *nodes))
