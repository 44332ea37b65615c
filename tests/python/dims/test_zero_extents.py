"""Runs with an extent of 0, compared with the ONNX reference evaluator.

With ``allowzero=0`` a 0 in the shape of a Reshape copies the input's extent, also if the 0 is
computed. Other operators give empty results, or sums over no elements.
"""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from any_size_case import loaded, results
from dynamic_networks import FLOAT, INT64, Draft
from onnx.reference import ReferenceEvaluator

import tvmrt

onnxruntime = pytest.importorskip("onnxruntime")

# Input and shape of a Reshape: n and m are extents of inputs, 0 and -1 as in the standard.
FORMS = (
    ((2, 4, "n"), (-1, "n"), 0),
    ((2, 4, "n"), ("n", -1), 0),
    ((2, 4, "n"), (0, "n", -1), 0),
    ((2, 4, "n"), (-1, "n", 4), 0),
    ((2, "n", 4), (-1, 4), 0),
    ((2, "n", 4), (0, -1), 0),
    ((2, "n", 4), (0, 0, -1), 0),
    ((2, "n", 4), (2, "n", -1), 0),
    ((2, "n", 4), ("n", -1, 2), 0),
    ((2, "n", 4), ("n", 8), 0),
    ((2, "n", 4), (8, "n"), 0),
    ((2, "n", 4), (8, "n"), 1),
    ((2, "n", 4), (4, 0, 2), 0),
    ((2, "n", "m"), (-1, "n"), 0),
    ((2, "n", "m"), ("m", -1), 0),
    ((2, "n", "m"), ("n", "m", -1), 0),
    ((2, "n", "m"), ("m", 2, "n"), 0),
    ((2, "n", "m"), ("m", "n", 2), 0),
    ((3, "n", "n"), ("n", 3, "n"), 0),
    (("n", 3), (3, "n"), 0),
    (("n", "m"), ("m", "n"), 0),
    (("n", "m"), (1, "m", -1), 0),
)
SIZES = tuple(itertools.product((0, 1, 3), (0, 5)))


def shape_of(draft, extents):
    """Return a shape as exporters compute it: Shape, Gather, Unsqueeze and Concat."""
    places = {"n": 0, "m": 1}
    parts = [
        draft.constant([n], np.int64) if isinstance(n, int) else draft.extent("sizes", places[n])
        for n in extents
    ]
    return draft.node("Concat", parts, axis=0)


def network(forms):
    draft = Draft()
    inputs = {"sizes": (FLOAT, ["n", "m"])}
    outputs = {}
    for k, (own, shape, allowzero) in enumerate(forms):
        inputs[f"x{k}"] = (FLOAT, list(own))
        y = draft.node("Reshape", [f"x{k}", shape_of(draft, shape)], allowzero=allowzero)
        outputs[y] = FLOAT
    return draft.model(inputs, outputs)


def feeds_of(forms, n, m):
    sizes = {"n": n, "m": m}
    feeds = {"sizes": np.zeros((n, m), np.float32)}
    for k, (own, _, _) in enumerate(forms):
        shape = [sizes.get(each, each) for each in own]
        feeds[f"x{k}"] = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return feeds


def reference_result(form, n, m):
    """Return the evaluator's result; None if the standard refuses the run."""
    feeds = feeds_of([form], n, m)
    try:
        return ReferenceEvaluator(network([form])).run(None, feeds)[0]
    except (ValueError, IndexError):
        return None


def usable(form):
    """Return whether all sizes but 0 are valid, so that the network compiles."""
    return all(reference_result(form, n, m) is not None for n, m in SIZES if n and m)


def check(forms, folder):
    library = tvmrt.compile(network(forms), dims={"n": (0, 3), "m": (0, 5)})
    executor = loaded(library, folder, "graph")
    compared = 0
    for n, m in SIZES:
        found = results(executor, feeds_of(forms, n, m))
        for form, y in zip(forms, found):
            expected = reference_result(form, n, m)
            if expected is not None:
                assert y.shape == expected.shape, (form, n, m)
                np.testing.assert_array_equal(y, expected)
                compared += 1
    return compared


def test_a_zero_of_a_run_copies_the_inputs_extent(tmp_path):
    assert check(FORMS[:3], tmp_path) > 10


@pytest.mark.slow
def test_zeros_of_all_forms(tmp_path):
    assert check([form for form in FORMS if usable(form)], tmp_path) > 70


NONE = np.zeros((0,), np.int64)
REDUCTIONS = "Mean Max Min Prod L1 L2 SumSquare LogSum LogSumExp".split()
# Operator, shapes of inputs, constants after them, attributes. If the evaluator fails without
# elements, onnxruntime is the reference.
OPERATORS = (
    ("Concat", (("n", 3), ("m", 3)), (), {"axis": 0}),
    ("Concat", (("n", "m"), ("n", 2)), (), {"axis": 1}),
    ("Slice", (("n", 4),), ([0], [2], [0]), {}),
    ("Slice", (("n", 4),), ([2], [1], [1]), {}),
    ("Split", (("n", 4),), ([1, 3],), {"axis": 1, "outputs": 2}),
    ("ReduceSum", ((3, "n", 2),), ([1],), {}),
    *((f"Reduce{name}", ((3, "n", 2),), (), {"axes": [1]}) for name in REDUCTIONS),
    *((f"Reduce{name}", ((3, "n"),), (), {"keepdims": 0}) for name in REDUCTIONS),
    ("MatMul", ((3, "n"), ("n", 4)), (), {}),
    ("MatMul", (("n", 3), (3, 4)), (), {}),
    ("MatMul", (("n", 2, 3), ("n", 3, 4)), (), {}),
    ("Gemm", ((3, "n"), ("n", 4), (4,)), (), {}),
    ("Einsum", ((2, "n"), ("n", 3)), (), {"equation": "ij,jk->ik"}),
    ("Conv", (("n", 3, 6, 6), (4, 3, 3, 3)), (), {}),
    ("MaxPool", (("n", 3, 6, 6),), (), {"kernel_shape": [2, 2]}),
    ("GlobalAveragePool", (("n", 3, 6, 6),), (), {}),
    ("BatchNormalization", (("n", 2, 3), *[(2,)] * 4), (), {}),
    ("LayerNormalization", (("n", 8), (8,)), (), {}),
    ("LpNormalization", (("n", 3),), (), {"axis": 0}),
    ("Softmax", ((2, "n"),), (), {"axis": 1}),
    ("Expand", (("n", 1),), ([1, 4],), {}),
    ("Tile", (("n", 2),), ([0, 3],), {}),
    ("Tile", (("n", 2),), ([2, 3],), {}),
    ("Gather", (("n", 2),), ([1, 0],), {"axis": 1}),
    ("Gather", (("n", 2),), (NONE,), {"axis": 1}),
    ("GatherND", (("n", 3),), (NONE.reshape(0, 1),), {}),
    ("TopK", ((3, 4),), ([0],), {"axis": 1, "outputs": 2}),
    ("TopK", (("n", 4),), ([2],), {"axis": 1, "outputs": 2}),
    ("NonZero", (("n", 2),), (), {}),
    ("ArgMax", (("n", 3),), (), {"axis": 1}),
    ("CumSum", (("n", 3),), (0,), {}),
    ("Transpose", (("n", 2, "m"),), (), {"perm": [2, 0, 1]}),
    ("Flatten", (("n", 2, "m"),), (), {"axis": 1}),
    ("Flatten", (("n", 2, "m"),), (), {"axis": 2}),
    ("Squeeze", (("n", 1, 2),), ([1],), {}),
    ("Add", (("n", 1), (1, "m")), (), {}),
    ("Trilu", (("n", "m"),), (), {}),
    ("LSTM", (("n", 2, 3), (1, 8, 3), (1, 8, 2)), (), {"hidden_size": 2, "outputs": 2}),
)
INTEGERS = {"ArgMax": (0,), "NonZero": (0,), "TopK": (1,)}


def operators(cases):
    """Return a network of independent operators, and the shape of each input."""
    draft, inputs, outputs = Draft(), {}, {}
    for k, (op, shapes, constants, attrs) in enumerate(cases):
        names = [f"x{k}_{i}" for i in range(len(shapes))]
        inputs.update({name: (FLOAT, list(shape)) for name, shape in zip(names, shapes)})
        names += [draft.constant(each, np.int64) for each in constants]
        kept = {name: value for name, value in attrs.items() if name != "outputs"}
        found = draft.node(op, names, attrs.get("outputs", 1), **kept)
        for i, name in enumerate([found] if isinstance(found, str) else found):
            outputs[name] = INT64 if i in INTEGERS.get(op, ()) else FLOAT
    return draft.model(inputs, outputs), {name: shape for name, (_, shape) in inputs.items()}


def operands(shapes, n, m):
    rng, sizes = np.random.default_rng(n + 7 * m), {"n": n, "m": m}
    return {
        name: rng.uniform(0.1, 1, [sizes.get(each, each) for each in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }


def judged_operator(case, n, m):
    model, shapes = operators([case])
    try:
        return ReferenceEvaluator(model).run(None, operands(shapes, n, m))
    except Exception:  # some operators raise an error without elements
        session = onnxruntime.InferenceSession(model.SerializeToString())
        return session.run(None, operands(shapes, n, m))


# An exporter's GroupNorm after a window: the shape of its last Reshape is that of the window's
# result, whose extent may be 0 as far as the compiler knows.
GROUP_NORM = """
    <ir_version: 9, opset_import: ["" : 18]>
    g (float[batch,2,samples] x) => (float[batch,2,frames] y) {
        w = AveragePool<kernel_shape=[127], strides=[64]>(x)
        f = Constant<value_ints=[0,1,-1]>() flat = Reshape(w, f)
        one = Constant<value_floats=[1.0]>() none = Constant<value_floats=[0.0]>()
        n = InstanceNormalization(flat, one, none)
        s = Shape(w) back = Reshape(n, s)
        p = MaxPool<kernel_shape=[7], strides=[3]>(back)
        size = Shape<start=2, end=3>(x) k = Constant<value_ints=[-511]>()
        by = Constant<value_ints=[192]>() m = Add(size, k) d = Div(m, by)
        i = Constant<value_int=0>() l = Squeeze(d) e = Constant<value_int=1>() t = Add(l, e)
        r = Range(i, t, e) c = Cast<to=1>(r)
        y = Add(p, c) }"""


def test_a_reshape_to_an_extent_that_the_input_is_a_multiple_of():
    model = onnx.parser.parse_model(GROUP_NORM)
    network = tvmrt.load(model, cache=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch, samples in ((1, 511), (3, 900), (2, 4001)):
        x = np.random.default_rng(0).uniform(-1, 1, (batch, 2, samples)).astype(np.float32)
        (expected,) = session.run(None, {"x": x})
        np.testing.assert_allclose(network({"x": x})["y"], expected, 1e-4, 1e-4)


@pytest.mark.slow
def test_operators_without_elements(tmp_path):
    model, _ = operators(OPERATORS)
    executor = loaded(tvmrt.compile(model, dims={"n": (0, 3), "m": (0, 5)}), tmp_path, "graph")
    for n, m in SIZES:
        inputs = {
            f"x{k}_{i}": value
            for k, case in enumerate(OPERATORS)
            for i, value in enumerate(operands(operators([case])[1], n, m).values())
        }
        found = iter(results(executor, inputs))
        for case in OPERATORS:
            for expected in judged_operator(case, n, m):
                y = next(found)
                assert (y.shape, y.dtype) == (expected.shape, expected.dtype), (case, n, m)
                np.testing.assert_allclose(y, expected, 1e-4, 1e-5, err_msg=f"{case} {n} {m}")


IS_EMPTY = """<ir_version: 9, opset_import: ["" : 18]> g (float[n, m] x) => (bool y) {
    s = Size(x) f = Cast<to=1>(s) y = Cast<to=9>(f) }"""


def test_a_number_of_elements_as_a_condition():
    """Compared as a float, whose bounds no type gives."""
    network = tvmrt.load(onnx.parser.parse_model(IS_EMPTY), cache=False)
    for shape in ((2, 3), (0, 3), (2, 0), (0, 0)):
        assert network(np.zeros(shape, np.float32)) == (0 not in shape), shape


PADDED = """<ir_version: 9, opset_import: ["" : 19]>
    g (float[n, m] x) => (int64[2] sizes, float[b, a] y) {
        pads = Constant<value_ints=[2, 0, 1, 0]>() one = Constant<value_float=1.0>()
        padded = Pad<mode="%s">(x, pads) sizes = Shape(padded) y = Mul(x, one) }"""


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_padding_of_no_elements_whose_size_alone_is_used(mode):
    """Only constants can fill it; the other modes are refused, as onnxruntime does."""
    model = onnx.parser.parse_model(PADDED % mode)
    network = tvmrt.load(model, cache=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for n in (3, 0):
        feeds = {"x": np.zeros((n, 2), np.float32)}
        if n or mode == "constant":
            np.testing.assert_array_equal(network(feeds)["sizes"], session.run(None, feeds)[0])
            continue
        with pytest.raises(Exception, match=f"Cannot use '{mode}' mode"):
            session.run(None, feeds)
        with pytest.raises(ValueError, match="dimension n has 0 elements, expected 1 or more"):
            network(feeds)
