"""Sequences and optional values as inputs and outputs: lists in Python, separate element tensors in
libraries and commands."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import onnx_backend
import pytest
from onnx import parser

import tvmrt

runtime = pytest.importorskip("onnxruntime")

# multiply the elements of one sequence by those of another, and append a tensor
SCALED = """<ir_version: 8, opset_import: ["" : 17]> net
    (seq(float[N, 3]) x, seq(float[3]) by, float[2] last) =>
    (seq(float[N, 3]) y, int64 n, seq(float[3]) by) {
        z = SequenceMap<body = scale (float[K, 3] p, float[3] q) => (float[K, 3] r)
            { r = Mul(p, q) }>(x, by)
        y = SequenceInsert(z, last)
        n = SequenceLength(y)
    }"""
OPTIONAL = """<ir_version: 8, opset_import: ["" : 18]> net
    (optional(seq(float[2])) x, optional(float[2]) t, float[2] other) =>
    (bool given, bool there, float[2] z, optional(float[2]) none) {
        given = OptionalHasElement(x)
        there = OptionalHasElement(t)
        z = If(there)<then_branch = a () => (float[2] p) { p = OptionalGetElement(t) },
                      else_branch = b () => (float[2] q) { q = Neg(other) }>
        none = Optional<type = float[2]>()
    }"""
RNG = np.random.default_rng(5)
ELEMENTS = [RNG.normal(size=(n, 3)).astype("f") for n in (2, 4, 1)]
FACTORS = [RNG.normal(size=3).astype("f") for _ in range(3)]
LAST = np.float32([7, 8])


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected):
            same(*pair)
    elif expected is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_sequence_inputs_and_outputs_are_lists():
    """Each number of elements and each shape is compiled once."""
    model = parser.parse_model(SCALED)
    network = onnx_backend.prepare(model)
    session = runtime.InferenceSession(model.SerializeToString())
    for some in (3, 1, 3):
        feeds = {"x": ELEMENTS[-some:], "by": FACTORS[:some], "last": LAST}
        found = network.run(feeds)
        expected = session.run(None, feeds)
        for mine, right in zip(found, expected):
            same(mine, right)
    assert len(network._loaded) == 2


@pytest.mark.parametrize("given", [True, False])
def test_absent_optional_values(given):
    model = parser.parse_model(OPTIONAL)
    values = [[LAST], LAST, ELEMENTS[0][0, :2]] if given else [None, None, LAST]
    found = onnx_backend.prepare(model).run(values)
    assert found.given == given and found.there == given
    np.testing.assert_array_equal(found.z, LAST if given else -LAST)
    assert found.none is None


@pytest.mark.slow
def test_from_the_command(tmp_path):
    file, library, inputs = (str(tmp_path / name) for name in ("n.onnx", "n.so", "in.npz"))
    model = parser.parse_model(SCALED)
    onnx.save(model, file)
    options = ["--sequence", "x=3", "--shape", "x[1]=4,3", "--shape", "x=2,3", "--sequence", "by=3"]

    def run(*arguments):
        command = [sys.executable, "-m", "tvmrt", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "agree with onnxruntime" in run("verify", file, *options)
    run("compile", file, "-o", library, *options, "--executor", "aot")
    parts = {f"x[{i}]": ELEMENTS[min(i, 1)] if i != 2 else ELEMENTS[0] for i in range(3)}
    feeds = {**parts, **{f"by[{i}]": f for i, f in enumerate(FACTORS)}, "last": LAST}
    np.savez(inputs, **feeds)
    printed = json.loads(run("run", library, "--inputs", inputs, "--json"))["outputs"]
    session = runtime.InferenceSession(model.SerializeToString())
    given = {"x": list(parts.values()), "by": FACTORS, "last": LAST}
    y, n, by = session.run(None, given)
    found = [np.float32(value["values"]) for value in printed.values()]
    for mine, right in zip(found, [*y, n, *by]):
        np.testing.assert_allclose(mine, right, rtol=1e-6)
    assert len(found) == len(y) + 1 + len(by)


def test_library_lists_the_tensors():
    library = tvmrt.compile(parser.parse_model(SCALED), sequences={"x": 0, "by": 0})
    assert library.bundles["x"].parts == ()
    assert library.bundles["y"].parts == ("y[0]",)
    assert [each.name for each in library.summary.inputs] == ["last"]


@pytest.mark.parametrize(
    ("sequences", "error", "words"),
    [
        ({"x": 2}, ValueError, r'input by is a sequence; .* with sequences=."by": 3'),
        ({"x": -1}, ValueError, "input x is a sequence of -1"),
        ({"x": None, "by": 1}, ValueError, "input x is a sequence; declare how many"),
        ({"last": 2}, KeyError, "no sequence or optional input last; choose from x, by"),
        ({"x": 1 << 40, "by": 1}, ValueError, "the maximum is"),
    ],
)
def test_mismatches_are_reported(sequences, error, words):
    with pytest.raises(error, match=words):
        tvmrt.compile(parser.parse_model(SCALED), shapes={"x": (2, 3)}, sequences=sequences)


def test_lists_of_different_length():
    network = onnx_backend.prepare(
        parser.parse_model(SCALED), shapes={"x": (2, 3)}, sequences={"x": 1, "by": 1}
    )
    with pytest.raises(
        ValueError, match="input x is a list of 1 arrays, not 2; to use another length"
    ):
        network.run({"x": ELEMENTS[:2], "by": FACTORS[:2], "last": LAST})


# run-time positions and sizes of elements with different shapes
PERHAPS = """<ir_version: 8, opset_import: ["" : 18]> net
    (bool c, float[2] a) => (optional(seq(float[2])) y, bool there) {
        y = If(c)<then_branch = no () => (optional(seq(float[2])) p)
                { p = Optional<type = seq(float[2])>() },
            else_branch = yes () => (optional(seq(float[2])) q)
                { s = SequenceConstruct(a, a) q = Optional(s) }>
        there = OptionalHasElement(y)
    }"""


def test_optional_that_is_absent_at_run_time():
    network = onnx_backend.prepare(parser.parse_model(PERHAPS))
    none = network.run([np.bool_(True), LAST])
    some = network.run([np.bool_(False), LAST])
    assert none.y is None and not none.there
    assert some.there
    same(some.y, [LAST, LAST])


GROWN = """<ir_version: 8, opset_import: ["" : 17]> net
    (float[5] x, int64 rounds, bool go, float least, seq(float[N]) first) =>
    (seq(float[N]) y, float total) {
        zero = Constant<value_float = 0.0>()
        y, total = Loop<body = grow (int64 i, bool c, seq(float[N]) s, float t) =>
            (bool d, seq(float[N]) u, float v)
            <int64[1] from = {0}, int64 one = {1}, int64[1] ax = {0}> {
                next = Add(i, one)
                to = Unsqueeze(next, ax)
                part = Slice(x, from, to)
                u = SequenceInsert(s, part)
                sum = ReduceSum<keepdims = 0>(part)
                v = Add(t, sum)
                d = Less(v, least)
            }>(rounds, go, first, zero)
    }"""


def test_loops_that_append_tensors_of_different_shapes():
    model = parser.parse_model(GROWN)
    network = onnx_backend.prepare(
        model, sequences={"first": 1, "y": 5}, shapes={"first": (2,)}, target="host"
    )
    session = runtime.InferenceSession(model.SerializeToString())
    feeds = {"x": np.arange(1, 6, dtype="f"), "first": [LAST]}
    for rounds, go, least in [(4, True, 1e9), (5, True, 7.0), (3, False, 1e9), (0, True, 1e9)]:
        given = {"rounds": np.array(rounds), "go": np.array(go), "least": np.array(least, "f")}
        for mine, right in zip(
            network.run({**feeds, **given}), session.run(None, {**feeds, **given})
        ):
            same(np.asarray(mine) if isinstance(right, np.ndarray) else mine, right)
    with pytest.raises(ValueError, match=r"trip count: .* at most 5 iterations"):
        network.run({**feeds, **given, "rounds": np.array(6)})
