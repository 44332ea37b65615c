"""Compare preprocessing and encoding operators, and string labels, with onnxruntime."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from ml_networks import by_onnxruntime, differences, one_node, run, side_by_side
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.error import UnsupportedError

X = np.array([[1, -2, 0.5], [0, 0, 0], [np.nan, 3, -7], [2, 1.5, 1e30], [-1, -5, -2]], np.float32)
INTS = np.array([[1, -2, 3], [0, 0, 0], [4, 3, -7], [2, 1, 9], [-1, -5, -2]], np.int64)
DOUBLES = X.astype(np.float64)
PLACES = np.array([2, 0, 1, 1], np.int64)


def _cases() -> dict[str, tuple]:
    """Return operator, inputs and attributes of each case."""
    svm = {
        "coefficients": [0.5, -1.0, 0.25, 2.0],
        "support_vectors": [1.0, 0, 2, -1, 1, 0, 3, 0.5, 1, 0, 0, 1],
        "kernel_params": [0.5, 0.25, 3.0],
        "rho": [0.125],
    }
    clean = np.nan_to_num(X[:3])
    linear = {"coefficients": [0.5, -1, 2, 1, 1, -1], "intercepts": [0.25, -0.5]}
    found = {
        "scaler": ("Scaler", [X], {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, -1.0]}),
        "scaler-one": ("Scaler", [INTS], {"offset": [1.0], "scale": [0.5]}),
        "scaler-doubles": ("Scaler", [DOUBLES], {"offset": [1.0], "scale": [0.5]}),
        "imputer": (
            "Imputer",
            [X],
            {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": float("nan")},
        ),
        "imputer-number": (
            "Imputer",
            [X],
            {"imputed_value_floats": [7.0], "replaced_value_float": 3.0},
        ),
        "imputer-ints": (
            "Imputer",
            [INTS],
            {"imputed_value_int64s": [5], "replaced_value_int64": 0},
        ),
        "binarizer": ("Binarizer", [np.nan_to_num(X)], {"threshold": 1.0}),
        "extractor": ("ArrayFeatureExtractor", [X, PLACES], {}),
        "extractor-vector": ("ArrayFeatureExtractor", [X[0], PLACES], {}),
        "vectorizer": (
            "FeatureVectorizer",
            [INTS, INTS[:, :1], INTS[:, :2]],
            {"inputdimensions": [2, 1, 4]},
        ),
        "one-hot": ("OneHotEncoder", [INTS], {"cats_int64s": [3, -7, 0]}),
        "one-hot-floats": ("OneHotEncoder", [clean], {"cats_int64s": [1, 3, 0]}),
        "encoder": (
            "LabelEncoder",
            [INTS],
            {"keys_int64s": [3, 0, 9], "values_int64s": [10, 20, 30], "default_int64": -5},
        ),
        "encoder-far": (
            "LabelEncoder",
            [INTS],
            {"keys_int64s": [3, -2, 1 << 40], "values_floats": [0.5, 1.5, 2.5]},
        ),
        "encoder-floats": (
            "LabelEncoder",
            [X],
            {"keys_floats": [3.0, 7.0, 0.5], "values_int64s": [1, 2, 3]},
        ),
        "regressor": ("LinearRegressor", [clean], {"targets": 2, **linear}),
    }
    for norm in ("MAX", "L1", "L2"):
        found[f"normalizer-{norm}"] = ("Normalizer", [clean], {"norm": norm})
    for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        labels = {"classlabels_ints": [4, 2], "post_transform": how}
        found[f"linear-{how}"] = ("LinearClassifier", [clean], {**linear, **labels})
        one = {"coefficients": [0.5, -1.0, 2.0], "intercepts": [0.25]}
        found[f"linear-one-{how}"] = ("LinearClassifier", [clean], {**one, **labels})
    found["linear-PROBIT"] = (
        "LinearClassifier",
        [np.abs(clean) / 9],
        {
            "coefficients": [0.1, 0.2, 0.3] * 3,
            "intercepts": [0.1, 0.2, 0.3],
            "post_transform": "PROBIT",
            "classlabels_ints": [0, 1, 2],
        },
    )
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        more = {"kernel_type": kind, "n_supports": 4}
        found[f"svr-{kind}"] = ("SVMRegressor", [clean], {**svm, **more})
        more = {"kernel_type": kind, "vectors_per_class": [2, 2], "classlabels_ints": [0, 1]}
        found[f"svc-{kind}"] = ("SVMClassifier", [clean], {**svm, **more})
    found["one-class"] = (
        "SVMRegressor",
        [clean],
        {**svm, "kernel_type": "RBF", "n_supports": 4, "one_class": 1},
    )
    found["svr-without-vectors"] = (
        "SVMRegressor",
        [clean],
        {**svm, "coefficients": [0.5, 1.0, -2.0], "kernel_type": "LINEAR", "n_supports": 0},
    )
    return found


CASES = _cases()
_TWO = ("LinearClassifier", "SVMClassifier")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    models = {
        name: one_node(op, inputs, 2 if op in _TWO else 1, **attributes)
        for name, (op, inputs, attributes) in CASES.items()
    }
    model = side_by_side(models)
    feeds = {
        f"{name}/x{i}": array for name, case in CASES.items() for i, array in enumerate(case[1])
    }
    found = run(model, feeds, tmp_path_factory.mktemp("operators"), optimised=False)
    return found, by_onnxruntime(model, feeds)


@pytest.mark.parametrize("name", CASES)
def test_operator_equals_onnxruntime(everything, name):
    found, wanted = everything
    own = {key: array for key, array in wanted.items() if key.startswith(f"{name}/")}
    assert own
    assert not differences(found, own, 1e-5, 1e-6)


def test_nan_is_a_key_like_others(tmp_path):
    """NaN is a valid key since version 4."""
    keys = {"keys_floats": [3.0, float("nan"), 0.5], "values_int64s": [1, 2, 3]}
    model, feeds = one_node("LabelEncoder", [X], version=4, **keys), {"x0": X}
    assert not differences(run(model, feeds, tmp_path), by_onnxruntime(model, feeds), 0, 0)


def flowers() -> onnx.ModelProto:
    """Make a classifier with string labels, from which another node selects data-dependent rows."""
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            coefficients=[1.0, 0, 0, 0, 1, 0, 0, 0, 1],
            intercepts=[0.0, 0.5, 0.0],
            classlabels_strings=["iris", "rose", "lily"],
        ),
        helper.make_node("Cast", ["label"], ["name"], to=TensorProto.STRING),
        helper.make_node(
            "ZipMap", ["scores"], ["map"], domain="ai.onnx.ml", classlabels_strings=["i", "r", "l"]
        ),
        helper.make_node("ArgMax", ["scores"], ["place"], axis=1, keepdims=0),
        helper.make_node(
            "ArrayFeatureExtractor", ["kinds", "place"], ["kind"], domain="ai.onnx.ml"
        ),
        helper.make_node(
            "LabelEncoder",
            ["label"],
            ["number"],
            domain="ai.onnx.ml",
            keys_strings=["lily", "iris"],
            values_int64s=[7, 8],
        ),
    ]
    kinds = numpy_helper.from_array(np.array(["bulb", "bush", "bulb"], object), "kinds")
    value = helper.make_tensor_value_info
    outputs = [
        value("name", TensorProto.STRING, [3]),
        value("kind", TensorProto.STRING, [1, 3]),
        value("number", TensorProto.INT64, [3]),
        helper.make_value_info(
            "map",
            helper.make_sequence_type_proto(
                helper.make_map_type_proto(
                    TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
                )
            ),
        ),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [3, 3])], outputs, [kinds])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_string_labels_are_indices_of_a_list(tmp_path):
    model = flowers()
    feeds = {"x": np.array([[0, 5, 1], [9, 0, 1], [1, 2, 3]], np.float32)}
    found, wanted = run(model, feeds, tmp_path), by_onnxruntime(model, feeds)
    labels = {o.name: o.labels for o in tvmrt.compile(model).summary.outputs}
    assert [labels["name"][i] for i in found["name"]] == wanted["name"].tolist()
    kinds = [[labels["kind"][i] for i in row] for row in found["kind"]]
    assert kinds == wanted["kind"].tolist()
    assert (found["number"] == wanted["number"]).all()
    maps = [dict(zip(labels["map"], row)) for row in found["map"].tolist()]
    assert maps == wanted["map"]


@pytest.mark.slow
def test_the_commands_know_labels(tmp_path):
    """``verify`` compares strings and maps with onnxruntime, ``inspect`` lists the labels."""
    onnx.save(flowers(), tmp_path / "flowers.onnx")
    for command, said in (
        ("verify", "11 of 11 tensors agree with onnxruntime"),
        ("inspect", "iris, rose, lily"),
    ):
        words = [sys.executable, "-m", "tvmrt", command, "flowers.onnx"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr


def _wrong() -> dict[str, tuple]:
    return {
        "map": (
            "DictVectorizer",
            [X],
            {"int64_vocabulary": [1]},
            "it reads a map that is not an input",
        ),
        "cast": ("CastMap", [X], {}, "it reads a map that is not an input"),
        "strings": (
            "LabelEncoder",
            [INTS],
            {"keys_strings": ["a"], "values_int64s": [1]},
            "the keys are strings, the input has int64 elements",
        ),
        "pairs": (
            "SVMClassifier",
            [X],
            {
                "classlabels_ints": [0, 1, 2],
                "vectors_per_class": [1, 1, 1],
                "coefficients": [1.0] * 6,
                "rho": [1.0],
            },
            "rho has 1 elements, expected 3",
        ),
        "rows": (
            "LinearRegressor",
            [X],
            {"coefficients": [1.0, 2.0]},
            "there are 2 coefficients, not a multiple of 3 columns",
        ),
        "zeros": ("OneHotEncoder", [INTS], {"cats_int64s": [1], "zeros": 0}, "zeros=0"),
    }


@pytest.mark.parametrize("name", _wrong())
def test_impossible_options_are_refused_by_name(name):
    op, inputs, attributes, said = _wrong()[name]
    with pytest.raises((UnsupportedError, ValueError), match=op) as caught:
        tvmrt.compile(one_node(op, inputs, 2 if op in _TWO else 1, **attributes))
    if name not in ("map", "cast"):  # which do not accept tensors, either
        assert said in str(caught.value)


def test_string_comparisons_are_refused():
    model = flowers()
    model.graph.node.append(helper.make_node("Equal", ["kind", "kinds"], ["same"]))
    with pytest.raises(UnsupportedError, match=r"Equal: it handles strings; do that before or"):
        tvmrt.compile(model)
