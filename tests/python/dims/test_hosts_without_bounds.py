"""Sizes that hosts need no bound of, compared with onnxruntime, also where nothing remains."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import tvmrt
from tvmrt.compiler.planner import plan
from tvmrt.compiler.planner.lifetime import lifetimes

runtime = pytest.importorskip("onnxruntime")

ONE, TEXT = "int64[1] one = {1}, int64[1] zero = {0}, int64[1] last = {-1}", "float[N, 3] x"
CASES = {
    "pads that cut elements of other pads": (TEXT, "int64[4] p = {3, 0, -2, 0}", "y = Pad(x, p)"),
    "pads of an input": (f"{TEXT}, int64[4] p", ONE, "y = Pad(x, p)"),
    "a shape of an input": (f"{TEXT}, int64[2] s", ONE, "y = Reshape(x, s)"),
    "parts of two rows": (TEXT, f"int64 two = {{2}}, int64 end = {{-1}}, {ONE}",
        """q = SplitToSequence(x, two)  e = SequenceAt(q, end)  j = ConcatFromSequence<axis = 0>(q)
        y = Concat<axis = 0>(e, j)"""),
    "two parts": (TEXT, f"int64[1] two = {{2}}, int64 end = {{-1}}, {ONE}",
        """n = Shape<end = 1>(x)  a = Min(n, two)  b = Sub(n, a)  s = Concat<axis = 0>(a, b)
        q = SplitToSequence(x, s)  y = SequenceAt(q, end)"""),
    "slices to a place of either sign": (TEXT, f"int64[1] three = {{3}}, {ONE}",
        """i = NonZero(x)  n = Shape<start = 1>(i)  m = Mod(n, three)  p = Sub(m, one)
        f = Reshape(x, last)  y = Slice(f, last, p, zero, last)"""),
    "no rows for none found": (TEXT, f"int64[1] five = {{5}}, {ONE}",
        """i = NonZero(x)  n = Shape<start = 1>(i)  h = Div(n, five)  s = Concat<axis = 0>(h, last)
        r = Expand(one, n)  u = Unsqueeze(r, zero)  y = Reshape(u, s)"""),
    "regions of an empty picture": ("float[1, 1, N, M] x",
        "float[1, 4] r = {-1.0, -1.0, 0.0, 0.0}, int64[1] b = {0}", "y = RoiAlign(x, r, b)"),
    "samples of an empty picture": ("float[1, 1, N, M] x", "float[1, 1, 1, 2] g = {0.5, 2.0}",
        'y = GridSample<padding_mode = "border">(x, g)'),
    "unique elements of none": ("float[N, 1] x", "float[0] none = {}",
        "u = Unique(none)  y = Mul(x, u)"),
    "the last of three of found elements": (TEXT, f"int64 three = {{3}}, int64 end = {{-1}}, {ONE}",
        """f = Reshape(x, last)  b = Cast<to = 9>(f)  c = Compress<axis = 0>(f, b)
        q = SplitToSequence(c, three)  y = SequenceAt(q, end)"""),
    "rows before parts of two rows": (TEXT, f"int64 two = {{2}}, int64 at = {{-1}}, {ONE}",
        """q = SplitToSequence(x, two)  n = SequenceLength(q)  p = SequenceInsert(q, x, at)
        m = SequenceAt(p, n)  j = ConcatFromSequence<axis = 0>(p)  y = Concat<axis = 0>(m, j)"""),
    "pads to a multiple of each third row": (TEXT, "int64 from = {0}, int64 by = {3}, "
        f"int64[1] most = {{500}}, int64[1] four = {{4}}, {ONE}",
        """n = Shape<end = 1>(x)  u = Add(n, one)  v = Min(u, most)  e = Min(n, v)
        q = Squeeze(e, zero)  i = Range(from, q, by)  h = Gather(x, i)  k = Shape<end = 1>(h)
        m = Mod(k, four)  d = Sub(four, m)  r = Mod(d, four)
        p = Concat<axis = 0>(r, zero, zero, zero)  y = Pad(h, p)"""),
    "sums of found elements from the end": (TEXT, f"int64 axis = {{1}}, {ONE}",
        "i = NonZero(x)  y = CumSum<reverse = 1>(i, axis)"),
    "one or two found elements or two others": (TEXT,
        f"float[2] two = {{5.0, 6.0}}, int64[1] three = {{3}}, {ONE}",
        """f = Reshape(x, last)  b = Cast<to = 9>(f)  c = Compress<axis = 0>(f, b)  n = Shape(c)
        m = Mod(n, three)  d = Slice(c, zero, m)  g = Greater(d, two)  y = Where(g, two, d)"""),
    "found elements and the first of them": (TEXT, ONE,
        """f = Reshape(x, last)  b = Cast<to = 9>(f)  c = Compress<axis = 0>(f, b)  n = Shape(c)
        m = Min(n, one)  d = Slice(c, zero, m)  y = Sub(d, c)"""),
    "one found element as often as found": (TEXT, f"int64[1] two = {{2}}, {ONE}",
        """f = Reshape(x, last)  b = Cast<to = 9>(f)  c = Compress<axis = 0>(f, b)  n = Shape(c)
        m = Mod(n, two)  d = Slice(c, zero, m)  y = Expand(d, n)"""),
    "rows of a rounded number": (TEXT, f"float[1] third = {{0.3}}, {ONE}",
        """n = Shape<end = 1>(x)  f = Cast<to = 1>(n)  t = Mul(f, third)  c = Ceil(t)
        k = Cast<to = 7>(c)  m = Max(k, one)  s = Concat<axis = 0>(m, last)  y = Reshape(x, s)"""),
    "means of an empty picture": ("float[2, 3, N] x", ONE,
        "y = AveragePool<kernel_shape = [2], pads = [1, 1]>(x)"),
    "the least of no elements": ("float[M, N] x", ONE, "y = ArgMin<axis = 1, keepdims = 0>(x)"),
    "no columns of some rows": ("float[N, M] x", "int64[2, 1] i = {1, -2}",
        "y = GatherND(x, i)"),
    "a part that is computed before the size of the whole is known": ("float[N, M] x",
        "int64[1] flat = {-1}, int64[1] t = {0}, int64 z = {0}, int64 o = {1}, float[2] c = {1, 2}",
        "f = Reshape(x, flat)  a = Abs(f)  i = Cast<to = 7>(a)  s = ReduceSum<keepdims = 0>(i, t)"
        "r = Range(z, s, o)  q = Cast<to = 1>(r)  y = Concat<axis = 0>(a, q, c)"),
    "pads that an open size decides": ("float[1, 2, N] x",
        "float[2, 1, 2] w = {1, 2, 3, -4}",
        "p = LpPool<kernel_shape = [2], pads = [1, 1]>(x)"
        "c = Conv<auto_pad = \"SAME_UPPER\", group = 2, strides = [2]>(p, w)"
        "y, z = Split<axis = 2, num_outputs = 2>(c)"),
    "ArgMin of rows, sometimes of none": ("float[N] x", "int64[1] half = {2}",
        "n = Shape(x)  m = Div(n, half)  s = Concat<axis = 0>(m, m)  o = ConstantOfShape(s)"
        "y = ArgMin<axis = -2>(o)"),
    "a found extent below 0, and -1": ("float[N] x",
        "float none = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[1] rest = {-1}",
        "k = Greater(x, none)  f = Compress<axis = 0>(x, k)  n = Shape(f)  m = Mul(n, two)"
        "d = Sub(m, four)  s = Concat<axis = 0>(d, rest)  y = Reshape(n, s)"),
}  # fmt: skip
INPUTS = {"p": np.array([1, 1, 0, -2]), "s": np.array([3, -1])}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_equal_to_onnxruntime(name):
    inputs, constants, nodes = CASES[name]
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18]> g ({inputs}) => (float[K] y) <{constants}>'
        f"{{ {nodes} }}"
    )
    model.graph.output[0].type.Clear()
    session = runtime.InferenceSession(model.SerializeToString())
    network, rng = tvmrt.load(model, cache=False), np.random.default_rng(5)
    for size in (4, 1, 0, 3, 6):
        shape = [each.dim_value or size for each in model.graph.input[0].type.tensor_type.shape.dim]
        feeds = {"x": rng.integers(0, 3, shape).astype(np.float32)}
        feeds |= {each.name: INPUTS[each.name] for each in model.graph.input[1:]}
        try:
            expected = session.run(None, feeds)[0]
        except Exception:  # its exceptions share no base class
            if "GridSample" in nodes:  # samples of nothing are 0
                assert not network(feeds)["y"].any()
            elif "Sequence" not in nodes:  # it does not join empty sequences
                with pytest.raises(ValueError):
                    network(feeds)
            continue
        np.testing.assert_array_equal(network(feeds)["y"], expected)


@pytest.mark.slow
def test_memory_for_a_remainder_of_a_found_size():
    """The product of the remainder's terms with another size exceeds the memory."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (int64[A, B] y)'
        "<int64[1] three = {3}, int64[1] one = {1}> { i = NonZero(x)  n = Shape<start = 1>(i)"
        "m = Mod(n, three)  s = Concat<axis = 0>(m, one)  y = Expand(i, s) }"
    )
    found = tvmrt.load(model, cache=False)(np.ones(65537, np.float32))
    assert found.shape == (65537 % 3, 65537)


JOINED = {  # inputs, network, and sizes of the inputs
    "a mask of past and new elements": (
        "float[S] x, float[P] past, float[T] mask",
        "k = Concat<axis = 0>(past, x)  y = Add(k, mask)",
        ((3, 0, 3), (3, 4, 7), (3, 4, 1), (1, 0, 5), (3, 4, 8)),
    ),
    "two sums of sizes": (
        "float[S] x, float[P] past, float[A] u, float[B] v",
        "k = Concat<axis = 0>(past, x)  w = Concat<axis = 0>(u, v)  y = Add(k, w)",
        ((3, 0, 1, 2), (3, 4, 5, 2), (1, 9, 10, 0), (1, 0, 2, 3), (2, 2, 1, 1)),
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_a_size_that_equals_a_sum_of_sizes(name):
    inputs, nodes, sizes = JOINED[name]
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g ({inputs}) => (float[N] y) {{ {nodes} }}'
    )
    network = tvmrt.load(model, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    for of_run in sizes:
        feeds = {
            each.name: np.arange(size, dtype=np.float32)
            for each, size in zip(model.graph.input, of_run)
        }
        try:
            (expected,) = session.run(None, feeds)
        except Exception:
            with pytest.raises(ValueError, match="Add"):
                network(feeds)
            continue
        np.testing.assert_array_equal(network(feeds)["y"], expected)


def test_memory_for_pairs_of_found_elements():
    """A table of all pairs of elements would exceed the memory; a run finds a few."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (int64[A, B] y, bool[A] z)'
        "<int64[1] one = {1}, int64[1] two = {2}, int64[2] column = {-1, 1}> { i = NonZero(x)"
        "c = Reshape(i, column)  y = Sub(c, i)  e = Equal(c, i)  n = Cast<to = 7>(e)"
        "s = ReduceSum<keepdims = 0>(n, one)  z = Less(s, two) }"
    )
    x = np.zeros(100_000, np.float32)
    x[[3, 70_000, 99_999]] = 1
    session = runtime.InferenceSession(model.SerializeToString())
    for result, expected in zip(
        tvmrt.load(model, cache=False)(x), session.run(None, {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


FRAMES = {
    "rounded towards zero": ("int64[1] by = {384}", "a = Sub(n, first)  q = Div(a, by)"),
    "rounded in float32": ("float[1] by = {384.3}",
        "a = Cast<to = 1>(n)  d = Div(a, by)  q = Cast<to = 7>(d)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_pairs_of_the_frames_of_an_open_number_of_samples(name):
    """A bound of the frames that follows from that of all integers is none."""
    constant, nodes = FRAMES[name]
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (bool[A, B] y)'
        f"<int64[1] first = {{127}}, bool[1] yes = {{1}}, {constant}> {{ n = Shape(x)  {nodes}"
        "s = Concat<axis = 0>(q, q)  y = Expand(yes, s) }"
    )
    network, session = tvmrt.load(model), runtime.InferenceSession(model.SerializeToString())
    for size in (1600, 1, 126, 511, 5000):
        x = np.zeros(size, np.float32)
        np.testing.assert_array_equal(network(x), session.run(None, {"x": x})[0])


def test_sizes_that_a_run_has_found_keep_their_memory(monkeypatch):
    """Each later phase of a plan reads the sizes of earlier ones."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (float[A] y)'
        "<int64[1] zero = {0}, float one = {1}, int64 axis = {0}> { s = ReduceSum(x)"
        "k = Cast<to = 7>(s)  o = ConstantOfShape(k)  a = Add(o, one)  c = CumSum(a, axis)"
        "t = ReduceSum(c)  l = Cast<to = 7>(t)  p = ConstantOfShape(l)  b = Add(p, one)"
        "y = CumSum(b, axis) }"
    )
    programs, plan_of_runs = [], plan.plan_of_runs
    monkeypatch.setattr(
        plan, "plan_of_runs", lambda p, *rest: [plan_of_runs(p, *rest), programs.append(p)][0]
    )
    tvmrt.load(model, cache=False)
    (program,) = [each for each in programs if each.run_plan is not None][:1]
    live = lifetimes(program)
    assert len(program.run_plan.found) == 2
    for size in program.run_plan.found:
        assert live[size.access.buffer][1] == len(program.steps)


@pytest.mark.slow
def test_products_that_cancel_may_exceed_an_int():
    """The last four columns, whose number is a difference of products of the sizes."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[L, N] x) => (float[A, B, C] y)'
        "<int64[1] one = {1}, int64[1] four = {4}, int64[1] end = {2147483648}, uint8 zero = {3},"
        "int64[3] row = {1, 1, -1}, uint8[2, 1, 2] w = {0, 5, 0, 4}> { s = Shape(x)"
        "n = Gather(s, one)  b = Sub(n, four)  t = Slice(x, b, end, one)  u = Cast<to = 2>(t)"
        "r = Reshape(u, row)  c = ConvInteger(r, w, zero)  y = Cast<to = 1>(c) }"
    )
    network, session = tvmrt.load(model), runtime.InferenceSession(model.SerializeToString())
    for shape in ((2, 4), (8, 1500), (100, 1500)):
        x = np.random.default_rng(3).integers(0, 9, shape).astype(np.float32)
        np.testing.assert_array_equal(network(x), session.run(None, {"x": x})[0])


RANGE = """<ir_version: 9, opset_import: ["" : 18]> g (int64 n) => (int64[k] y) {
    zero = Constant<value_int=0>() one = Constant<value_int=1>() y = Range(zero, n, one) }"""


def test_a_run_without_open_sizes_of_inputs_may_need_too_much_memory():
    network = tvmrt.load(onnx.parser.parse_model(RANGE), cache=False)
    with pytest.raises(ValueError, match=r"^a run needs \d+ bytes for tensors, and the limit is"):
        network(np.array(1 << 40))
    np.testing.assert_array_equal(network(np.array(3)), range(3))


@pytest.mark.slow
def test_products_of_sizes_are_numbers_of_64_bits():
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N, 1] x) => (int64[K] y)'
        "<int64 zero = {0}, int64[1] five = {5}> { s = Shape(x)  n = Gather(s, zero)  a = Mul(n, s)"
        "b = Mul(a, s)  d = Sub(b, a)  e = Div(d, five)  y = Concat<axis = 0>(a, b, d, e) }"
    )
    session = runtime.InferenceSession(model.SerializeToString())
    for size in (65537, 46341, 3):
        x = np.zeros((size, 1), np.float32)
        np.testing.assert_array_equal(tvmrt.load(model)(x), session.run(None, {"x": x})[0])
