"""Inputs whose value is fixed when a network is compiled: axes, blocks, positions in sequences."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import onnx_backend
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import tvmrt
from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 9, opset_import: ["" : 18]> net '
# `axes` is a list of an open length, `k` of one number
NETWORK = parser.parse_model(
    HEAD
    + """(float[a, b, c] x, int64[n] axes, int64[1] k) => (float[d, e] y, float[f, g, h] z) {
        y = ReduceSum<keepdims = 0>(x, axes)
        z = CumSum(x, k)
    }"""
)
X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f")
FEEDS = {"x": X, "axes": np.array([1]), "k": np.array([2])}
VALUES = {"axes": [1], "k": 2}


def check(model, feeds, expected, values):
    network = onnx_backend.prepare(model, values=values)
    for mine, right in zip(network.run(feeds), expected, strict=True):
        same(mine, right)
    return network


def same(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected):
            same(*pair)
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def test_the_error_names_the_input_and_the_option():
    advice = r"make it a constant, or fix its value with values=\{\"axes\": VALUE\}"
    with pytest.raises(UnsupportedError, match=rf"axes \(input 1, axes\).*run time; {advice}"):
        tvmrt.load(NETWORK)


def test_values_at_any_size_and_in_each_run():
    network = tvmrt.load(NETWORK, values=VALUES)
    session = runtime.InferenceSession(NETWORK.SerializeToString())
    for shape in ((2, 3, 4), (5, 1, 7)):
        feeds = {**FEEDS, "x": np.resize(X, shape)}
        for mine, right in zip(network(feeds).values(), session.run(None, feeds), strict=True):
            same(mine, right)
    words = r"input 'axes': the run has \[0\], the network was compiled for the fixed value \[1\]"
    with pytest.raises(ValueError, match=words):
        network({**FEEDS, "axes": np.array([0])})
    with pytest.raises(ValueError, match="input 'k'"):
        network({**FEEDS, "k": np.array([1])})


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"axs": 1}, KeyError, "the network has no input axs; did you mean axes"),
        ({"x": 1}, ValueError, "x has elements of type float32; only inputs of whole"),
        ({"k": [1, 2]}, ValueError, r"input k has shape \[1\]; give as many numbers"),
        ({"axes": [3], "k": 0}, ValueError, "axis 3 is outside a tensor of rank 3"),
        ({"axes": 1.5}, TypeError, "values: give for each name a whole number or a list"),
    ],
)
def test_values_that_do_not_fit(values, error, words):
    with pytest.raises(error, match=words):
        tvmrt.compile(NETWORK, values=values)


def test_on_the_command_line(tmp_path):
    onnx.save(NETWORK, tmp_path / "net.onnx")
    command = [sys.executable, "-m", "tvmrt", "verify", str(tmp_path / "net.onnx")]

    def run(*more: str) -> subprocess.CompletedProcess:
        return subprocess.run([*command, *more], capture_output=True, text=True, check=False)

    refused = run()
    assert "fix its value with --value axes=VALUE" in refused.stderr, refused
    done = run("--value", "axes=1", "--value", "k=2")
    assert done.returncode == 0, done.stdout + done.stderr
    malformed = run("--value", "axes=one")
    assert "'axes=one' does not have the form INPUT=VALUE" in malformed.stderr, malformed


def test_frames_and_blocks():
    model = parser.parse_model(
        HEAD
        + """(float[1, 40, 1] x, int64 step, int64 long, float[1, 2, 6] columns, int64[2] block,
            int64[2] image)
        => (float[b, m, n, p] frames, float[b, q, r, s] pixels) {
            frames = STFT(x, step, , long)
            pixels = Col2Im(columns, image, block)
        }"""
    )
    rng = np.random.default_rng(2)
    fixed = {name: rng.normal(size=n).astype("f") for name, n in (("x", (1, 40, 1)),)}
    fixed["columns"] = rng.normal(size=(1, 2, 6)).astype("f")
    for long, block in [(8, [1, 2]), (9, [2, 1])]:
        values = {"step": 6, "long": long, "block": block, "image": [3, 3]}
        feeds = {**fixed, **{name: np.asarray(value) for name, value in values.items()}}
        network = check(model, feeds, ReferenceEvaluator(model).run(None, feeds), values)
        for name in values:
            with pytest.raises(ValueError, match=f"input '{name}'"):
                network.run({**feeds, name: feeds[name] + 1})


def test_places_in_sequences():
    """Positions and sizes of elements with different shapes."""
    model = parser.parse_model(
        HEAD
        + """(float[2, 3] a, float[4, 3] b, float[3, 3] c, int64 k, int64[2] sizes, int64 size) =>
        (seq(float[N, 3]) more, seq(float[N, 3]) fewer, float[M, 3] one, seq(float[N, 3]) parts,
         seq(float[N, 3]) alike, int64 n) {
            s = SequenceConstruct(a, b, c)
            more = SequenceInsert(s, c, k)
            fewer = SequenceErase(s, k)
            one = SequenceAt(s, k)
            parts = SplitToSequence<axis = 0>(b, sizes)
            alike = SplitToSequence<axis = 0>(b, size)
            n = SequenceLength(alike)
        }"""
    )
    rng = np.random.default_rng(1)
    tensors = {n: rng.normal(size=(rows, 3)).astype("f") for n, rows in zip("abc", (2, 4, 3))}
    session = runtime.InferenceSession(model.SerializeToString())
    for k, sizes, size in [(0, [1, 3], 1), (-3, [4, 0], 3)]:
        values = {"k": k, "sizes": sizes, "size": size}
        feeds = {**tensors, **{name: np.asarray(value) for name, value in values.items()}}
        check(model, feeds, session.run(None, feeds), values)
    for wrong, words in [({"k": 3}, "position"), ({"sizes": [1, 4]}, "parts"), ({"size": 0}, "0")]:
        with pytest.raises(ValueError, match=words):
            onnx_backend.prepare(model, values={**values, **wrong})


def test_an_expand_keeps_the_extents_of_its_operand():
    """The shape of an Expand is found in the run; extents other than 1 are checked."""
    model = parser.parse_model(
        HEAD + "(float[3, 1] x, int64[2] shape) => (float[p, q] y) { y = Expand(x, shape) }"
    )
    network = tvmrt.load(model)
    x = np.float32([[1], [2], [3]])
    for shape in ([3, 4], [1, 2], [3, 1]):
        wanted = np.broadcast_to(x, np.broadcast_shapes(x.shape, shape))
        np.testing.assert_array_equal(network({"x": x, "shape": np.array(shape)})["y"], wanted)
    with pytest.raises(ValueError, match=r"Expand.*shape: the run has \[2\].*1 or 3 elements"):
        network({"x": x, "shape": np.array([2, 4])})


def test_scan_of_batches():
    model = parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 8]> net '
        """(float[3, 2] first, float[3, 4, 2] x) => (float[3, 2] y, float[3, 4, 2] z) {
            y, z = Scan<num_scan_inputs = 1, directions = [1], body = add
                (float[2] sum, float[2] next) => (float[2] more, float[2] out)
                { more = Add(sum, next) out = Mul(more, next) }>(, first, x)
        }"""
    )
    rng = np.random.default_rng(3)
    feeds = {"first": rng.normal(size=(3, 2)), "x": rng.normal(size=(3, 4, 2))}
    feeds = {name: value.astype("f") for name, value in feeds.items()}
    session = runtime.InferenceSession(model.SerializeToString())
    check(model, feeds, session.run(None, feeds), None)
