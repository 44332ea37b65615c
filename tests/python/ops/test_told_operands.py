"""Integers of the run that nothing but the declared shapes of the network's results tells."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from tvmrt import onnx_backend
from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 8, opset_import: ["" : 17]> net '
# a frame of ones as large as the input says, on which the number of a ramp's elements depends, too
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


def test_held_to_the_shapes_of_results():
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


def test_what_no_result_tells_is_refused():
    text = "(int64 n, int64 m) => (float[6] z) { zero = Constant<value_int = 0>()" \
           " r = Range(zero, n, m) z = Cast<to = 1>(r) }"  # fmt: skip
    with pytest.raises(UnsupportedError, match="Range"):
        onnx_backend.prepare(parser.parse_model(HEAD + text.replace("float[6]", "float[N]")))
