"""Networks that are valid at some sizes only: other sizes are refused with one sentence.

The reference is onnxruntime without optimisations, at each size.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx.parser
import pytest
from boards import BOARDS
from dynamic_networks import Draft
from onnx import TensorProto
from sized_call import read_results, results_on_board, sizes_of
from test_sizes_in_c import OUT_OF_RANGE, sanitized
from test_sizes_in_firmware_graphs import check as check_runs
from test_sizes_in_firmware_graphs import (
    compiled,
    firmware,  # noqa: F401
    on_this_machine,
)

import tvmrt
from tvmrt.compiler.frontend.onnx.import_passes import import_model
from tvmrt.error import TvmrtWarning

runtime = pytest.importorskip("onnxruntime")
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(d: Draft, x: Sequence[int | str], y: str) -> onnx.ModelProto:
    model = d.model({"x": (FLOAT, x)}, {"y": FLOAT})
    model.graph.node.extend([onnx.helper.make_node("Identity", [y], ["y"])])
    return model


def encoder_decoder(height: str = "height", width: str = "width") -> onnx.ModelProto:
    """Two poolings by 2 and two upsamplings by 2, each joined with the input of the pooling."""
    d = Draft(3)
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    twice = d.constant([1, 1, 2, 2], np.float32)
    up = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    one = d.node("Conv", ["x", d.weight(4, 3, 3, 3)], **conv)
    two = d.node("Conv", [d.node("MaxPool", [one], **pool), d.weight(6, 4, 3, 3)], **conv)
    low = d.node("MaxPool", [two], **pool)
    joined = d.node("Concat", [d.node("Resize", [low, "", twice], **up), two], axis=1)
    joined = d.node("Conv", [joined, d.weight(4, 12, 3, 3)], **conv)
    y = d.node("Add", [d.node("Resize", [joined, "", twice], **up), one])
    return model_of(d, ["batch", 3, height, width], y)


def images(rng, batch: int, height: int, width: int) -> dict[str, np.ndarray]:
    return {"x": np.float32(0.1 * rng.normal(size=(batch, 3, height, width)))}


def expected(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return onnxruntime's first result; None if it refuses the sizes."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options)
    try:
        return session.run(None, dict(inputs))[0]
    except Exception:
        return None


def load(model: onnx.ModelProto, dims: Mapping, **options):
    """Return the network and the diagnostics about its dimensions."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", TvmrtWarning)
        net = tvmrt.load(model, dims=dims, cache=False, **options)
    return net, [str(w.message) for w in found if issubclass(w.category, TvmrtWarning)]


def check(net, model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> bool:
    """Compare one run, which both may refuse. Return whether it ran."""
    right = expected(model, inputs)
    if right is None:
        with pytest.raises(ValueError, match=r"^input"):
            net(dict(inputs))
        return False
    found = net(dict(inputs))["y"]
    assert found.shape == right.shape
    np.testing.assert_allclose(found, right, 1e-4, 1e-5)
    return True


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_skip_connections_require_multiples(executor):
    model, rng = encoder_decoder(), np.random.default_rng(1)
    dims = {"batch": (1, 2), "height": (4, 32), "width": (5, 40)}
    net, remarks = load(model, dims, executor=executor)
    assert any("height ranges from 4 to 32 in multiples of 4, as node" in text for text in remarks)
    assert any("width ranges from 8 to 40 in multiples of 4, as node" in text for text in remarks)
    sizes = [(32, 40), (4, 8), (12, 20), (30, 8), (8, 9), (7, 8), (16, 12)]
    ran = [check(net, model, images(rng, 1 + h % 2, h, w)) for h, w in sizes]
    assert ran == [h % 4 == w % 4 == 0 for h, w in sizes]
    with pytest.raises(ValueError, match=r"axis 2 has 30 elements, expected a multiple of 4"):
        net(images(rng, 1, 30, 8))


@pytest.mark.parametrize("form", ["declared", "in the file"])
def test_derived_dimensions(form):
    """A size is divided by the factor of its dimension's declaration."""
    names = ("height", "width") if form == "declared" else ("4*h", "8*w + 4")
    model, rng = encoder_decoder(*names), np.random.default_rng(2)
    dims = {"batch": (1, 2), "h": (1, 8), "w": (0, 4)}
    dims |= {"height": "4*h", "width": "8*w + 4"} if form == "declared" else {}
    net, remarks = load(model, dims)
    assert not [text for text in remarks if "dimension" in text]
    assert all(check(net, model, images(rng, 1, h, w)) for h, w in [(32, 36), (4, 4), (12, 20)])
    with pytest.raises(ValueError, match=r"has 16 elements, expected a multiple of 8 plus 4"):
        net(images(rng, 1, 8, 16))
    with pytest.raises(ValueError, match=r"expected 4 to 32"):
        net(images(rng, 1, 36, 4))


def test_one_dimension_may_be_another():
    model, rng = encoder_decoder(), np.random.default_rng(3)
    net, _ = load(model, {"batch": (1, 2), "width": "height", "height": "4*h", "h": (1, 5)})
    assert check(net, model, images(rng, 2, 20, 20))
    with pytest.raises(ValueError, match=r"axis 3 has 16 elements"):
        net(images(rng, 1, 20, 16))


@pytest.mark.slow
def test_derived_sizes_in_c(tmp_path):
    """The struct of sizes has the derived dimension; sanitizers check the run."""
    model, rng = encoder_decoder(), np.random.default_rng(4)
    library = tvmrt.compile(
        model,
        dims={"batch": (1, 2), "height": (4, 32), "width": (4, 32)},
        target="cortex-m4",
        interface_api="c",
        module_name="net",
    )
    inputs = [images(rng, b, h, w) for b, h, w in [(2, 32, 32), (1, 4, 4), (2, 8, 24), (1, 32, 8)]]
    runs = [(sizes_of(library, each), each) for each in inputs]
    sanitized(library, runs, tmp_path)
    for each, (result,) in zip(inputs, read_results(library, tmp_path)):
        np.testing.assert_allclose(result, expected(model, each), 1e-4, 1e-5)


def test_derived_sizes_in_graphs_of_firmware(firmware, tmp_path):  # noqa: F811
    model, rng = encoder_decoder(), np.random.default_rng(5)
    library = compiled(model, {"batch": (1, 2), "height": (4, 32), "width": (4, 32)})
    runs = [images(rng, b, h, w) for b, h, w in [(2, 32, 32), (1, 4, 4), (2, 8, 24), (1, 30, 8)]]
    found = on_this_machine(library, runs, tmp_path, firmware)
    check_runs(model, runs[:3], found[:3])
    assert found[3][:2] == (OUT_OF_RANGE, "axis 2: found 30, allowed 28 next (input x)")


def convolution(kernel: int, stride: int, pads: int = 0) -> onnx.ModelProto:
    d = Draft(6)
    y = d.node(
        "Conv", ["x", d.weight(4, 3, kernel, kernel)],
        kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pads] * 4,
    )  # fmt: skip
    return model_of(d, ["batch", "channels", "height", "width"], y)


def test_windows_fit_and_channels_are_those_of_the_weights():
    model, rng = convolution(5, 2), np.random.default_rng(7)
    dims = {"batch": (1, 2), "channels": (1, 8), "height": (1, 20), "width": (1, 20)}
    net, remarks = load(model, dims)
    assert any("the dimension height ranges from 5 to 20, as node" in text for text in remarks)
    assert any("the dimension channels is 3, as node" in text for text in remarks)
    assert [check(net, model, images(rng, 1, h, 20)) for h in (4, 5, 6, 20)] == [False] + [True] * 3


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools_that_round_up_may_give_no_rows(op):
    """A window of 3 with stride 2 gives no row for one row, as in onnxruntime."""
    d = Draft()
    pooled = d.node(op, ["x"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    model = model_of(d, [1, 2, "H", "W"], d.node("Mul", [pooled, d.constant(2, np.float32)]))
    net, remarks = load(model, {"H": (1, 9), "W": (1, 9)})
    assert not remarks
    rng = np.random.default_rng(0)
    for size in [(1, 1), (1, 9), (2, 1), (2, 2), (3, 4), (9, 9)]:
        assert check(net, model, {"x": rng.normal(size=(1, 2, *size)).astype(np.float32)})


def test_sizes_that_never_fit_are_refused_when_compiling():
    dims = {"batch": (1, 2), "channels": (1, 2), "height": (5, 20), "width": (5, 20)}
    with pytest.raises(ValueError, match=r"operand w is float32\[4, 3, 5, 5\]"):
        tvmrt.compile(convolution(5, 2), dims=dims)


def test_a_condition_that_no_small_size_fits_leaves_others():
    """L has no bound: few of its sizes are tried together with N, all of them below the window."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N, 1, L] x) => (float[N, 1, F] y,'
        "float[K] z) <int64[1] most = {299}> { b = Shape<end = 1>(x)  n = Shape<start = 2>(x)"
        "d = Sub(n, most)  k = Mul(b, d)  z = ConstantOfShape(k)"
        "y = MaxPool<kernel_shape = [300], strides = [2]>(x) }"
    )
    graph = import_model(model, dims=dict.fromkeys("NL", (1, 2**31 - 1)))
    (symbol,) = graph.inputs[0].shape[2].symbols()
    assert symbol.low == 300


def test_sides_of_a_convolution_divide_its_elements():
    """A convolution has a side of 1 or more, so a Reshape finds the extent of -1 by it."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (float[A, B, C, D] y)'
        "<int64[4] row = {1, 1, 1, -1}, int64[1] one = {1}, int64[1] last = {-1},"
        "float[3, 1, 1, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> { i = NonZero(x)  f = Cast<to = 1>(i)"
        "r = Reshape(f, row)  p = Conv(r, w)  k = Shape<start = 3>(p)"
        "s = Concat<axis = 0>(one, last, k, one)  y = Reshape(p, s) }"
    )
    graph = import_model(model, dims={"N": (1, 2**31 - 1)})
    assert graph.outputs[0].shape[:2] == (1, 3)


def test_equal_sizes_under_two_names():
    d = Draft(8)
    y = d.node("Add", ["x", d.node("Mul", ["z", "z"])])
    model = d.model({"x": (FLOAT, ["a", "b"]), "z": (FLOAT, ["c", "d"])}, {y: FLOAT})
    net, remarks = load(model, dict.fromkeys("abcd", (1, 6)))
    assert sum("the dimension" in text for text in remarks) == 2
    x, z = np.float32(np.random.default_rng(9).normal(size=(2, 4, 5)))
    np.testing.assert_allclose(net({"x": x, "z": z})[y], x + z * z, 1e-6)
    with pytest.raises(ValueError, match=r"axis 1"):
        net({"x": x, "z": z[:, :3]})


def test_a_mask_that_is_reshaped_by_the_sizes_of_another_input():
    """[c, d] to [a, -1], as in GPT-2: a and c are one size."""
    d = Draft(8)
    shape = d.node("Concat", [d.extent("x", 0), d.constant([-1], np.int64)], axis=0)
    y = d.node("Add", ["x", d.node("Reshape", ["z", shape])])
    model = d.model({"x": (FLOAT, ["a", "b"]), "z": (FLOAT, ["c", "d"])}, {y: FLOAT})
    net, _ = load(model, dict.fromkeys("abcd", (1, 6)))
    for size in [(1, 1), (2, 5), (6, 3)]:
        x, z = np.random.default_rng(9).normal(size=(2, *size)).astype(np.float32)
        np.testing.assert_array_equal(net({"x": x, "z": z})[y], x + z)
    with pytest.raises(ValueError, match=r"axis 0"):
        net({"x": x, "z": z[:3]})


@pytest.mark.parametrize("kernel, stride, pads", [(11, 4, 2), (3, 3, 1), (4, 4, 0), (7, 5, 3)])
def test_strides_above_two_at_dynamic_sizes(kernel, stride, pads):
    model, rng = convolution(kernel, stride, pads), np.random.default_rng(10)
    net, _ = load(model, {"batch": (1, 2), "channels": 3, "height": (16, 40), "width": (12, 41)})
    assert all(check(net, model, images(rng, 2, h, w)) for h, w in [(16, 12), (40, 41), (23, 35)])


def padded(amount: str) -> onnx.ModelProto:
    """Pad the width by an amount that is 0 at some sizes."""
    d = Draft(11)
    width = d.extent("x", 3)
    four, zero = d.constant([4], np.int64), d.constant([0], np.int64)
    if amount == "to a multiple":
        left = d.node("Mod", [width, four])
        more = d.node("Mod", [d.node("Sub", [four, left]), four])
    else:
        more = d.node("Max", [d.node("Sub", [width, d.constant([9], np.int64)]), zero])
    pads = d.node("Concat", [d.constant([0] * 7, np.int64), more], axis=0)
    y = d.node("Pad", ["x", pads])
    return model_of(d, ["batch", 3, "height", "width"], y)


@pytest.mark.parametrize("amount", ["to a multiple", "of what is above 9"])
def test_padding_that_may_be_zero(amount):
    model, rng = padded(amount), np.random.default_rng(12)
    net, _ = load(model, {"batch": (1, 2), "height": (1, 4), "width": (1, 20)})
    assert all(check(net, model, images(rng, 1, 2, w)) for w in (1, 4, 8, 9, 10, 13, 16, 20))


@pytest.mark.parametrize("index", [0, -1, 3, -4])
@pytest.mark.parametrize("op", ["GatherND", "ScatterND"])
def test_constant_indices_of_a_dynamic_axis(op, index):
    d = Draft(13)
    at = d.constant([[index]], np.int64)
    more = [d.constant(np.ones((1, 3)), np.float32)] if op == "ScatterND" else []
    model = model_of(d, ["rows", 3], d.node(op, ["x", at, *more]))
    net, _ = load(model, {"rows": (1, 12)})
    rng = np.random.default_rng(14)
    ran = [check(net, model, {"x": np.float32(rng.normal(size=(n, 3)))}) for n in (1, 3, 4, 12)]
    assert ran == [True] * 4 if index in (0, -1) else [False, False, True, True]


@pytest.mark.slow
def test_padding_to_a_multiple_as_torch_writes_it():
    """The amounts are pairs from the last axis on, converted to ONNX's order."""
    d = Draft(5)
    eight, none = d.constant([8], np.int64), d.constant([0], np.int64)
    amounts = []
    for axis in (3, 2):
        remainder = d.node("Mod", [d.extent("x", axis), eight])
        amounts += [none, d.node("Mod", [d.node("Sub", [eight, remainder]), eight])]
    pairs = d.node("Concat", [*amounts, d.constant([0] * 4, np.int64)], axis=0)
    pairs = d.node("Reshape", [pairs, d.constant([-1, 2], np.int64)])
    last, first = d.constant([-1], np.int64), d.constant([-(2**63) + 1], np.int64)
    turned = d.node("Slice", [pairs, last, first, none, last])
    pads = d.node("Reshape", [d.node("Transpose", [turned], perm=[1, 0]), last])
    y = d.node("Pad", ["x", pads], mode="constant")
    rows, columns = (d.node("Div", [d.extent(y, axis), eight]) for axis in (2, 3))
    windows = d.node("Concat", [d.constant([2], np.int64), rows, eight, columns, eight], axis=0)
    model = model_of(d, [1, 2, "h", "w"], d.node("Reshape", [y, windows]))
    net, _ = load(model, {"h": (1, 20), "w": (3, 17)})
    sizes = [(1, 3), (8, 16), (20, 17), (15, 9)]
    assert all(check(net, model, {"x": np.ones((1, 2, *n), np.float32)}) for n in sizes)


@pytest.mark.parametrize("limit", [[], [1]])
def test_a_limit_of_a_size_counts_as_a_scalar(limit):
    d = Draft(3)
    maximum = d.constant(np.full(limit, 6), np.int64)
    y = d.node("Cast", [d.node("Clip", [d.node("Size", ["x"]), "", maximum])], to=FLOAT)
    model = model_of(d, ["n", 2], y)
    net, _ = load(model, {"n": (1, 8)})
    assert all(check(net, model, {"x": np.zeros((n, 2), np.float32)}) for n in (1, 3, 8))


@pytest.mark.parametrize("target", ["cortex-m4", "riscv32"])
def test_derived_sizes_on_boards(target, tmp_path):
    board = BOARDS[target]
    model, rng = encoder_decoder(), np.random.default_rng(15)
    dims = {"batch": (1, 2), "height": (4, 16), "width": (4, 16)}
    library = tvmrt.compile(model, dims=dims, target=target, interface_api="c", module_name="net")
    inputs = [images(rng, b, h, w) for b, h, w in [(2, 16, 16), (1, 4, 4), (2, 8, 12)]]
    runs = [(sizes_of(library, each), each) for each in inputs]
    found = results_on_board(library, runs, board, tmp_path, "-O2")
    for each, (result,) in zip(inputs, found):
        np.testing.assert_allclose(result, expected(model, each), 1e-4, 1e-5)


def test_constraint_error_names_the_dimensions_of_the_file():
    d = Draft()
    three = d.constant([3], np.int64)
    shape = d.node("Concat", [d.extent("x", 0), d.extent("x", 1), three], axis=0)
    model = model_of(d, ["rows", "columns"], d.node("Reshape", ["x", shape]))
    with pytest.raises(ValueError, match=r"shape = \[rows, columns, 3\]"):
        tvmrt.compile(model, dims={"rows": (1, 8), "columns": (9, 12)})
