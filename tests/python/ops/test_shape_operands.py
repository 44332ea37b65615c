"""Run-time integer operands that are inferred from the declared output shapes."""

from __future__ import annotations

import numpy as np
import onnx_backend
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 8, opset_import: ["" : 17]> net '
# a frame of ones whose size is an input, which also determines the number of elements of a range
NETWORK = """(int64[2] size, int32 n, float[3] x, int64 k) => (float[4, 5] y, float[6] z, float w)
    <float zero = {0}, float one = {1}, int64 ax = {0}> {
        twice = Add(size, size)
        half = Sub(twice, size)
        ones = ConstantOfShape(half)
        less = Add(ones, ones)
        y = Sub(less, ones)
        many = Cast<to = 1>(n)
        ramp = Range(zero, many, one)
        z = Cos(ramp)
        w = Gather<axis = 0>(x, k)
    }"""


def check(model, feeds, expected):
    network = onnx_backend.prepare(model)
    for given, right in zip(feeds, expected):
        for mine, other in zip(network.run(given), right):
            np.testing.assert_allclose(mine, other, rtol=2e-5, atol=1e-5)
    return network


def test_operands_are_checked_against_result_shapes():
    model = parser.parse_model(HEAD + NETWORK)
    network = onnx_backend.prepare(model)
    feeds = {"size": np.int64([4, 5]), "n": np.array(6, np.int32), "x": np.float32([1, 2, 3])}
    for k in (0, 2):
        feeds["k"] = np.array(k)
        session = runtime.InferenceSession(model.SerializeToString())
        for mine, right in zip(network.run(feeds), session.run(None, feeds)):
            np.testing.assert_allclose(mine, right, rtol=1e-6)
    with pytest.raises(ValueError, match=r"input 'size': .*\[4, 6\].* declared shapes, \[4, 5\]"):
        network.run({**feeds, "size": np.int64([4, 6])})
    with pytest.raises(ValueError, match=r"input 'n': .*\[7\].* declared shapes, \[6\]"):
        network.run({**feeds, "n": np.int32(7)})


def test_operands_tied_to_an_input_extent_and_free_ones():
    model = parser.parse_model(
        HEAD
        + """(float[2, 3] x, int64[3] size) => (float[2, 5] y, float[2, M] z, float[2, 3] w) {
            n, c, many = Split<axis = 0>(size)
            extents = Concat<axis = 0>(n, many)
            zeros = ConstantOfShape(extents)
            y = Add(zeros, zeros)
            z = Concat<axis = 1>(x, y)
            factor = Cast<to = 1>(c)
            w = Mul(x, factor)
        }"""
    )
    model.graph.output[1].type.tensor_type.shape.dim[1].dim_value = 8
    session = runtime.InferenceSession(model.SerializeToString())
    x = np.arange(6, dtype="f").reshape(2, 3)
    feeds = [{"x": x, "size": np.int64([2, c, 5])} for c in (3, 40)]
    network = check(model, feeds, [session.run(None, given) for given in feeds])
    with pytest.raises(ValueError, match=r"\[2, 3, 4\].* declared shapes, \[2, any, 5\]"):
        network.run({"x": x, "size": np.int64([2, 3, 4])})


def test_operands_not_inferable_from_results_are_rejected():
    text = "(int64 n, int64 m) => (float[6] z) { zero = Constant<value_int = 0>()" \
           " r = Range(zero, n, m) z = Cast<to = 1>(r) }"  # fmt: skip
    with pytest.raises(UnsupportedError, match="Range"):
        onnx_backend.prepare(parser.parse_model(HEAD + text.replace("float[6]", "float[N]")))


def test_frames_bands_and_blocks():
    """If a shape allows several lengths or block sizes, each of them works."""
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> net '
        """(float[1, 40, 1] x, int64 step, int64 long, float[8] window, int32 bands, int32 size,
            int32 rate, float low, float high, float[1, 2, 6] columns, int64[2] block)
        => (float[1, 6, 5, 2] plain, float[1, 6, 5, 2] weighted, float[9, 4] mel,
            float[1, 1, 3, 3] image) <int64[2] extents = {3, 3}> {
            plain = STFT(x, step, , long)
            weighted = STFT(x, step, window)
            mel = MelWeightMatrix(bands, size, rate, low, high)
            image = Col2Im(columns, extents, block)
        }"""
    )
    rng = np.random.default_rng(2)
    shapes = {"x": (1, 40, 1), "window": (8,), "columns": (1, 2, 6)}
    fixed = {name: rng.normal(size=shape).astype("f") for name, shape in shapes.items()}
    fixed.update(step=np.array(6), bands=np.array(4, np.int32), low=np.float32(200))
    chosen = [(8, 16, 8000, 3900, (1, 2)), (9, 17, 16000, 7000, (2, 1))]
    feeds = [
        {
            **fixed,
            "long": np.array(long),
            "size": np.array(size, np.int32),
            "rate": np.array(rate, np.int32),
            "high": np.float32(high),
            "block": np.int64(block),
        }
        for long, size, rate, high, block in chosen
    ]
    evaluator = ReferenceEvaluator(model)
    network = check(model, feeds, [evaluator.run(None, given) for given in feeds])
    for wrong, words in [
        ({"step": np.array(5)}, "frame_step"),
        ({"long": np.array(7)}, "frame_length"),
        ({"block": np.int64([2, 2])}, "block_shape"),
        ({"size": np.array(18, np.int32)}, "dft_length"),
    ]:
        with pytest.raises(ValueError, match=words):
            network.run({**feeds[0], **wrong})


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
    check(model, [feeds], [session.run(None, feeds)])
