"""Run-time operands: correct if they fit the declared shapes, otherwise rejected by name."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_backend
import onnxruntime
import pytest
from nn_case import case, check
from onnx import TensorProto, helper

from tvmrt.error import UnsupportedError

INT64 = np.iinfo(np.int64)
X = np.random.default_rng(7).standard_normal((4, 3, 3)).astype(np.float32)


def _ints(*numbers: int) -> np.ndarray:
    return np.asarray(numbers, np.int64)


def _floats(*numbers: float) -> np.ndarray:
    return np.asarray(numbers, np.float32)


# One node per row: operator, operands in addition to X, result shape, attributes, and other
# operand values that fit the shape.
NODES = {
    "slice": ("Slice", [_ints(0, 1), _ints(2, 3), _ints(0, 2), _ints(1, 1)], (2, 3, 2), {}, [
        {0: _ints(-1, 0), 1: _ints(-9, INT64.max), 3: _ints(-2, 2)},
        {2: _ints(-3, -1), 1: _ints(INT64.min, -3), 0: _ints(INT64.max, 2), 3: _ints(-3, -1)},
        {0: _ints(0, 1), 1: _ints(2, 3), 2: _ints(1, 1)},
    ][:2]),
    "pad": ("Pad", [_ints(1, 0, -1, 0, 2, 1), np.float32(7)], (5, 5, 3), {"mode": "constant"}, [
        {0: _ints(-1, 1, 2, 2, 1, -2), 1: np.float32(np.nan)}, {0: _ints(-6, 3, 0, 7, -1, 0)},
    ]),
    "pad_axes": ("Pad", [_ints(1, 2), np.float32(1), _ints(-2)], (4, 6, 3), {}, [
        {0: _ints(0, 3), 2: _ints(1)},
    ]),
    "reflect": ("Pad", [_ints(1, 2, 0, 2, 0, 1)], (7, 5, 4), {"mode": "reflect"}, [
        {0: _ints(3, 0, 1, 0, 2, 0)},
    ]),
    "edge": ("Pad", [_ints(1, 2, 0, 2, 0, 1)], (7, 5, 4), {"mode": "edge"}, [
        {0: _ints(3, 0, 2, 0, 2, -1)},
    ]),
    "wrap": ("Pad", [_ints(1, 2, 0, 2, 0, 1)], (7, 5, 4), {"mode": "wrap"}, [
        {0: _ints(3, 0, 1, 0, 2, 0)},
    ]),
    "nearest": ("Resize", [_floats(), _floats(0.6, 2.1, 1)], (2, 6, 3), {"mode": "nearest"}, [
        {1: _floats(0.7, 2.2, 1.3)},
    ]),
    "linear": ("Resize", [_floats(), _floats(1, 2.1, 1.5)], (4, 6, 4), {"mode": "linear"}, [
        {1: _floats(1.2, 2.3, 1.4)},
    ]),
    "cropped": ("Resize", [_floats(0, 0.1, -0.2, 1, 0.8, 1), _floats(1, 2, 1.5)], (4, 6, 4), {
        "mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    }, [{0: _floats(0, -1, 0.3, 1, 0.5, 2)}]),
    "all_axes": ("ReduceMax", [_ints()], (1, 1, 1), {}, []),
    "reshape": ("Reshape", [_ints(2, 6, 3)], (2, 6, 3), {}, [{0: _ints(2, -1, 3)}]),
    "tile": ("Tile", [_ints(2, 1, 3)], (8, 3, 9), {}, []),
    "topk": ("TopK", [_ints(2)], (4, 3, 2), {}, []),
}  # fmt: skip
RANGES = {
    "range_f": ([np.float32(1), np.float32(2.9), np.float32(0.5)], 4, [
        [np.float32(-1), np.float32(-4.5), np.float32(-1)],
    ]),
    "range_i": ([np.int64(3), np.int64(10), np.int64(2)], 4, [
        [np.int64(0), np.int64(-7), np.int64(-2)],
    ]),
}  # fmt: skip


def _model() -> onnx.ModelProto:
    nodes, inputs, outputs = [], [_info("x", X)], []
    for name, (op, operands, shape, attrs, _) in NODES.items():
        names = [f"{name}_{i}" for i in range(len(operands))]
        inputs += map(_info, names, operands)
        results = [name, f"{name}_places"] if op == "TopK" else [name]
        nodes.append(helper.make_node(op, ["x", *names], results, name, **attrs))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    for name, (operands, count, _) in RANGES.items():
        names = [f"{name}_{i}" for i in range(3)]
        inputs += map(_info, names, operands)
        nodes.append(helper.make_node("Range", names, [name], name))
        kind = helper.np_dtype_to_tensor_dtype(operands[0].dtype)
        outputs.append(helper.make_tensor_value_info(name, kind, [count]))
    graph = helper.make_graph(nodes, "operands", inputs, outputs)
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype)
    return helper.make_tensor_value_info(name, kind, np.shape(value))


def _feeds() -> dict[str, np.ndarray]:
    feeds = {"x": X}
    for name, (_, operands, *_) in NODES.items():
        feeds.update({f"{name}_{i}": v for i, v in enumerate(operands)})
    for name, (operands, *_) in RANGES.items():
        feeds.update({f"{name}_{i}": v for i, v in enumerate(operands)})
    return {name: np.asarray(value) for name, value in feeds.items()}


@pytest.fixture(scope="module")
def network():
    return onnx_backend.prepare(_model(), target="host")


@pytest.fixture(scope="module")
def reference():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(_model().SerializeToString(), options)


def _variants():
    for name, (*_, others) in NODES.items():
        for k, other in enumerate([{}, *others]):
            changed = {f"{name}_{i}": np.asarray(v) for i, v in other.items()}
            yield pytest.param(name, changed, id=f"{name}-{k}")
    for name, (operands, _, others) in RANGES.items():
        for k, values in enumerate([operands, *others]):
            changed = {f"{name}_{i}": np.asarray(v) for i, v in enumerate(values)}
            yield pytest.param(name, changed, id=f"{name}-{k}")


@pytest.mark.parametrize("name, changed", list(_variants()))
def test_valid_operands(network, reference, name, changed):
    feeds = {**_feeds(), **changed}
    place = [*NODES, *RANGES].index(name)
    wanted = reference.run(None, feeds)[place]
    found = network.run(feeds)[place]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 1e-6, 1e-6)


REFUSED = {
    "slice_0": (_ints(1, 1), r"Slice 'slice', starts: the run has \[1, 1\], the network was "
                             r"compiled for results of shape \[2, 3, 2\]"),
    "slice_1": (_ints(INT64.max, INT64.min), "Slice 'slice', starts"),
    "slice_2": (_ints(INT64.min, 9), "Slice 'slice', starts"),
    "slice_3": (_ints(0, INT64.min), "Slice 'slice', starts"),
    "pad_0": (_ints(1, 0, 0, 0, 2, 1), "Pad 'pad', pads"),
    "reflect_0": (_ints(INT64.max, 2, 0, INT64.max, 0, 1), "Pad 'reflect', pads"),
    "nearest_1": (_floats(0.6, np.nan, 1), "Resize 'nearest', scales"),
    "linear_1": (_floats(1, np.inf, -1), "Resize 'linear', scales"),
    "reshape_0": (_ints(-1, 3, 6), "Reshape 'reshape', shape"),
    "tile_0": (_ints(2, 1, INT64.min), "'tile', extent of axis 2"),
    "range_f_2": (np.float32(0), "Range 'range_f', limit"),
    "range_f_1": (np.float32(np.nan), "Range 'range_f', limit"),
    "range_i_2": (np.int64(0), "Range 'range_i', limit"),
    "range_i_0": (np.int64(INT64.min), "Range 'range_i', limit"),
}  # fmt: skip


@pytest.mark.parametrize("operand", REFUSED)
def test_invalid_operands(network, operand):
    value, words = REFUSED[operand]
    with pytest.raises(ValueError, match=words):
        network.run({**_feeds(), operand: value})
    network.run(_feeds())  # the next run succeeds


def test_sizes_of_windows():
    """The window size is the only operand; the declared one is a maximum."""
    nodes, outputs = [], []
    for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        nodes.append(helper.make_node(op, ["n"], [op], op))
        outputs.append(helper.make_tensor_value_info(op, TensorProto.FLOAT, [12]))
    graph = helper.make_graph(nodes, "windows", [_info("n", np.int64(0))], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    network = onnx_backend.prepare(model, target="host")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    size = {"n": np.array(12)}
    for found, wanted in zip(network.run(size), session.run(None, size)):
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-6)
    with pytest.raises(ValueError, match=r"Blackman.*, extent of axis 0 is 13, expected 0 to 12"):
        network.run({"n": np.int64(13)})


def _weights(op: str, shape, weights, bias=None, **attrs):
    rng = np.random.default_rng(len(shape) + sum(weights))
    operands = [rng.standard_normal(shape), rng.standard_normal(weights)]
    if bias is not None:
        operands.append(rng.standard_normal(bias))
    name = " ".join(map(str, (op, *shape, *weights)))
    return case(name, op, [o.astype(np.float32) for o in operands], **attrs)


def _integers(kind: type, channels: int, zeros: int, **attrs):
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 256, (2, channels, 6, 5)).astype(np.uint8)
    low, high = (-128, 128) if kind is np.int8 else (0, 256)
    depth = channels // attrs.get("group", 1)
    w = rng.integers(low, high, (4, depth, 3, 2)).astype(kind)
    w_zero = rng.integers(0, 9, zeros).astype(kind)
    return case(f"ConvInteger {channels}", "ConvInteger", [x, w, np.uint8(7), w_zero], **attrs)


def test_weights_of_convolutions(tmp_path):
    """Weights as network inputs; other files test constant ones."""
    cases = [
        _weights("ConvTranspose", (2, 4, 5, 6), (4, 3, 3, 2), (3,), strides=[2, 1]),
        _weights("ConvTranspose", (1, 4, 5), (4, 2, 3), group=2, strides=[3], pads=[1, 2],
                 dilations=[2], output_padding=[1]),
        _weights("ConvTranspose", (1, 2, 1, 4), (2, 1, 2, 3), strides=[2, 2],
                 auto_pad="SAME_UPPER"),
        _integers(np.int8, 100, 4, pads=[1, 1, 0, 2], strides=[1, 2]),
        _integers(np.uint8, 6, 1, group=2),
    ]  # fmt: skip
    check(cases, 14, tmp_path)


def test_missing_declared_shape_is_reported():
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["wide"], "cutting"),
        helper.make_node("MatMul", ["wide", "x"], ["y"]),
    ]
    inputs = [_info("x", X[0]), _info("pads", _ints(0, 0, 0, 0))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs))
    words = r"cutting .*pads .*or declare the shape of the result"
    with pytest.raises(UnsupportedError, match=words):
        onnx_backend.prepare(model)
