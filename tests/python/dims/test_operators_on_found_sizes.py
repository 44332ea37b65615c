"""Operators on axes whose sizes a run finds, such as a Conv over the elements that a mask keeps.

Networks are loaded without bounds and compared with onnxruntime at sizes that find no, few and many
elements. A run that onnxruntime refuses is left out.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import tvmrt

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
# f: the positive elements of x as float[found]; c: their number as int64; z, o: 0 and 1.
FOUND = """
    z = Constant<value_int=0>() o = Constant<value_int=1>() none = Constant<value_float=0.0>()
    kept = Greater(x, none) f = Compress<axis=0>(x, kept)
    counted = Shape(f) c = Squeeze(counted) row = Constant<value_ints=[1,1,-1]>()"""
WEIGHTS = "w = Constant<value: tensor = float[2,1,3] {1,-2,3,0.5,1,-1}>()"
CASES = {
    "Conv whose last window may reach the padding": f"""(float[1,2,K] y) {{ {FOUND} {WEIGHTS}
        r = Reshape(f, row) y = Conv<strides=[2]>(r, w) }}""",
    "Conv with padding before only": f"""(float[1,2,K] y) {{ {FOUND} {WEIGHTS}
        r = Reshape(f, row) y = Conv<strides=[3], pads=[1,0]>(r, w) }}""",
    "Conv with dilation and padding after only": f"""(float[1,2,K] y) {{ {FOUND} {WEIGHTS}
        r = Reshape(f, row) y = Conv<strides=[3], pads=[0,2], dilations=[2]>(r, w) }}""",
    "AveragePool of fewer windows than elements": f"""(float[1,1,K] y) {{ {FOUND}
        r = Reshape(f, row) y = AveragePool<kernel_shape=[4], pads=[1,1]>(r) }}""",
    "MaxPool of fewer windows than elements": f"""(float[1,1,K] y) {{ {FOUND}
        r = Reshape(f, row) y = MaxPool<kernel_shape=[2]>(r) }}""",
    "rows of a number of elements": f"""(float[P,2] y) {{ {FOUND}
        two = Constant<value_ints=[-1,2]>() y = Reshape(f, two) }}""",
    "softmax of padded rows": f"""(float[K] y) {{ {FOUND}
        eight = Constant<value_ints=[8]>() m = Mod(counted, eight) l = Sub(eight, m)
        pads = Mod(l, eight) first = Constant<value_ints=[0]>()
        both = Concat<axis=0>(first, pads) p = Pad(f, both) shape = Shape(p)
        rows = Constant<value_ints=[-1,8]>() r = Reshape(p, rows) q = Softmax<axis=1>(r)
        flat = Reshape(q, shape) y = Slice(flat, first, counted) }}""",
    "last elements reversed, of at least one": f"""(float[K] y) {{ {FOUND}
        s = Constant<value_ints=[-2]>() e = Constant<value_ints=[-9]>()
        a = Constant<value_ints=[0]>() y = Slice(f, s, e, a, s) }}""",
    "Hardmax of any number": f"""(float[K] y) {{ {FOUND} y = Hardmax<axis=0>(f) }}""",
    "Tile by a number that may be negative": """(float[K] y) {
        n = Shape(x) ten = Constant<value_ints=[10]>() least = Min(n, ten)
        three = Constant<value_ints=[3]>() r = Sub(least, three) y = Tile(x, r) }""",
    "Slice to the end of many parts": f"""(float[K] y) {{ {FOUND}
        big = Constant<value_ints=[2147483648]>() six = Constant<value_ints=[6]>()
        by = Constant<value_ints=[3]>() first = Constant<value_ints=[0]>()
        a = Concat<axis=0>(x, f) n = Shape(a) s = Div(n, by) b = Slice(a, s, big, first)
        m = Shape(b) t = Div(m, by) c2 = Slice(b, t, big, first)
        l = Shape(c2) u = Div(l, by) y = Slice(c2, u, big, first) }}""",
    "ReduceSum of integers": f"""(int64[1] y) {{ {FOUND}
        i = Cast<to=7>(f) first = Constant<value_ints=[0]>() y = ReduceSum(i, first) }}""",
    "ReduceMean of integers": f"""(int64[1] y) {{ {FOUND}
        two = Constant<value_ints=[2,-1]>() ff = Concat<axis=0>(f, f) i = Cast<to=7>(ff)
        p = Reshape(i, two) both = Constant<value_ints=[0,1]>() m = ReduceMean(p, both)
        flat = Constant<value_ints=[1]>() y = Reshape(m, flat) }}""",
    "pairs of the second half": f"""(float[P,2] y) {{ {FOUND}
        two = Constant<value_ints=[2]>() half = Div(counted, two) rest = Sub(counted, half)
        parts = Concat<axis=0>(half, rest) a, b = Split<axis=0>(f, parts)
        n = Shape(b) pairs = Div(n, two) even = Mul(pairs, two)
        first = Constant<value_ints=[0]>() e = Slice(b, first, even)
        shape = Concat<axis=0>(pairs, two) y = Reshape(e, shape) }}""",
    "Range to a third of an open size": """(float[K] y) {
        n = Shape(x) d = Cast<to=11>(n) t = Constant<value: tensor = double {0.3333333333333333}>()
        m = Mul(d, t) r = Round(m) i = Cast<to=7>(r) o = Constant<value_int=1>() l = Max(i, o)
        z = Constant<value_int=0>() s = Squeeze(l) k = Range(z, s, o) y = Cast<to=1>(k) }""",
    "rows of parts of a rounded size, in another order": """(float[K,L] y) {
        row = Constant<value_ints=[-1,1]>() r = Reshape(x, row) n = Shape(x) d = Cast<to=1>(n)
        t = Constant<value_float=0.33333334>() m = Mul(d, t) o = Round(m) i = Cast<to=7>(o)
        rest = Sub(n, i) parts = Concat<axis=0>(i, rest) a, b = Split<axis=0>(r, parts)
        s = Concat<axis=0>(b, a) y = Mul(s, s) }""",
    "Reshape to a rounded number of rows": """(float[K,L] y) {
        n = Shape(x) d = Cast<to=11>(n) t = Constant<value: tensor = double {0.5}>()
        m = Mul(d, t) r = Round(m) i = Cast<to=7>(r) o = Constant<value_ints=[1]>() k = Max(i, o)
        rest = Constant<value_ints=[-1]>() s = Concat<axis=0>(k, rest) y = Reshape(x, s) }""",
    "Reshape by a remainder, where 0 copies an extent": """(float[K,L] y) {
        row = Constant<value_ints=[1,-1]>() xx = Reshape(x, row) n = Shape(x)
        two = Constant<value_ints=[2]>() four = Constant<value_ints=[4]>() h = Div(n, two)
        m = Mod(h, four) rest = Constant<value_ints=[-1]>() s = Concat<axis=0>(m, rest)
        y = Reshape(xx, s) }""",
    "TopK of a difference of sizes": """(float[K] y) {
        two = Constant<value_ints=[2]>() big = Constant<value_ints=[2147483648]>()
        z = Constant<value_ints=[0]>() three = Constant<value_ints=[3]>()
        p = Slice(x, two, big, z, three)
        q = Concat<axis=0>(p, p, p) n = Shape(x) nine = Constant<value_ints=[9]>() k = Min(n, nine)
        m = Shape(p) j = Sub(k, m) l = Max(j, z) kk = Min(l, m) y, i = TopK(q, kk) }""",
    "If of rows and of all but the first of them": f"""(float[4,K] y) {{ {FOUND}
        four = Constant<value_ints=[4,-1]>() xx = Concat<axis=0>(x, x, x, x) r = Reshape(xx, four)
        any = Greater(c, z) s = If(any)<then_branch = some () => (float[4,P] u) {{
            start = Constant<value_ints=[1]>() big = Constant<value_ints=[2147483648]>()
            last = Constant<value_ints=[1]>() u = Slice(r, start, big, last) }},
            else_branch = all () => (float[4,Q] v) {{ v = Neg(r) }}>
        y = Add(s, s) }}""",
    "sequence of parts of a rounded size": """(float[K] y) {
        row = Constant<value_ints=[1,1,-1]>() r = Reshape(x, row) flat = Constant<value_ints=[-1]>()
        p = MaxPool<kernel_shape=[1], strides=[2], ceil_mode=1>(r) l = Reshape(p, flat)
        n = Shape(l) d = Cast<to=1>(n) t = Constant<value_float=0.4>() m = Mul(d, t) o = Round(m)
        i = Cast<to=7>(o) rest = Sub(n, i) parts = Concat<axis=0>(rest, i)
        s = SplitToSequence<axis=0>(l, parts) last = Constant<value_int=-1>()
        y = SequenceAt(s, last) }""",
    "the largest of some of a computed number of elements": """(float[K] y) {
        q = Abs(x) c = Ceil(q) i = Cast<to=7>(c) first = Constant<value_ints=[0]>()
        sum = ReduceSum<keepdims=0>(i, first) z = Constant<value_int=0>()
        o = Constant<value_int=1>() r = Range(z, sum, o) g = Cast<to=1>(r)
        three = Constant<value_float=3.0>() m = Greater(g, three) e = Compress<axis=0>(g, m)
        n = Shape(e) two = Constant<value_ints=[2]>() k = Min(n, two) y, j = TopK(e, k) }""",
    "ArgMax of a table of pairs": f"""(int64[K] y) {{ {FOUND}
        column = Constant<value_ints=[-1,1]>() r = Reshape(f, column) d = Mul(r, f)
        y = ArgMax<axis=1, keepdims=0>(d) }}""",
    "boxes of any number, without a limit": """(int64[K,3] y) {
        column = Constant<value_ints=[1,-1,1]>() r = Reshape(x, column) q = Abs(r)
        s = Neg(q) t = Concat<axis=2>(r, r, q, q) one = Constant<value_ints=[1,1,-1]>()
        scores = Reshape(x, one) limit = Constant<value_ints=[9223372036854775807]>()
        overlap = Constant<value_float=0.3>() least = Constant<value_float=0.0>()
        y = NonMaxSuppression(t, scores, limit, overlap, least) }""",
    "Loop over a table of pairs": f"""(float[K,L] y) {{ {FOUND}
        column = Constant<value_ints=[-1,1]>() r = Reshape(f, column) d = Mul(r, f)
        t = Constant<value=bool {{1}}>() three = Constant<value_int=3>()
        y = Loop(three, t, d)<body = step (int64 i, bool c0, float[P,Q] v) => (
            bool c1, float[P,Q] u) {{ c1 = Identity(c0) m = MatMul(v, d) u = Tanh(m) }}> }}""",
    "Scan over rows of pairs": f"""(float[K,L] y) {{ {FOUND}
        column = Constant<value_ints=[-1,1]>() one = Constant<value_floats=[1.0]>()
        g = Concat<axis=0>(f, one) r = Reshape(g, column) d = Mul(r, g) e = Sub(g, g)
        last, y = Scan<num_scan_inputs=1, body = step (float[Q] s0, float[Q] row) => (
            float[Q] s1, float[Q] out) {{ s1 = Add(s0, row) at = Constant<value_ints=[0]>()
            u = Unsqueeze(s1, at) m = MatMul(u, d) w = Squeeze(m, at) out = Tanh(w) }}>(e, d) }}""",
    "Tile by limits of a size of limits": f"""(float[K] y) {{ {FOUND}
        one = Constant<value_ints=[1]>() two = Constant<value_ints=[2]>()
        three = Constant<value_ints=[3]>() four = Constant<value_ints=[4]>()
        nine = Constant<value_ints=[9]>() a = Max(counted, three) b = Mod(a, four) d = Max(b, one)
        r = Min(d, two) t = Tile(f, r) n = Shape(t) g = Max(n, two) h = Mul(g, two) l = Min(h, nine)
        y = Tile(t, l) }}""",
    "sizes that differ broadcast where one is 1": f"""(float[K] y) {{ {FOUND}
        one = Constant<value_ints=[1]>() first = Constant<value_ints=[0]>()
        end = Min(counted, one) single = Slice(f, first, end) w = Constant<value_floats=[7.0]>()
        more = Concat<axis=0>(single, w) y = Mul(more, single) }}""",
    "open sizes that differ": """(float[K] y) {
        z = Constant<value_ints=[0]>() n = Shape(x) nine = Constant<value_ints=[9]>()
        m = Div(n, nine) a = Slice(x, z, m) w = Constant<value_floats=[7.0]>()
        b = Concat<axis=0>(a, w, a) y = Mul(a, b) }""",
}  # fmt: skip
SIZES = ((1, 0), (1, 1), (4, 2), (9, 3), (9, 9), (40, 17), (300, 300))


def elements(size: int, found: int) -> np.ndarray:
    """Return that many elements; ``found`` of them are positive."""
    x = np.random.default_rng(size).uniform(1, 9, size).astype(np.float32)
    x[np.random.default_rng(found).permutation(size)[found:]] *= -1
    return x


@pytest.mark.parametrize("case", CASES)
def test_sizes_that_a_run_finds(case):
    model = parser.parse_model(f"{HEAD} g (float[M] x) => {CASES[case]}")
    network = tvmrt.load(model, cache=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compared = 0
    for size, found in SIZES:
        x = elements(size, found)
        try:
            (expected,) = session.run(None, {"x": x})
        except Exception:  # its exceptions share no base class
            continue
        (y,) = network({"x": x}).values()
        assert (y.shape, y.dtype) == (expected.shape, expected.dtype), (size, found)
        np.testing.assert_allclose(y, expected, 1e-4, 1e-4)
        compared += 1
    assert compared >= 3


def test_windows_that_fit_small_pictures_only():
    model = parser.parse_model(f"""{HEAD} g (uint8[1,1,N] x) => (int32[1,1,K] y) {{
        s = Constant<value_ints=[3]>() e = Constant<value_ints=[-6]>()
        a = Constant<value_ints=[2]>() t = Constant<value_ints=[-2]>() p = Slice(x, s, e, a, t)
        w = Constant<value: tensor = uint8[1,1,2] {{1,2}}>() y = ConvInteger(p, w) }}""")
    network, session = tvmrt.load(model), onnxruntime.InferenceSession(model.SerializeToString())
    for size in (3, 4, 5, 6):
        x = np.arange(size, dtype=np.uint8).reshape(1, 1, size)
        np.testing.assert_array_equal(network({"x": x})["y"], session.run(None, {"x": x})[0])
    with pytest.raises(ValueError, match="ConvInteger"):
        network({"x": np.zeros((1, 1, 20), np.uint8)})


def test_a_window_larger_than_a_found_picture_is_named():
    body = f"""(float[1,1,K] y) {{ {FOUND} r = Reshape(f, row)
        y = MaxPool<kernel_shape=[7], strides=[2], pads=[1,0]>(r) }}"""
    network = tvmrt.load(parser.parse_model(f"{HEAD} g (float[M] x) => {body}"), cache=False)
    assert network({"x": elements(9, 9)})["y"].shape == (1, 1, 2)
    window = (
        r"MaxPool_y, sizes \[Compress_f_count\]: the run has \[2\].*window of 7 fits into axis 2"
    )
    with pytest.raises(ValueError, match=window):
        network({"x": elements(9, 2)})


def test_pool_of_a_picture_that_is_empty_at_one_size():
    body = """(float[1,1,K] y) { none = Constant<value_float=0.0>() kept = Greater(x, none)
        f = Compress<axis=0>(x, kept) row = Constant<value_ints=[1,1,-1]>() r = Reshape(f, row)
        y = AveragePool<kernel_shape=[4], pads=[3,1]>(r) }"""
    network = tvmrt.load(parser.parse_model(f"{HEAD} g (float[M] x) => {body}"), cache=False)
    assert network({"x": elements(4, 4)})["y"].shape == (1, 1, 5)
    with pytest.raises(ValueError, match="no elements"):
        network({"x": elements(0, 0)})


def test_best_of_no_elements_where_the_result_may_be_empty():
    body = """(int64[K,1] y) { none = Constant<value_float=0.0>() kept = Greater(z, none)
        f = Compress<axis=0>(x, kept) y = ArgMax<axis=1>(f) }"""
    model = parser.parse_model(f"{HEAD} g (float[M,N] x, float[M] z) => {body}")
    network = tvmrt.load(model, cache=False)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert network({"x": x, "z": elements(3, 2)})["y"].tolist() == [[1], [1]]
    assert network({"x": x[:, :0], "z": elements(3, 0)})["y"].shape == (0, 1)
    with pytest.raises(ValueError, match="ArgMax"):
        network({"x": x[:, :0], "z": elements(3, 2)})


def test_rows_of_an_integer_product_are_a_check_of_the_run():
    body = f"""(int64[1,2] y) {{ {FOUND} places = NonZero(kept)
        w = Constant<value: tensor = int64[1,2] {{4,-1}}>() y = MatMul(places, w) }}"""
    network = tvmrt.load(parser.parse_model(f"{HEAD} g (float[M] x) => {body}"), cache=False)
    x = elements(9, 1)
    place = np.flatnonzero(x > 0)
    np.testing.assert_array_equal(network({"x": x})["y"], [[4 * place[0], -place[0]]])
    for found in (0, 2):
        with pytest.raises(ValueError, match="MatMul"):
            network({"x": elements(9, found)})


def test_a_scale_of_as_many_elements_is_a_check_of_the_run():
    body = f"""(float[K] y) {{ {FOUND} w = Constant<value: tensor = float[3] {{1,-2,3}}>()
        y = LayerNormalization<axis=0>(f, w) }}"""
    model = parser.parse_model(f"{HEAD} g (float[M] x) => {body}")
    network, session = tvmrt.load(model), onnxruntime.InferenceSession(model.SerializeToString())
    x = elements(9, 3)
    np.testing.assert_allclose(network({"x": x})["y"], session.run(None, {"x": x})[0], 1e-4, 1e-4)
    with pytest.raises(ValueError, match="LayerNormalization"):
        network({"x": elements(9, 2)})
