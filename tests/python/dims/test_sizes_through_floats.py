"""Sizes computed in floating point: ceil(height / 2), int(width * 0.7), ratios of sides.

The references are unoptimised onnxruntime, and numpy in float32 and float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from boards import BOARDS
from dynamic_networks import FLOAT, Draft
from onnx import TensorProto, helper
from sized_call import results_on_board, sizes_of
from test_sizes_in_firmware_graphs import compiled, firmware, on_this_machine  # noqa: F401

import tvmrt
from tvmrt.compiler.ir.computed_sizes.expression import bounds, cast_to, combine, exact_extent, leaf
from tvmrt.compiler.ir.sizes import Symbol
from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")
INT64, DOUBLE = TensorProto.INT64, TensorProto.DOUBLE
TYPES = {FLOAT: np.float32, DOUBLE: np.float64}


def session_of(model):
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model.SerializeToString(), options)


def size_as_float(d: Draft, axis: int, kind: int = FLOAT) -> str:
    return d.node("Cast", [d.node("Shape", ["x"], start=axis, end=axis + 1)], to=kind)


def rounded(op: str, number: float, rounding: str | None, kind: int = FLOAT) -> Callable:
    """Return a function that computes a size from axis 1: Cast, Mul or Div, a rounding, Cast."""

    def size(d: Draft) -> str:
        found = d.node(op, [size_as_float(d, 1, kind), d.constant([number], TYPES[kind])])
        found = d.node(rounding, [found]) if rounding else found
        return d.node("Cast", [found], to=INT64)

    return size


def padded_to_windows(d: Draft) -> str:
    """Compute ceil(n / 8) * 8 as in Python: a float division and an integer product."""
    return d.node("Mul", [rounded("Div", 8, "Ceil")(d), d.constant([8], np.int64)])


def nearest_by_half(d: Draft) -> str:
    """Compute int(n * 1.3 + 0.5)."""
    wide = d.node("Mul", [size_as_float(d, 1), d.constant([1.3], np.float32)])
    added = d.node("Add", [wide, d.constant([0.5], np.float32)])
    return d.node("Cast", [added], to=INT64)


def capped(d: Draft) -> str:
    """Compute Where(n / 3 > 10, 10, floor(n / 3))."""
    third = d.node("Div", [size_as_float(d, 1), d.constant([3], np.float32)])
    ten = d.constant([10], np.float32)
    kept = d.node("Where", [d.node("Greater", [third, ten]), ten, d.node("Floor", [third])])
    return d.node("Cast", [kept], to=INT64)


def diagonal(d: Draft) -> str:
    """Compute floor(sqrt(h * h + w * w)), which is not a polynomial."""
    squares = [d.node("Mul", [s, s]) for s in (size_as_float(d, 1), size_as_float(d, 2))]
    found = d.node("Floor", [d.node("Sqrt", [d.node("Add", squares)])])
    return d.node("Cast", [found], to=INT64)


def third_of_a_half(d: Draft) -> str:
    """Compute floor(n / 3) in half precision, as converters write former float32."""
    half = d.node("Cast", [d.node("Shape", ["x"], start=1, end=2)], to=TensorProto.FLOAT16)
    third = d.node("Mul", [half, d.constant([1 / 3], np.float16)])
    return d.node("Cast", [d.node("Floor", [third])], to=INT64)


SIZES = {
    "half, up": rounded("Div", 2, "Ceil"),
    "half, to even": rounded("Div", 2, "Round"),
    "half of a double": rounded("Mul", 0.5, None, DOUBLE),
    "third, down": rounded("Mul", 1 / 3, "Floor"),
    "0.7, down": rounded("Mul", 0.7, "Floor"),
    "0.7 of a double, up": rounded("Mul", 0.7, "Ceil", DOUBLE),
    "0.1, towards zero": rounded("Mul", 0.1, None),
    "1.123456, to even": rounded("Mul", 1.123456, "Round"),
    "windows": padded_to_windows,
    "nearest": nearest_by_half,
    "capped": capped,
    "diagonal": diagonal,
    "third of a half": third_of_a_half,
}


def test_sizes_match_onnxruntime():
    """Compare at every size from 1 to 40 of the first of two axes."""
    d = Draft()
    model = d.model(
        {"x": (FLOAT, [1, "h", "w"])},
        {d.node("ConstantOfShape", [size(d)]): FLOAT for size in SIZES.values()},
    )
    network = tvmrt.load(model, dims={"h": (1, 40), "w": (1, 9)}, cache=False)
    session = session_of(model)
    for h in range(1, 41):
        x = np.zeros((1, h, 1 + h % 9), np.float32)
        right = session.run(None, {"x": x})
        got = dict(zip(SIZES, (y.shape[0] for y in network(x))))
        assert got == dict(zip(SIZES, (y.shape[0] for y in right))), h


def number_of(op: str, by: float, rounding: str, dtype: str, maximum: int):
    symbol = Symbol("n", 1, maximum, "n_n")
    size = combine(op, [cast_to(leaf(symbol.extent), dtype), leaf(by, dtype)], dtype)
    return cast_to(combine(rounding, [size], dtype), "int64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round"])
@pytest.mark.parametrize("by", [2, 3, 7, 10, 32])
def test_division_is_exact_where_all_sizes_cannot_be_tried(by, rounding, dtype):
    maximum = (1 << 23) // 2 - by
    extent = exact_extent(number_of("div", by, rounding, dtype, maximum))
    n = np.random.default_rng(by).integers(1, maximum, 10_000)
    function = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[rounding]
    expected = function(n.astype(dtype) / np.dtype(dtype).type(by))
    np.testing.assert_array_equal(extent.at({"n": n}), expected)


def test_unproven_extents_are_refused():
    """Refuse factors that a float rounds, and sizes that float32 cannot represent."""
    assert exact_extent(number_of("mul", 0.7, "floor", "float32", 1 << 22)) is None
    assert exact_extent(number_of("div", 2, "ceil", "float32", 1 << 26)) is None
    number = number_of("mul", 0.7, "floor", "float32", 1 << 22)
    low, high = bounds(number)
    assert low == 0 and high == np.floor(np.float32(0.7) * np.float32(1 << 22))


def test_a_resize_by_a_factor_that_rounds():
    """10 * 0.7 is 7 in float32, as in onnxruntime, at fixed and dynamic sizes."""
    d = Draft()
    scales = [d.constant([1, factor], np.float32) for factor in (0.7, 0.35, 0.123456)]
    results = [d.node("Resize", ["x", "", scale], mode="nearest") for scale in scales]
    model = d.model({"x": (FLOAT, [1, "n"])}, {y: FLOAT for y in results})
    network, session = tvmrt.load(model, dims={"n": (9, 40)}, cache=False), session_of(model)
    fixed = tvmrt.load(model, shapes={"x": (1, 20)}, cache=False)
    for n in (9, 10, 11, 20, 23, 39, 40):
        x = np.random.default_rng(n).random((1, n)).astype(np.float32)
        right = session.run(None, {"x": x})
        for each in [network, fixed] if n == 20 else [network]:
            for got, expected in zip(each(x), right):
                np.testing.assert_array_equal(got, expected)


def test_scales_from_sizes():
    """Resize by the quotient of two sizes, as exporters write a target size."""
    d = Draft()
    target = d.node("Floor", [d.node("Mul", [size_as_float(d, 2), d.constant([0.6], np.float32)])])
    scale = d.node("Div", [target, size_as_float(d, 2)])
    one = d.constant([1, 1], np.float32)
    y = d.node("Resize", ["x", "", d.node("Concat", [one, scale], axis=0)], mode="linear")
    model = d.model({"x": (FLOAT, [1, 2, "n"])}, {y: FLOAT})
    network, session = tvmrt.load(model, dims={"n": (5, 64)}, cache=False), session_of(model)
    for n in (5, 6, 17, 33, 49, 64):
        x = np.random.default_rng(n).random((1, 2, n)).astype(np.float32)
        right = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(network(x), right, rtol=1e-5, atol=1e-5)


def detector_transform(longest: float) -> tuple[Draft, str]:
    """Resize an image to a shorter side of 32 pixels, with a longer one of at most ``longest``."""
    d = Draft()
    hw = d.node("Cast", [d.node("Shape", ["x"], start=2, end=4)], to=FLOAT)
    short, long = (d.node(op, [hw], keepdims=0) for op in ("ReduceMin", "ReduceMax"))
    ratios = [
        d.node("Div", [d.constant(n, np.float32), side])
        for n, side in ((32, short), (longest, long))
    ]
    wanted = d.node("Mul", [hw, d.node("Min", ratios)])
    back = d.node("Cast", [d.node("Floor", [wanted])], to=INT64)
    sizes = d.node("Concat", [d.constant([1, 3], np.int64), back], axis=0)
    return d, d.node("Resize", ["x", "", "", sizes], mode="linear")


def test_resize_is_bounded_by_the_network():
    """The result has no declared bound: its sides have at most 48 pixels."""
    d, y = detector_transform(48)
    model = d.model({"x": (FLOAT, [1, 3, "h", "w"])}, {y: FLOAT})
    network = tvmrt.load(model, dims={"h": (20, 100), "w": (20, 100)}, cache=False)
    session = session_of(model)
    for h, w in ((20, 30), (64, 40), (33, 97), (100, 100), (20, 100)):
        x = np.random.default_rng(h).random((1, 3, h, w)).astype(np.float32)
        right = session.run(None, {"x": x})[0]
        got = network(x)
        assert got.shape == right.shape and max(got.shape[2:]) <= 48
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)


def test_bounds_where_all_sizes_cannot_be_tried():
    """Sides up to 4,000 are 16 million pairs: intervals bound them within a few pixels."""
    h, w = (leaf(Symbol(name, 200, 4000, f"n_{name}").extent) for name in "hw")
    sides = [cast_to(each, "float32") for each in (h, w)]
    ends = [
        combine("div", [leaf(n, "float32"), combine(op, sides, "float32")], "float32")
        for n, op in ((800.0, "min"), (1333.0, "max"))
    ]
    scale = combine("min", ends, "float32")
    side = combine("floor", [combine("mul", [sides[0], scale], "float32")], "float32")
    low, high = bounds(cast_to(side, "int64"))
    assert 0 < low <= 66 and 1333 <= high <= 1400


def test_a_size_without_a_bound_is_refused_by_name():
    """1 / (n - 1) has no bound where n may be 1."""
    d = Draft()
    less = d.node("Sub", [size_as_float(d, 1), d.constant([1], np.float32)])
    size = d.node("Cast", [d.node("Div", [d.constant([64], np.float32), less])], to=INT64)
    model = d.model({"x": (FLOAT, [1, "n"])}, {d.node("ConstantOfShape", [size]): FLOAT})
    with pytest.raises(UnsupportedError, match="ConstantOfShape"):
        tvmrt.load(model, dims={"n": (1, 8)}, cache=False)
    network, session = tvmrt.load(model, dims={"n": (2, 8)}, cache=False), session_of(model)
    for n in range(2, 9):
        x = np.zeros((1, n), np.float32)
        assert network(x).shape == session.run(None, {"x": x})[0].shape


def test_a_network_has_its_own_counts():
    """Two networks compute a size from their own data-dependent sizes, which stay separate."""
    for threshold in (0.0, 1.0):
        d = Draft()
        rows = d.node("NonZero", [d.node("Greater", ["x", d.constant(threshold, np.float32)])])
        count = d.node("Cast", [d.node("Shape", [rows], start=1)], to=FLOAT)
        half = d.node("Ceil", [d.node("Div", [count, d.constant([2], np.float32)])])
        y = d.node("ConstantOfShape", [d.node("Cast", [half], to=INT64)])
        model = d.model({"x": (FLOAT, ["n"])}, {y: FLOAT})
        network, session = tvmrt.load(model, dims={"n": (1, 12)}, cache=False), session_of(model)
        for n in (1, 7, 12):
            x = np.random.default_rng(n).normal(size=n).astype(np.float32)
            assert network(x).shape == session.run(None, {"x": x})[0].shape


def compare(model, dims, shapes, refused: str = "") -> list[bool]:
    """Compare runs with onnxruntime; return the sizes that both compute."""
    network, session, ran = tvmrt.load(model, dims=dims, cache=False), session_of(model), []
    for shape in shapes:
        x = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
        try:
            right = session.run(None, {"x": x})[0]
        except Exception:
            with pytest.raises(ValueError, match=refused):
                network(x)
            ran.append(False)
            continue
        got = network(x)
        assert got.shape == right.shape
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)
        ran.append(True)
    return ran


@pytest.mark.parametrize("start, step", [(0, 1), (0.5, 1), (0, 0.3), (2, 0.25), (40, -1)])
def test_a_range_of_floats_up_to_a_size(start, step):
    d = Draft()
    size = d.node("Squeeze", [size_as_float(d, 1)])
    ends = [size, d.constant(3, np.float32)][:: 1 if step > 0 else -1]
    y = d.node("Range", [d.constant(start, np.float32), ends[0], d.constant(step, np.float32)])
    model = d.model({"x": (FLOAT, [1, "n"])}, {y: FLOAT})
    assert all(compare(model, {"n": (1, 40)}, [(1, n) for n in (1, 2, 7, 39, 40)]))


def test_steps_from_0_to_1_are_as_many_as_columns():
    """Range from 0 to 1 by 1 / (n - 1), multiplied with n columns."""
    d = Draft()
    one = d.constant(1, np.float32)
    less = d.node("Sub", [d.node("Squeeze", [size_as_float(d, 1)]), one])
    step = d.node("Div", [one, less])
    end = d.node("Add", [one, d.node("Mul", [step, d.constant(0.5, np.float32)])])
    y = d.node("Mul", ["x", d.node("Range", [d.constant(0, np.float32), end, step])])
    model = d.model({"x": (FLOAT, [2, "n"])}, {y: FLOAT})
    assert all(compare(model, {"n": (2, 50)}, [(2, n) for n in (2, 3, 8, 49, 50)]))


def test_the_quotient_of_two_sizes():
    """Resize 16 rows of an image with a kept aspect ratio: 16 * w // h columns."""
    d = Draft()
    h, w = (d.node("Shape", ["x"], start=axis, end=axis + 1) for axis in (2, 3))
    columns = d.node("Div", [d.node("Mul", [w, d.constant([16], np.int64)]), h])
    sizes = d.node("Concat", [d.constant([1, 2, 16], np.int64), columns], axis=0)
    y = d.node("Resize", ["x", "", "", sizes], mode="linear")
    model = d.model({"x": (FLOAT, [1, 2, "h", "w"])}, {y: FLOAT})
    shapes = [(1, 2, h, w) for h, w in ((8, 8), (8, 30), (30, 8), (19, 23))]
    assert all(compare(model, {"h": (8, 30), "w": (8, 30)}, shapes))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_a_kept_aspect_ratio(policy):
    d = Draft()
    sizes = d.constant([24, 32], np.int64)
    y = d.node(
        "Resize", ["x", "", "", sizes], axes=[2, 3], mode="linear", keep_aspect_ratio_policy=policy
    )
    model = d.model({"x": (FLOAT, [1, 2, "h", "w"])}, {y: FLOAT})
    model.opset_import[0].version = 18
    shapes = [(1, 2, h, w) for h, w in ((8, 8), (24, 32), (40, 9), (13, 40), (30, 40))]
    assert all(compare(model, {"h": (8, 40), "w": (8, 40)}, shapes))


@pytest.mark.parametrize("root", ["Sqrt", "Pow"])
@pytest.mark.parametrize("infer_channels", [True, False])
def test_square_root_of_the_number_of_rows(infer_channels, root):
    """n rows are an image of sqrt(n) x sqrt(n) pixels, whose rows are then added to them."""
    d = Draft()
    by = [d.constant([0.5], np.float32)] if root == "Pow" else []
    side = d.node("Cast", [d.node(root, [size_as_float(d, 1), *by])], to=INT64)
    channels = d.constant([-1 if infer_channels else 4], np.int64)
    shape = d.node("Concat", [d.constant([2], np.int64), side, side, channels], axis=0)
    image = d.node("Transpose", [d.node("Reshape", ["x", shape])], perm=[0, 3, 1, 2])
    image = d.node("Conv", [image, d.weight(4, 4, 3, 3)], pads=[1] * 4)
    rows = d.node("Reshape", [image, d.constant([2, 4, -1], np.int64)])
    y = d.node("Add", [d.node("Transpose", [rows], perm=[0, 2, 1]), "x"])
    model = d.model({"x": (FLOAT, [2, "n", 4])}, {y: FLOAT})
    shapes = [(2, n, 4) for n in (4, 49, 100, 50, 9)]
    words = r"shape: the run has \[2, 7, 7, 4\], .* as many elements"
    assert compare(model, {"n": (4, 100)}, shapes, words) == [True, True, True, False, True]


FIRMWARE_SIZES = [(20, 30), (60, 40), (33, 59), (60, 60), (20, 60)]


def check_in_firmware(model, runs, found) -> None:
    session = session_of(model)
    for each, (result,) in zip(runs, found):
        right = session.run(None, each)[0]
        assert result.shape == right.shape
        np.testing.assert_allclose(result, right, 1e-4, 1e-4)


def images(sizes) -> list[dict[str, np.ndarray]]:
    return [{"x": np.random.default_rng(h).random((1, 3, h, w), np.float32)} for h, w in sizes]


@pytest.mark.slow
def test_float_sizes_in_firmware_graphs(firmware, tmp_path):  # noqa: F811
    """Sanitizers check the runs."""
    d, y = detector_transform(48)
    model = d.model({"x": (FLOAT, [1, 3, "h", "w"])}, {y: FLOAT})
    library, runs = compiled(model, {"h": (20, 60), "w": (20, 60)}), images(FIRMWARE_SIZES)
    found = on_this_machine(library, runs, tmp_path, firmware)
    check_in_firmware(model, runs, [results for _, _, results in found])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "riscv32"])
def test_float_sizes_on_boards(target, tmp_path):
    board = BOARDS[target]
    d, y = detector_transform(48)
    model = d.model({"x": (FLOAT, [1, 3, "h", "w"])}, {y: FLOAT})
    dims, runs = {"h": (20, 60), "w": (20, 60)}, images(FIRMWARE_SIZES[:3])
    library = tvmrt.compile(model, dims=dims, target=target, interface_api="c", module_name="net")
    sized = [(sizes_of(library, each), each) for each in runs]
    check_in_firmware(model, runs, results_on_board(library, sized, board, tmp_path, "-O2"))


@pytest.mark.parametrize("use", ["Range", "Cast"])
def test_data_dependent_size_is_read_in_a_loop(use):
    """A data-dependent size found before a loop is a value in it, and an extent after it."""
    d, body = Draft(), Draft(prefix="body_")
    size = d.node("Squeeze", [diagonal(d), d.constant([0], np.int64)])
    numbers = size
    if use == "Range":
        ends = [body.constant(n, np.int64) for n in (0, 1)]
        numbers = body.node("Range", [ends[0], size, ends[1]])
    total = body.node("ReduceSum", [body.node("Cast", [numbers], to=FLOAT)], keepdims=0)
    total = body.node("Add", ["body_total", total])
    kept = body.node("Identity", ["body_on"])
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        body.nodes,
        "body",
        [
            info("body_i", INT64, []),
            info("body_on", TensorProto.BOOL, []),
            info("body_total", FLOAT, []),
        ],
        [info(kept, TensorProto.BOOL, []), info(total, FLOAT, [])],
        body.weights,
    )
    start = [d.constant(20, np.int64), d.constant(True), d.constant(0, np.float32)]
    total = d.node("Loop", start, body=graph)
    vector = d.node("ConstantOfShape", [d.node("Unsqueeze", [size, d.constant([0], np.int64)])])
    y = d.node("Add", [vector, total])
    model = d.model({"x": (FLOAT, [1, "h", "w"])}, {y: FLOAT})
    shapes = [(1, 3, 4), (1, 12, 5), (1, 15, 15)]
    assert all(compare(model, {"h": (3, 15), "w": (3, 15)}, shapes))
