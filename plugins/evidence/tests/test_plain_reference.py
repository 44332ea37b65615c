"""The reference equals onnxruntime on single operators, compiled networks on whole ones, and
differs from networks that were changed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper
from reference_case import Reference, import_graph, model_of

import tvmrt
from tvmrt.plugins.evidence.bounds import error_bounds
from tvmrt.plugins.evidence.reference.files import missing

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
FOLDER = Path(os.environ.get("TVMRT_MODELS") or DIGITS)
QUICK = ("hand_keypoint_mlp_f32", "kws_dscnn_int8", "mnist_cnn_f32")
MODELS = [
    pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
    for path in sorted(FOLDER.glob("*.onnx"))
    if path.with_suffix(".npz").exists()
]
# Largest difference in parts of the largest result, and elements of integer results that differ:
# ties of a resize in float32, which the network rounds to integers.
TOLERANCE = {"basic_pitch_f32": 5e-4, "yolox_nano_f32": 5e-5, "fastestdet_f32": 2e-5}
TIES = {"deeplabv3_mnv2_dm05_uint8": 20}
F32 = np.float32


def normal(*shape):
    return np.random.default_rng(7).normal(0, 1, shape).astype(F32)


def arange(*shape):
    return np.arange(np.prod(shape), dtype=F32).reshape(shape)


X = normal(2, 4, 9, 8)
SEQUENCE = normal(5, 2, 6)
ONE_OPERATOR = {
    "conv": ("Conv", X, [normal(6, 2, 3, 3), normal(6)],
             {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}),
    "conv_1d": ("Conv", normal(1, 3, 17), [normal(5, 3, 4)], {"pads": [2, 1]}),
    "conv_transpose": ("ConvTranspose", X, [normal(4, 3, 3, 2), normal(6)],
                       {"group": 2, "strides": [2, 3], "pads": [1, 0, 0, 1]}),
    "matmul": ("MatMul", normal(3, 1, 5, 7), [normal(2, 7, 4)], {}),
    "gemm": ("Gemm", normal(5, 7), [normal(4, 7), normal(4)], {"transB": 1, "alpha": 0.5}),
    "max_pool": ("MaxPool", X, [], {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0],
                                    "strides": [2, 2]}),
    "avg_pool": ("AveragePool", X, [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "avg_pool_pads": ("AveragePool", X, [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1],
                                             "count_include_pad": 1, "strides": [2, 2]}),
    "global_pool": ("GlobalAveragePool", X, [], {}),
    "softmax": ("Softmax", X, [], {"axis": 1}),
    "log_softmax": ("LogSoftmax", X, [], {"axis": -1}),
    "layer_norm": ("LayerNormalization", X, [normal(9, 8), normal(9, 8)], {"axis": 2}),
    "mean": ("ReduceMean", X, [], {"axes": [1, 3], "keepdims": 0}),
    "sum": ("ReduceSum", X, [np.array([2])], {"keepdims": 1}),
    "reduce_max": ("ReduceMax", X, [], {"axes": [-1]}),
    "reduce_prod": ("ReduceProd", X, [], {"axes": [0, 1]}),
    "transpose": ("Transpose", X, [], {"perm": [2, 0, 3, 1]}),
    "slice": ("Slice", X, [np.array([7, 0]), np.array([-20, 8]), np.array([2, 3]),
                           np.array([-2, 3])], {}),
    "pad_edge": ("Pad", X, [np.array([0, 1, 2, 0, 0, 0, 1, 3])], {"mode": "edge"}),
    "pad_reflect": ("Pad", X, [np.array([0, 0, 2, 3, 0, 0, 1, 3])], {"mode": "reflect"}),
    "pad_value": ("Pad", X, [np.array([0, 0, 1, 0, 0, 0, 0, 2]), np.array(2.5, F32)], {}),
    "pad_wrap": ("Pad", X, [np.array([0, 1, 2, 0, 0, 0, 1, 3])], {"mode": "wrap"}),
    "identity": ("Identity", X, [], {}),
    "resize_odd": ("Resize", X, [np.array([], F32), np.array([1, 1, 1.3, 0.7], F32)],
                   {"mode": "nearest"}),
    "expand": ("Expand", normal(3, 1), [np.array([2, 3, 4])], {}),
    "gather": ("Gather", X, [np.array([[0, -1], [2, 1]])], {"axis": 2}),
    "scatter_nd": ("ScatterND", arange(4, 5), [np.array([[1], [-1]]), normal(2, 5)], {}),
    "resize_linear": ("Resize", X, [np.array([], F32), np.array([1, 1, 1.7, 0.6], F32)],
                      {"mode": "linear"}),
    "resize_nearest": ("Resize", X, [np.array([], F32), np.array([1, 1, 2, 2], F32)],
                       {"mode": "nearest"}),
    "depth_to_space": ("DepthToSpace", X, [], {"blocksize": 2}),
    "lstm": ("LSTM", SEQUENCE, [normal(1, 16, 6), normal(1, 16, 4), normal(1, 32)],
             {"hidden_size": 4, "direction": "reverse"}),
    "gru": ("GRU", SEQUENCE, [normal(1, 12, 6), normal(1, 12, 4), normal(1, 24)],
            {"hidden_size": 4, "linear_before_reset": 1}),
    "gru_reset_first": ("GRU", SEQUENCE, [normal(2, 12, 6), normal(2, 12, 4), normal(2, 24)],
                        {"hidden_size": 4, "direction": "bidirectional", "clip": 0.7}),
    "prelu": ("PRelu", X, [normal(4, 1, 1)], {}),
    "batch_norm": ("BatchNormalization", X, [normal(4), normal(4), normal(4), abs(normal(4))], {}),
    "quantize": ("QuantizeLinear", X, [np.array(0.03, F32), np.array(-7, np.int8)], {}),
    "dynamic_quantize": ("DynamicQuantizeLinear", X, [], {}),
    "argmax": ("ArgMax", np.round(X), [], {"axis": 2, "select_last_index": 1}),
    "cast": ("Cast", X * 100, [], {"to": 6}),
    **{
        op.lower(): (op, np.abs(X) * 0.9 + 0.05, [], {})
        for op in ("Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Softplus", "Sin", "Cos", "Neg",
                   "Floor", "Ceil", "Round", "Abs", "Reciprocal", "Relu", "Sign", "Atan")
    },
    **{
        op.lower(): (op, X, [normal(9, 1) + 4], {})
        for op in ("Add", "Sub", "Mul", "Div", "Min", "Max")
    },
    "greater": ("Greater", X, [normal(9, 1)], {}),
    "power": ("Pow", np.abs(X) + 0.1, [np.array(1.7, F32)], {}),
    "integer_product": ("Mul", np.arange(-6, 6), [np.arange(12) * 2**61], {}),
    "integer_quotient": ("Div", np.arange(-6, 6), [np.arange(1, 13)], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", ONE_OPERATOR)
def test_an_operator_equals_onnxruntime(case, tmp_path):
    op, x, operands, attributes = ONE_OPERATOR[case]
    constants = {f"c{i}": a for i, a in enumerate(operands)}
    several = {"DynamicQuantizeLinear": ["y", "y_scale", "y_zero"]}.get(op, ["y"])
    row = (op, ["x", *constants], several, attributes)
    types = {"Greater": 9, "ArgMax": 7, "Cast": 6, "QuantizeLinear": 3, "DynamicQuantizeLinear": 2}
    kind = types.get(op, 7 if x.dtype == np.int64 else 1)
    model = model_of([row], {"x": x}, constants, ["y"], types={"y": kind})
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": x})[0]
    found = Reference(import_graph(model), tmp_path).run({"x": x})["y"]
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("path", MODELS)
def test_a_network_equals_its_reference(path, tmp_path):
    """Integers to the bit; floats within a tolerance and within their bounds."""
    with np.load(path.with_suffix(".npz")) as golden:
        feeds = {name: golden[name] for name in golden.files if not name.startswith("out:")}
    graph = import_graph(path)
    expected = Reference(graph, tmp_path).run(feeds)
    bounds = error_bounds(graph, {v.name: (feeds[v.name],) * 2 for v in graph.inputs})["outputs"]
    compiled = tvmrt.load(path)(feeds)
    for name, array in expected.items():
        found = np.asarray(compiled[name])
        if array.dtype.kind != "f":
            assert np.count_nonzero(found != array) <= TIES.get(path.stem, 0)
            continue
        distance = np.abs(found.astype(np.float64) - array).max()
        assert distance <= TOLERANCE.get(path.stem, 5e-6) * max(np.abs(array).max(), 1e-6)
        assert distance <= bounds[name]["error"] + np.spacing(np.abs(array).max())


CONV = [
    ("DequantizeLinear", ["q", "s", "z"], ["x"], {}),
    ("DequantizeLinear", ["w", "ws", "wz"], ["v"], {"axis": 0}),
    ("Conv", ["x", "v", "b"], ["c"], {"pads": [1, 1, 1, 1]}),
    ("Relu", ["c"], ["r"], {}),
    ("QuantizeLinear", ["r", "ys", "yz"], ["p"], {}),
    ("DequantizeLinear", ["p", "ys", "yz"], ["d"], {}),
    ("MaxPool", ["d"], ["m"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("Sub", ["m", "k"], ["t"], {}),
    ("QuantizeLinear", ["t", "ys", "yz"], ["y"], {}),
]


@pytest.fixture(scope="module")
def quantised():
    """A quantised layer, a pool and a difference; its input."""
    rng = np.random.default_rng(3)
    i8 = np.int8
    constants = {
        "s": np.array(0.02, F32), "z": np.array(-3, i8),
        "ws": rng.uniform(0.01, 0.03, 5).astype(F32), "wz": np.zeros(5, i8),
        "w": rng.integers(-127, 127, (5, 3, 3, 3), i8), "k": normal(5, 1, 1),
        "b": rng.integers(-900, 900, 5).astype(F32),
        "ys": np.array(0.05, F32), "yz": np.array(4, i8),
    }  # fmt: skip
    constants["b"] *= constants["s"] * constants["ws"]
    q = rng.integers(-128, 127, (1, 3, 12, 11), i8)
    return model_of(CONV, {"q": q}, constants, ["y"], types={"y": 3}), {"q": q}


def test_a_quantised_layer_is_one_function_and_equals_the_network_to_the_bit(quantised, tmp_path):
    model, feeds = quantised
    reference = Reference(import_graph(model), tmp_path)
    text = (tmp_path / "net_reference.c").read_text()
    assert "int64_t sum = bias[i1];" in text
    expected = np.asarray(tvmrt.load(model)(feeds)["y"])
    np.testing.assert_array_equal(reference.run(feeds)["y"], expected)


@pytest.mark.parametrize("shape", [(5,), (5, 1, 1)])
def test_a_constant_along_the_width_is_not_taken_for_a_bias(shape, quantised, tmp_path):
    """Five channels and five columns: only the second constant has a number for each channel."""
    weights = {each.name: numpy_helper.to_array(each) for each in quantised[0].graph.initializer}
    weights["a"] = normal(*shape) * 5
    row = ("Add", ["c", "a"], ["e"], {})
    nodes = [
        *CONV[:3],
        row,
        ("Relu", ["e"], ["r"], {}),
        ("QuantizeLinear", ["r", "ys", "yz"], ["y"], {}),
    ]
    feeds = {"q": quantised[1]["q"][..., :5]}
    model = model_of(nodes, feeds, weights, ["y"], types={"y": 3})
    found = Reference(import_graph(model), tmp_path).run(feeds)["y"]
    layers = (tmp_path / "net_reference.c").read_text().count("int64_t sum")
    assert layers == (shape == (5, 1, 1))
    distance = np.abs(found.astype(int) - np.asarray(tvmrt.load(model)(feeds)["y"]))
    assert distance.max() <= (0 if layers else 1)  # a sum of floats may lie next to a tie


FAULTS = {  # regular expressions and what replaces their first match
    "wrong offset": (r"k1 \* 1 - 1;", "k1 * 1 - 0;"),
    "swapped operands": (r"\((\(\(double\)t7.*?\)) - (\(.*?\))\);", r"(\2 - \1);"),
    "missing clamp": (r"4, 4, 127\)", "4, -128, 127)"),
    "stale constant": (r"scale\[\] = {", "scale[] = {2.0f * "),
    "skipped step": (r"\n  node7_sub\(\);", ""),
    "short loop": ("k0 < 3;", "k0 < 2;"),
    "wrong stride": (r"i2 \* 2 \+ k0", "i2 * 1 + k0"),
    "wrong zero point": (r"- \(-3\)", "- (3)"),
    "lost bias": (r"sum = bias\[i1\]", "sum = 0"),
    "wrong axis": (r"scale\[i1\]", "scale[i2 % 5]"),
    "lost padding": (r"s0 < 0 \|\| s0 >= 12", "s0 < 1 || s0 >= 12"),
    "minimum for maximum": ("> most", "< most"),
}


@pytest.fixture(scope="module")
def pristine(quantised, tmp_path_factory):
    model, feeds = quantised
    return import_graph(model), feeds, np.asarray(tvmrt.load(model)(feeds)["y"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_miscompilation_is_a_difference(fault, pristine, tmp_path):
    """The comparison accepts the network, and rejects each changed program."""
    graph, feeds, expected = pristine
    reference = Reference(graph, tmp_path)
    np.testing.assert_array_equal(reference.run(feeds)["y"], expected)
    old, new = FAULTS[fault]
    reference.patch(old, new)
    assert np.count_nonzero(reference.run(feeds)["y"] != expected) > 0


FLOAT_FAULTS = {
    "lost term": (r"k < 7;", "k < 6;"),
    "swapped operands": (r"\((\(\(double\)t2.*?\)) - (\(.*?\))\);", r"(\2 - \1);"),
    "skipped step": (r"\n  node3_tanh\(\);", ""),
    "missing maximum": (r"exp\((.*?) - most\) / sum", r"exp(\1) / sum"),
    "stale constant": (r"\(double\)c1\[", "1.0001 * (double)c1["),
}


@pytest.mark.parametrize("fault", FLOAT_FAULTS)
def test_a_seeded_miscompilation_of_floats_is_a_difference(fault, tmp_path):
    feeds, constants = {"x": normal(5, 7)}, {"w": normal(7, 4), "b": normal(4)}
    rows = [("MatMul", ["x", "w"], ["h"], {}), ("Sub", ["h", "b"], ["i"], {}),
            ("Tanh", ["i"], ["t"], {}), ("Softmax", ["t"], ["y"], {})]  # fmt: skip
    model = model_of(rows, feeds, constants, ["y"])
    reference = Reference(import_graph(model), tmp_path)
    bound = error_bounds(reference.graph, {"x": (feeds["x"], feeds["x"])})["outputs"]["y"]["error"]
    found = np.asarray(tvmrt.load(model)(feeds)["y"])
    assert np.abs(reference.run(feeds)["y"] - found).max() <= bound < 1e-4
    reference.patch(*FLOAT_FAULTS[fault])
    assert np.abs(reference.run(feeds)["y"] - found).max() > bound


def test_a_changed_weight_is_a_difference(pristine, tmp_path):
    graph, feeds, expected = pristine
    weights = next(v for v in graph.constants() if v.shape == (5, 3, 3, 3))
    integers = weights.producer.inputs[0]
    integers.data = integers.data.copy()
    integers.data.flat[40] ^= 64
    found = Reference(graph, tmp_path).run(feeds)["y"]
    integers.data.flat[40] ^= 64
    assert np.count_nonzero(found != expected) > 0


def test_what_has_no_reference_is_named():
    x = normal(1, 3, 8, 8)
    grid = np.zeros((1, 4, 4, 2), F32)
    model = model_of(
        [("GridSample", ["x", "g"], ["y"], {})], {"x": x, "g": grid}, {}, ["y"], opset=16
    )
    graph = import_graph(model)
    (reason,) = missing(graph)
    assert reason.startswith("operator grid_sample of node ")
