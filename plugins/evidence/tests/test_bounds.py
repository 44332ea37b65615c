"""Bounds hold for 10,000 samples, whose exact results are computed in long double by numpy."""

from __future__ import annotations

import numpy as np
import pytest
from reference_case import import_graph, model_of

import tvmrt
from tvmrt.compiler.ir import reference_conv
from tvmrt.plugins.evidence import bounds
from tvmrt.plugins.evidence.bounds import error_bounds

SAMPLES = 10_000
F32, WIDE = np.float32, np.longdouble


def weights(*shape, seed=5):
    return np.random.default_rng(seed).normal(0, 0.5, shape).astype(F32)


W = {"w": weights(24, 16), "b": weights(16), "v": weights(16, 5, seed=6)}
K = {"k": weights(6, 4, 3, 3), "c": weights(6), "v": weights(6, 3, seed=6)}
MLP = [
    ("MatMul", ["x", "w"], ["h"], {}), ("Add", ["h", "b"], ["i"], {}),
    ("Tanh", ["i"], ["t"], {}), ("MatMul", ["t", "v"], ["z"], {}), ("Softmax", ["z"], ["y"], {}),
]  # fmt: skip
CONV = [
    ("Conv", ["x", "k", "c"], ["h"], {"pads": [1, 1, 1, 1]}), ("Relu", ["h"], ["r"], {}),
    ("GlobalAveragePool", ["r"], ["p"], {}), ("Flatten", ["p"], ["f"], {}),
    ("MatMul", ["f", "v"], ["y"], {}),
]  # fmt: skip
NORM = [
    ("ReduceMean", ["x"], ["m"], {"axes": [1]}), ("Sub", ["x", "m"], ["d"], {}),
    ("Mul", ["d", "d"], ["q"], {}), ("ReduceMean", ["q"], ["s"], {"axes": [1]}),
    ("Add", ["s", "one"], ["u"], {}), ("Sqrt", ["u"], ["n"], {}), ("Div", ["d", "n"], ["e"], {}),
    ("Sigmoid", ["e"], ["g"], {}), ("Exp", ["g"], ["y"], {}),
]  # fmt: skip


def mlp(x):
    hidden = np.tanh(x @ W["w"].astype(WIDE) + W["b"])
    scores = np.exp(hidden @ W["v"].astype(WIDE))
    return scores / scores.sum(1, keepdims=True)


def conv(x):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = np.zeros((len(x), 6, *x.shape[2:]), WIDE)
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]
            total += np.einsum("nchw,oc->nohw", part, K["k"][:, :, i, j].astype(WIDE))
    total = np.maximum(total + K["c"].reshape(6, 1, 1), 0)
    return total.mean((2, 3)) @ K["v"].astype(WIDE)


def norm(x):
    d = x - x.mean(1, keepdims=True)
    e = d / np.sqrt((d * d).mean(1, keepdims=True) + WIDE(1))
    return np.exp(1 / (1 + np.exp(-e)))


NETWORKS = {
    "layers": (MLP, W, (SAMPLES, 24), mlp),
    "convolution": (CONV, K, (SAMPLES, 4, 8, 8), conv),
    "normalisation": (NORM, {"one": np.ones(1, F32)}, (SAMPLES, 12), norm),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_no_sample_exceeds_the_bound(case):
    rows, constants, shape, exact = NETWORKS[case]
    x = np.random.default_rng(1).uniform(-1, 1, shape).astype(F32)
    model = model_of(rows, {"x": x}, constants, ["y"])
    bound = error_bounds(import_graph(model), {"x": (-1, 1)})["outputs"]["y"]
    expected = exact(x.astype(WIDE))
    found = np.asarray(tvmrt.load(model, reproducible=True)({"x": x})["y"])
    worst = float(np.abs(found - expected).max())
    assert 0 < worst <= bound["error"] < 1
    assert bound["low"] <= expected.min() and expected.max() <= bound["high"]
    print(f"{case}: bound {bound['error']:.1e}, worst of {SAMPLES} samples {worst:.1e}: "
          f"{bound['error'] / worst:.0f} times")  # fmt: skip


@pytest.mark.parametrize("order", ["forward", "backward", "pairs", "by size"])
def test_a_sum_holds_for_every_order_of_its_terms(order):
    """100,000 terms of one sign, added in float32 in different orders."""
    terms = np.random.default_rng(2).uniform(0.5, 1, 100_000).astype(F32)
    model = model_of([("MatMul", ["x", "w"], ["y"], {})], {"x": terms[None]},
                     {"w": np.ones((len(terms), 1), F32)}, ["y"])  # fmt: skip
    bound = error_bounds(import_graph(model), {"x": (terms[None], terms[None])})["outputs"]["y"]
    row = {"forward": terms, "backward": terms[::-1], "by size": np.sort(terms), "pairs": terms}
    total = np.cumsum(row[order], dtype=F32)[-1] if order != "pairs" else np.sum(terms)
    assert abs(float(total) - float(terms.astype(WIDE).sum())) <= bound["error"]


def test_a_quotient_by_an_interval_with_zero_has_no_bound_and_a_reason():
    feeds = {"x": np.ones(3, F32), "z": np.ones(3, F32)}
    graph = import_graph(model_of([("Div", ["x", "z"], ["y"], {})], feeds, {}, ["y"]))
    output = error_bounds(graph, {"x": (0, 1), "z": (-1, 1)})["outputs"]["y"]
    assert output["error"] == float("inf")
    assert output["reason"].startswith("div of node ") and "may be 0" in output["reason"]
    assert error_bounds(graph, {"x": (0, 1), "z": (1, 2)})["outputs"]["y"]["error"] < 1e-6


def test_an_operator_without_a_rule_has_no_bound_and_a_reason():
    feeds = {"x": np.ones((1, 2, 4, 4), F32), "g": np.ones((1, 3, 3, 2), F32)}
    model = model_of([("GridSample", ["x", "g"], ["y"], {})], feeds, {}, ["y"])
    result = error_bounds(import_graph(model), {"x": (0, 1), "g": (-1, 1)})
    (row,) = result["nodes"]
    assert row["error"] == float("inf") and "no bound is known for the operator" in row["reason"]


TABLE = F32([[1], [-5], [9], [2], [7], [-8], [3], [4]])
TOP = [
    ("Mul", ["x", "fifty"], ["m"], {}), ("Sigmoid", ["m"], ["s"], {}),
    ("TopK", ["s", "k"], ["v", "i"], {}),
]  # fmt: skip
BEST = [*TOP[:2], ("ArgMax", ["s"], ["i"], {"axis": 0, "keepdims": 1})]
LENGTH = [("Cast", ["m"], ["l"], {"to": 7})]
CHOICES = {  # rows, and constants: places from floats that differ by rounding
    "gather": ([*TOP, ("Gather", ["t", "i"], ["y"], {})], {"t": TABLE}),
    "gather elements": (
        [*TOP, ("GatherElements", ["t", "i"], ["y"], {"axis": 0})], {"t": TABLE[:, 0]},
    ),
    "gather by tuples": ([*BEST, ("GatherND", ["t", "i"], ["y"], {})], {"t": TABLE}),
    "scatter": (
        [*BEST, ("ScatterND", ["t", "i", "u"], ["y"], {})], {"t": TABLE[:, 0], "u": TABLE[5, 0]},
    ),
    "reverse": (
        [*TOP[:1], *LENGTH, ("ReverseSequence", ["t", "l"], ["y"], {"time_axis": 0,
                                                                    "batch_axis": 1})],
        {"t": np.repeat(TABLE, 8, 1)},
    ),
}  # fmt: skip


def choice(case):
    rows, constants = CHOICES[case]
    constants = {**constants, "fifty": F32([50]), "k": np.array([2])}
    return model_of(rows, {"x": np.ones(8, F32)}, constants, ["y"])


@pytest.mark.parametrize("case", CHOICES)
def test_an_element_at_a_place_that_may_be_wrong_is_any_element(case):
    bound = error_bounds(import_graph(choice(case)), {"x": (0.9, 1)})["outputs"]["y"]
    assert (bound["low"], bound["high"], bound["error"]) == (-8, 9, 17)  # of the table


def test_places_differ_between_exact_and_computed_networks():
    """Sigmoid rises, so that the last two are the largest; as float32, all its results are equal,
    and TopK chooses the first two."""
    model = choice("gather")
    x = np.linspace(0.9, 1, 8, dtype=F32)
    found = tvmrt.load(model, reproducible=True)({"x": x})["y"]
    bound = error_bounds(import_graph(model), {"x": (0.9, 1)})["outputs"]["y"]["error"]
    assert 0 < np.abs(found - TABLE[[7, 6]]).max() <= bound


def test_places_of_integers_choose_without_an_error():
    feeds = {"i": np.ones(3, np.int64)}
    model = model_of([("Gather", ["t", "i"], ["y"], {})], feeds, {"t": TABLE}, ["y"])
    assert error_bounds(import_graph(model), {"i": (0, 7)})["outputs"]["y"]["error"] == 0


@pytest.mark.parametrize("ranges", [{"x": (1, 0)}, {"x": (0, float("inf"))}])
def test_a_wrong_range_is_an_error(ranges):
    graph = import_graph(model_of([("Relu", ["x"], ["y"], {})], {"x": np.ones(3, F32)}, {}, ["y"]))
    with pytest.raises(ValueError, match="input x"):
        error_bounds(graph, ranges)


def test_each_node_reports_the_error_that_it_adds():
    x = np.ones((4, 24), F32)
    result = error_bounds(import_graph(model_of(MLP, {"x": x}, W, ["y"])), {"x": (-1, 1)})
    assert [row["operator"] for row in result["nodes"]] == [
        "matmul",
        "add",
        "tanh",
        "matmul",
        "softmax",
    ]
    assert all(0 < row["own"] <= row["error"] for row in result["nodes"])


DEPTH = 6
DEEP = [
    row for i in range(DEPTH)
    for row in (("Conv", ["x" if i == 0 else f"r{i - 1}", f"w{i}"], [f"c{i}"], {"pads": [1] * 4}),
                ("Relu", [f"c{i}"], [f"r{i}"], {}))
]  # fmt: skip
DEEP_WEIGHTS = {f"w{i}": weights(12, 12, 3, 3, seed=i) * F32(0.2) for i in range(DEPTH)}


def test_norms_bound_a_deep_network_better_than_intervals(monkeypatch):
    """Each layer multiplies an interval by the sum of its weights, a norm by its gain only."""
    x = np.random.default_rng(1).uniform(-1, 1, (300, 12, 8, 8)).astype(F32)
    wide = x.astype(WIDE)
    for each in DEEP_WEIGHTS.values():
        padded = np.pad(wide, ((0, 0), (0, 0), (1, 1), (1, 1)))
        wide = np.maximum(sum(
            np.einsum("nchw,oc->nohw", padded[:, :, i : i + 8, j : j + 8], each[:, :, i, j])
            for i in range(3) for j in range(3)
        ), 0)  # fmt: skip
    model = model_of(DEEP, {"x": x}, DEEP_WEIGHTS, ["r5"])
    rows = [tvmrt.load(model, winograd=on)({"x": x})["r5"] for on in (False, True)]
    worst = max(float(np.abs(np.asarray(each) - wide).max()) for each in rows)
    graph = import_graph(model_of(DEEP, {"x": x[:1]}, DEEP_WEIGHTS, ["r5"]))
    with_norms = error_bounds(graph, {"x": (-1, 1)})["outputs"]["r5"]
    monkeypatch.setattr(bounds, "_gain", lambda node: None)
    monkeypatch.setattr(bounds.Tensor, "tighten", lambda self: None)
    without = error_bounds(graph, {"x": (-1, 1)})["outputs"]["r5"]
    assert 0 < worst <= with_norms["error"] < without["error"] / 3
    assert wide.max() <= with_norms["high"] < without["high"]


@pytest.mark.parametrize("shape", [(5, 4, 3, 3), (4, 4, 2, 5), (3, 6, 1, 1), (6, 1, 3, 3)])
def test_gain_of_a_convolution_bounds_its_matrix(shape):
    """The matrix has a column for each element of an image of 12 x 12 with padding."""
    w = np.random.default_rng(4).normal(size=shape)
    images = np.eye(shape[1] * 144).reshape(-1, shape[1], 12, 12)
    pads = [n // 2 for n in shape[2:]]
    attrs = {"groups": 1, "strides": (1, 1), "dilations": (1, 1), "pads_before": pads,
             "pads_after": pads}  # fmt: skip
    matrix = reference_conv.conv(images, w, None, attrs).reshape(len(images), -1)
    largest = np.linalg.norm(matrix, 2)
    assert (1 - 1e-9) * largest <= bounds._conv_gain(w) <= 1.25 * largest
