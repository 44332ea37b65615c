"""Sequences and optional values that are resolved to tensors at compile time."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import tvmrt
from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")

NETWORKS = {
    "construct, insert, erase": """
        (float[2, 3] a, float[1, 3] b) => (float[N, 3] y, int64 n)
        <int64 first = {0}, int64 last = {-1}> {
            s0 = SequenceConstruct(a, b)
            s1 = SequenceInsert(s0, a)
            s2 = SequenceInsert(s1, b, first)
            s3 = SequenceErase(s2, last)
            n = SequenceLength(s3)
            y = ConcatFromSequence<axis = 0>(s3)
        }""",
    "data-dependent element": """
        (float[2, 3] a, float[2, 3] b, int64 k) => (float[2, 3] y) {
            s0 = SequenceConstruct(a, b)
            y = SequenceAt(s0, k)
        }""",
    "split and map": """
        (float[7, 3] a, float[3] b) => (float[N, 3] y, float[3, M] z) <int64 size = {3}> {
            s0 = SplitToSequence<axis = 0>(a, size)
            s1 = SequenceMap<body = add (float[K, 3] p, float[3] q) => (float[K, 3] r)
                { r = Mul(p, q) }>(s0, b)
            y = ConcatFromSequence<axis = 0>(s1)
            s2 = SplitToSequence<axis = 1, keepdims = 0>(a)
            z = ConcatFromSequence<axis = 0, new_axis = 1>(s2)
        }""",
    "loop that appends": """
        (float[2, 3] a) => (float[N, 3] y) <int64 rounds = {4}, bool go = {1}> {
            s0 = SequenceConstruct(a)
            s1 = Loop<body = grow (int64 i, bool c, seq(float[2, 3]) s) => (bool d,
                seq(float[2, 3]) t) <float two = {2}> {
                    d = Identity(c)
                    last = SequenceAt(s, i)
                    more = Mul(last, two)
                    t = SequenceInsert(s, more)
                }>(rounds, go, s0)
            y = ConcatFromSequence<axis = 0>(s1)
        }""",
    "one iteration per row": """
        (float[2, 3] a, float[N, 3] rows) => (float[P, 3] y, float[P, 3] z, float[3] second,
            int64 n) <bool go = {1}, int64 one = {1}> {
            shape = Shape<end = 1>(rows)
            count = Squeeze(shape)
            s0 = SequenceEmpty()
            s1, s2 = Loop<body = grow (int64 i, bool c, seq(float[3]) s, seq(float[2, 3]) t)
                => (bool d, seq(float[3]) u, seq(float[2, 3]) v) {
                    d = Identity(c)
                    row = Gather<axis = 0>(rows, i)
                    u = SequenceInsert(s, row)
                    both = Mul(a, row)
                    v = SequenceInsert(t, both)
                }>(count, go, s0, s0)
            y = ConcatFromSequence<axis = 0, new_axis = 1>(s1)
            z = ConcatFromSequence<axis = 0>(s2)
            second = SequenceAt(s1, one)
            n = SequenceLength(s2)
        }""",
    "optional": """
        (float[2, 3] a) => (float[2, 3] y, bool there) {
            o = Optional(a)
            there = OptionalHasElement(o)
            y = OptionalGetElement(o)
        }""",
}
REFUSED = {
    "nested sequence": (
        "(float[2] a) => (seq(seq(float[2])) y)"
        " { s = SequenceConstruct(a) y = SequenceConstruct(s) }",
        UnsupportedError, "output y is a sequence of sequences or optional values",
    ),
    "outside": (
        "(float[2] a) => (float[2] y) <int64 k = {1}>"
        " { s = SequenceConstruct(a) y = SequenceAt(s, k) }",
        ValueError, "position 1 is outside a sequence of 1",
    ),
    "no tensor": (
        "(float[2] a) => (float[2] y) { s = SequenceConstruct(a) y = Neg(s) }",
        UnsupportedError, "an operand is a sequence",
    ),
    "absent": (
        "(float[2] a) => (float[2] y)"
        " { s = Optional<type = float[2]>() y = OptionalGetElement(s) }",
        ValueError, "the optional value is missing",
    ),
}  # fmt: skip


def parsed(text: str) -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["" : 17]> net '
    return parser.parse_model(head + text)


@pytest.mark.parametrize("name", NETWORKS)
def test_matches_onnxruntime(name, tmp_path):
    model = parsed(NETWORKS[name])
    dims = {"N": (2, 12)} if "float[N, 3] rows" in NETWORKS[name] else None
    tvmrt.compile(model, dims=dims).export_library(str(tmp_path / "net.so"))
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    network = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    session = runtime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(1)
    for number in (0, 1, -1):
        feeds = {
            info.name: np.array(number)
            if info.type == "tensor(int64)"
            else rng.normal(size=[5 + number if n == "N" else n for n in info.shape]).astype("f")
            for info in session.get_inputs()
        }
        for key, value in feeds.items():
            network.set_input(key, value)
        network.run()
        for i, expected in enumerate(session.run(None, feeds)):
            np.testing.assert_allclose(network.get_output(i).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_sequences_are_reported(name):
    text, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        tvmrt.compile(parsed(text))
