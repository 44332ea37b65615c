"""Resize by sizes reads the elements and weights that exact fractions give."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from any_size_case import loaded, results
from boards import BOARDS
from dynamic_networks import FLOAT, INT64, Draft
from onnx import helper
from sized_call import results_on_board, sizes_of

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model

STRICT = "-Os -ffreestanding -Wall -Wextra -Werror -Wconversion"
HALF = Fraction(1, 2)
ROUND = {
    "floor": floor,
    "ceil": ceil,
    "round_prefer_floor": lambda at: ceil(at - HALF),
    "round_prefer_ceil": lambda at: floor(at + HALF),
}
COORDINATES = (
    "asymmetric",
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "align_corners",
    "tf_crop_and_resize",
)
RULES = tuple(itertools.product(COORDINATES, ROUND))
MAX_SIZE = 25
# Sizes whose quotients are rounded to the wrong side in float32 or in float64.
HARD = ((7, 2), (20, 6), (14, 19), (21, 7), (7, 14), (25, 25), (1, 9), (9, 1), (22, 15), (24, 18))


def coordinate(mode, i, n, o):
    if mode == "asymmetric":
        return Fraction(i * n, o)
    if mode in ("align_corners", "tf_crop_and_resize") and o > 1:
        return Fraction(i * (n - 1), o - 1)
    if mode == "tf_crop_and_resize":
        return Fraction(n - 1, 2)
    if mode == "align_corners" or (mode == "pytorch_half_pixel" and o == 1):
        return Fraction(0)
    return Fraction((2 * i + 1) * n, 2 * o) - HALF


def expected(rule, n, o):
    mode, nearest = rule
    taken = (ROUND[nearest](coordinate(mode, i, n, o)) for i in range(o))
    return [min(max(each, 0), n - 1) for each in taken]


def resize(draft, x, rule, sizes):
    mode, nearest = rule
    region = draft.constant([0, 1], np.float32) if mode == "tf_crop_and_resize" else ""
    return draft.node(
        "Resize",
        [x, region, "", sizes],
        mode="nearest",
        coordinate_transformation_mode=mode,
        nearest_mode=nearest,
    )


def check(network, rules, pairs):
    for n, o in pairs:
        inputs = {"x": np.arange(n, dtype=np.float32), "like": np.zeros(o, np.float32)}
        for rule, y in zip(rules, results(network, inputs)):
            assert y.astype(int).tolist() == expected(rule, n, o), (*rule, n, o)


def compiled(rules, maximum=MAX_SIZE, **options):
    """Return a network with an output per rule, for inputs and results of any size."""
    draft = Draft()
    sizes = draft.node("Shape", ["like"])
    outputs = {resize(draft, "x", rule, sizes): FLOAT for rule in rules}
    model = draft.model({"x": (FLOAT, ["W"]), "like": (FLOAT, ["V"])}, outputs)
    model.opset_import[0].version = 19
    return tvmrt.compile(model, dims={"W": (1, maximum), "V": (1, maximum)}, **options)


def open_network(rules, folder):
    return loaded(compiled(rules), folder, "graph")


def test_dynamic_sizes(tmp_path):
    check(open_network(RULES[::5], tmp_path), RULES[::5], HARD)


@pytest.mark.slow
def test_all_small_dynamic_sizes(tmp_path):
    network = open_network(RULES, tmp_path)
    check(network, RULES, itertools.product(range(1, MAX_SIZE + 1), repeat=2))


@pytest.mark.slow
def test_large_dynamic_sizes(tmp_path):
    """The products of these sizes exceed 32 bits."""
    rules, maximum = RULES[::5], 60000
    network = loaded(compiled(rules, maximum), tmp_path, "graph")
    check(network, rules, [(60000, 57), (59999, 7), (21, 60000), (44100, 16000)])


def fixed_network(pairs, rules, folder):
    draft, outputs, inputs = Draft(), {}, {}
    for n, o in pairs:
        inputs[f"x{n}"] = (FLOAT, [n])
        sizes = draft.constant([o], np.int64)
        outputs.update({resize(draft, f"x{n}", rule, sizes): FLOAT for rule in rules})
    model = draft.model(inputs, outputs)
    model.opset_import[0].version = 19
    return loaded(tvmrt.compile(model), folder, "graph")


def check_fixed(pairs, rules, folder):
    network = fixed_network(pairs, rules, folder)
    inputs = {f"x{n}": np.arange(n, dtype=np.float32) for n, _ in pairs}
    found = iter(results(network, inputs))
    for n, o in pairs:
        for rule in rules:
            assert next(found).astype(int).tolist() == expected(rule, n, o), (*rule, n, o)


def test_fixed_sizes(tmp_path):
    check_fixed(HARD[:4], RULES[:8], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", COORDINATES)
def test_all_small_fixed_sizes(mode):
    """The compiler computes fixed sizes itself."""
    rules = [rule for rule in RULES if rule[0] == mode]
    for n in range(1, MAX_SIZE + 1):
        draft = Draft()
        x = draft.constant(np.arange(n), np.float32)
        sizes = [draft.constant([o], np.int64) for o in range(1, MAX_SIZE + 1)]
        outputs = [resize(draft, x, rule, size) for size in sizes for rule in rules]
        model = draft.model({}, dict.fromkeys(outputs, FLOAT))
        model.opset_import[0].version = 19
        found = iter(import_model(model).outputs)
        for o in range(1, MAX_SIZE + 1):
            for rule in rules:
                assert next(found).data.astype(int).tolist() == expected(rule, n, o), (*rule, n, o)


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "tf_half_pixel_for_nn"])
def test_sizes_of_the_first_opset_that_has_them(mode, tmp_path):
    """In opset 11 empty scales precede sizes; only that opset has tf_half_pixel_for_nn."""
    n, o = 21, 7
    draft = Draft()
    none = draft.constant([], np.float32)
    attrs = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": mode}
    y = draft.node("Resize", ["x", none, none, draft.constant([o], np.int64)], **attrs)
    model = draft.model({"x": (FLOAT, [n])}, {y: FLOAT})
    model.opset_import[0].version = 11
    network = loaded(tvmrt.compile(model), tmp_path, "graph")
    found = results(network, {"x": np.arange(n, dtype=np.float32)})[0].astype(int).tolist()
    if mode == "tf_half_pixel_for_nn":
        assert found == [floor(Fraction((2 * i + 1) * n, 2 * o)) for i in range(o)]
    else:
        assert found == expected((mode, "floor"), n, o)


def test_sizes_computed_at_run_time(tmp_path):
    """A seventh of the input's own width, and one and a half of it."""
    draft = Draft()
    width = draft.extent("x", 0)
    seventh = draft.node("Div", [width, draft.constant([7], np.int64)])
    larger = draft.node("Div", [
        draft.node("Mul", [width, draft.constant([3], np.int64)]), draft.constant([2], np.int64)
    ])  # fmt: skip
    rules = [("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil")]
    outputs = {resize(draft, "x", rule, s): FLOAT for s in (seventh, larger) for rule in rules}
    model = draft.model({"x": (FLOAT, ["W"])}, outputs)
    network = loaded(tvmrt.compile(model, dims={"W": (7, 256)}), tmp_path, "graph")
    for n in (7, 20, 98, 224, 256):
        found = iter(results(network, {"x": np.arange(n, dtype=np.float32)}))
        for o in (n // 7, 3 * n // 2):
            for rule in rules:
                assert next(found).astype(int).tolist() == expected(rule, n, o), (*rule, n, o)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "of the run"])
def test_sizes_that_keep_the_aspect_ratio(known, policy, tmp_path):
    """All axes have one scale, the quotient of a size and an extent."""
    n, wanted = (21, 14), (9, 5)
    scale = (min if policy == "not_larger" else max)(Fraction(a, b) for a, b in zip(wanted, n))
    out = [floor(scale * each + HALF) for each in n]
    draft = Draft()
    sizes = draft.constant(wanted, np.int64) if known else "sizes"
    attrs = {"mode": "nearest", "keep_aspect_ratio_policy": policy}
    y = draft.node("Resize", ["x", "", "", sizes], coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor", **attrs)  # fmt: skip
    inputs = {"x": (FLOAT, list(n))} | ({} if known else {"sizes": (INT64, [2])})
    model = draft.model(inputs, {y: FLOAT})
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(y, FLOAT, out))
    model.opset_import[0].version = 19
    network = loaded(tvmrt.compile(model), tmp_path, "graph")
    x = np.arange(n[0] * n[1], dtype=np.float32).reshape(n)
    given = {"x": x} | ({} if known else {"sizes": np.array(wanted, np.int64)})
    rows, columns = ([floor(i / scale) for i in range(count)] for count in out)
    rows, columns = np.minimum(rows, n[0] - 1), np.minimum(columns, n[1] - 1)
    np.testing.assert_array_equal(results(network, given)[0], x[np.ix_(rows, columns)])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "riscv32"])
def test_dynamic_sizes_on_boards(target, tmp_path):
    """Run every rule by the C of an archive, built with the board's compiler."""
    board = BOARDS[target]
    library = compiled(RULES, target=target, interface_api="c", module_name="net")
    runs = [{"x": np.arange(n, dtype=np.float32), "like": np.zeros(o, np.float32)} for n, o in HARD]
    runs = [(sizes_of(library, inputs), inputs) for inputs in runs]
    found = results_on_board(library, runs, board, tmp_path, STRICT)
    assert len(found) == len(HARD)
    for (n, o), results_ in zip(HARD, found):
        for rule, y in zip(RULES, results_):
            assert y.astype(int).tolist() == expected(rule, n, o), (*rule, n, o)


@pytest.mark.parametrize("known", [True, False], ids=["known", "of the run"])
def test_interpolation_weights_at_large_indices(known, tmp_path):
    """The input alternates 0 and 1, so a result is the distance to the even element. In float32 a
    coordinate is off by 1e-4 elements here."""
    n, o = 4001, 3000
    draft = Draft()
    sizes = draft.node("Shape", ["like"])
    modes = ("half_pixel", "align_corners")
    outputs = {
        draft.node(
            "Resize", ["x", "", "", sizes], mode="linear", coordinate_transformation_mode=mode
        ): FLOAT
        for mode in modes
    }
    shapes = ([n], [o]) if known else (["W"], ["V"])
    model = draft.model({"x": (FLOAT, shapes[0]), "like": (FLOAT, shapes[1])}, outputs)
    model.opset_import[0].version = 19
    dims = {} if known else {"dims": {"W": (1, n), "V": (1, o)}}
    network = loaded(tvmrt.compile(model, **dims), tmp_path, "graph")
    given = {"x": np.arange(n, dtype=np.float32) % 2, "like": np.zeros(o, np.float32)}
    for mode, y in zip(modes, results(network, given)):
        away = [coordinate(mode, i, n, o) % 2 for i in range(o)]
        wanted = [float(min(each, 2 - each)) for each in away]
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-6)
