"""Custom operators in corner cases: no elements, no inputs, threads, versions in functions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import ml_dtypes
import numpy as np
import pytest
from custom_case import compiled, example, onnx_model
from onnx import TensorProto, helper

from tvmrt.cli.operator_bodies import check_operator
from tvmrt.compiler.custom.composed import MAX_DEPTH
from tvmrt.custom import C, GraphBuilder, Kernel, OpenCL, Tensor, UnsupportedNode, composed
from tvmrt.error import TVMError

TIMES = """
static int32_t times(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
  (void)t;
  for (int64_t i = 0; i < s->size; ++i) y[i] = %d * x[i];
  return 0;
}
"""


def times(factor: int, **fields) -> Kernel:
    """Return an operator that multiplies, with a C body only."""
    given = {"name": "Times", "domain": "d", **fields}
    return Kernel(
        **given,
        inputs=[Tensor("x", "float32")],
        outputs=[Tensor("y", "float32")],
        c=C(TIMES % factor, "times"),
    )


def test_empty_tensors_need_no_sizes(tmp_path):
    x = {"x": np.zeros((0, 3), np.float32)}
    node = helper.make_node("HardSwish", ["x"], ["y"], domain="example.swish")
    model = onnx_model([node], x, {"y": "f4"})
    own = [example("hard_swish").hard_swish]
    (y,) = compiled(model, x, tmp_path, operators=own)
    assert y.shape == (0, 3)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3)], ids=str)
def test_ranks_and_extents_at_the_edge(tmp_path, shape):
    x = {"x": np.full(shape, 2, np.float32)}
    model = onnx_model([helper.make_node("Times", ["x"], ["y"], domain="d")], x, {"y": "f4"})
    (y,) = compiled(model, x, tmp_path, operators=[times(3)])
    np.testing.assert_array_equal(y, 3 * x["x"])


COUNT = """
static int32_t count(int64_t *y, const tvmrt_shape *s, uint32_t first) {
  for (int64_t i = 0; i < s->size; ++i) y[i] = first + i;
  return 0;
}
"""


@pytest.mark.parametrize("with_reference", [True, False], ids=["folded", "at-run-time"])
def test_operator_without_inputs(tmp_path, with_reference):
    counts = Kernel(
        "Count", "d",
        inputs=[], outputs=[Tensor("y", "int64")], scalars={"first": ("uint", 1)},
        shape=lambda *, first: [5], c=C(COUNT, "count"),
        reference=(lambda *, first: np.arange(5) + first) if with_reference else None,
    )  # fmt: skip
    g = GraphBuilder()
    x = g.input("x", (5,), "int64")
    g.output("y", g.Add(x, g.add(counts, first=3)))
    (y,) = compiled(g, {"x": np.ones(5, np.int64)}, tmp_path)
    np.testing.assert_array_equal(y, [4, 5, 6, 7, 8])
    if with_reference:
        rows = check_operator(counts)
        assert len(rows) == 2
        for row in rows:
            np.testing.assert_array_equal(row.found, row.right)


def test_omitted_output_of_a_node(tmp_path):
    body = """
    static int32_t both(const float *x, const tvmrt_shape *xs, float *y, const tvmrt_shape *ys,
                        int64_t *n, const tvmrt_shape *ns) {
      (void)ys;
      (void)ns;
      for (int64_t i = 0; i < xs->size; ++i) y[i] = x[i];
      n[0] = xs->size;
      return 0;
    }
    """
    both = Kernel(
        "Both", "d",
        inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32"), Tensor("n", "int64")],
        shape=lambda x: [x.shape, (1,)], c=C(body, "both"),
    )  # fmt: skip
    x = {"x": np.ones(3, np.float32)}
    model = onnx_model([helper.make_node("Both", ["x"], ["", "n"], domain="d")], x, {"n": "i8"})
    (n,) = compiled(model, x, tmp_path, operators=[both])
    np.testing.assert_array_equal(n, [3])


def test_one_tensor_as_two_operands_of_different_layouts(tmp_path):
    body = """
    static int32_t differ(const float *a, const tvmrt_shape *as, const float *b,
                          const tvmrt_shape *bs, float *y, const tvmrt_shape *ys) {
      const int64_t channels = ys->dim[1], pixels = ys->dim[2] * ys->dim[3];
      (void)as;
      (void)bs;
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t p = 0; p < pixels; ++p) {
          y[c * pixels + p] = a[p * channels + c] - b[c * pixels + p];
        }
      }
      return 0;
    }
    """
    differ = Kernel(
        "Differ", "d",
        inputs=[Tensor("a", "float32", ("NHWC",)), Tensor("b", "float32")],
        outputs=[Tensor("y", "float32")], c=C(body, "differ"),
    )  # fmt: skip
    g = GraphBuilder()
    x = g.Relu(g.input("x", (1, 3, 4, 5)))
    g.output("y", g.add(differ, x, x))
    given = np.random.default_rng(0).random((1, 3, 4, 5), np.float32)
    (y,) = compiled(g, {"x": given}, tmp_path)
    np.testing.assert_array_equal(y, np.zeros_like(given))


def test_override_applies_to_constants(tmp_path):
    x = {"x": np.ones(4, np.float32)}
    nodes = [helper.make_node("Relu", ["w"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    model = onnx_model(nodes, x, {"y": "f4"}, {"w": np.ones(4, np.float32)})
    own = times(7, name="Relu", domain="", overrides=True)
    (y,) = compiled(model, x, tmp_path, operators=[own])
    np.testing.assert_array_equal(y, np.full(4, 8))


def test_threads_compile_with_operators_of_one_name(tmp_path):
    x = {"x": np.full(4, -1, np.float32)}
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], x, {"y": "f4"})

    def one(factor: int) -> float:
        own = [times(factor, name="Relu", domain="", overrides=True)] if factor else []
        folder = tmp_path / str(factor)
        folder.mkdir()
        return compiled(model, x, folder, operators=own)[0][0]

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(one, [5, 0, 7])) == [-5, 0, -7]


def test_threads_compose_at_the_same_time():
    count = MAX_DEPTH + 2
    together = Barrier(count)

    @composed("Meet", domain="d")
    def meet(g, x):
        together.wait(timeout=300)
        return g.Relu(x)

    def one(_: int) -> int:
        g = GraphBuilder()
        g.output("y", g.add(meet, g.input("x", (2,))))
        return len(g.graph().nodes)

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(one, range(count))) == [1] * count


@pytest.mark.parametrize("outside", [None, 1], ids=["unknown-to-the-model", "older-in-the-model"])
def test_function_means_the_version_that_it_imports(tmp_path, outside):
    inner = helper.make_node("Times", ["a"], ["b"], domain="d")
    function = helper.make_function(
        "f", "Wrap", ["a"], ["b"], [inner], [helper.make_opsetid("d", 3)]
    )
    x = {"x": np.ones(4, np.float32)}
    versions = {} if outside is None else {"d": outside}
    node = helper.make_node("Wrap", ["x"], ["y"], domain="f")
    model = onnx_model([node], x, {"y": "f4"}, versions=versions)
    model.functions.append(function)
    (y,) = compiled(model, x, tmp_path, operators=[times(10), times(30, version=3)])
    np.testing.assert_array_equal(y, np.full(4, 30))


def test_two_versions_of_an_operator_in_one_graph(tmp_path):
    inner = helper.make_node("Times", ["a"], ["b"], domain="d")
    newer = [helper.make_opsetid("d", 3)]
    function = helper.make_function("f", "Wrap", ["a"], ["b"], [inner], newer)
    x = {"x": np.ones(4, np.float32)}
    nodes = [
        helper.make_node("Times", ["x"], ["t"], domain="d"),
        helper.make_node("Wrap", ["t"], ["y"], domain="f"),
    ]
    model = onnx_model(nodes, x, {"y": "f4"})
    model.functions.append(function)
    (y,) = compiled(model, x, tmp_path, operators=[times(2), times(5, version=3)])
    np.testing.assert_array_equal(y, np.full(4, 10))


COPY = """
static int32_t copy(const uint16_t *x, const tvmrt_shape *s, uint16_t *y, const tvmrt_shape *t) {
  (void)t;
  for (int64_t i = 0; i < s->size; ++i) y[i] = x[i];
  return 0;
}
"""


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_composition_of_kernels_for_half_precision(tmp_path, dtype):
    name = np.dtype(dtype).name
    copies = Kernel(
        "Copy", "d",
        inputs=[Tensor("x", name)], outputs=[Tensor("y", name)], c=C(COPY, "copy"),
    )  # fmt: skip

    @composed("Twice", domain="d")
    def twice(g, x):
        return g.Mul(g.add(copies, g.add(copies, x)), 2.0)

    x = {"x": np.arange(4).astype(dtype)}
    model = onnx_model([helper.make_node("Twice", ["x"], ["y"], domain="d")], x, {"y": dtype})
    (y,) = compiled(model, x, tmp_path, operators=[twice])
    np.testing.assert_array_equal(y.astype(np.float32), [0, 2, 4, 6])


def test_composition_of_built_in_operators_is_in_float32_for_devices():
    @composed("Double", domain="d")
    def double(g, x):
        return g.Mul(x, 2.0)

    g = GraphBuilder()
    g.output("y", g.add(double, g.input("x", (4,), "float16")))
    (node,) = (n for n in g.graph().nodes if n.op == "composed")
    assert [v.dtype.name for v in node.inputs] == ["float32"]


def test_scalars_may_have_names_of_the_builders_own_parameters():
    keys = ["self", "operator", "domain", "doc_string", "field", "function"]
    kernel = Kernel(
        "Odd", "d",
        inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")],
        scalars=dict.fromkeys(keys, "int"), shape=lambda x, **scalars: (sum(scalars.values()),),
        reference=lambda x, **scalars: np.zeros(sum(scalars.values())),
        opencl=OpenCL("__kernel void f() {}", "f", global_size=lambda *t, **scalars: [1]),
    )  # fmt: skip
    g = GraphBuilder()
    y = g.add(kernel, g.input("x", (4,)), **{key: i for i, key in enumerate(keys)})
    assert y.shape == (15,)


def test_names_that_are_not_c_identifiers(tmp_path):
    body = """
    static int32_t add(const float *a, const tvmrt_shape *as, const float *b, const tvmrt_shape *bs,
                       float *y, const tvmrt_shape *ys, float more) {
      (void)as;
      (void)bs;
      for (int64_t i = 0; i < ys->size; ++i) y[i] = a[i] + b[i] + more;
      return 0;
    }
    """
    domain = 'of "a\\ vendor */\n'
    odd = Kernel(
        "Odd", domain,
        inputs=[Tensor("float", "float32"), Tensor("in_shape", "float32")],
        outputs=[Tensor("return", "float32")], scalars={"while": "float"}, c=C(body, "add"),
    )  # fmt: skip
    arrays = {name: np.ones(3, np.float32) for name in ("a b", "*/ int")}
    node = helper.make_node("Odd", list(arrays), ['"y" \\'], 'n */ "x"', domain=domain)
    node.attribute.append(helper.make_attribute("while", 2.0))
    (y,) = compiled(onnx_model([node], arrays, {'"y" \\': "f4"}), arrays, tmp_path, operators=[odd])
    np.testing.assert_array_equal(y, [4, 4, 4])


def test_limits_of_scalars_reach_the_body(tmp_path):
    body = """
    #include <math.h>
    static int32_t look(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t,
                        int32_t i, uint32_t u, float low, float nan, uint16_t h) {
      (void)x;
      (void)s;
      (void)t;
      y[0] = i == INT32_MIN;
      y[1] = u == UINT32_MAX;
      y[2] = isinf(low) && low < 0;
      y[3] = isnan(nan) ? 1.0f : 0.0f;
      y[4] = h == 0xfc00;
      return 0;
    }
    """
    look = Kernel(
        "Look", "d",
        inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")], c=C(body, "look"),
        scalars={"i": "int", "u": "uint", "low": "float", "nan": "float", "h": "half"},
    )  # fmt: skip
    g = GraphBuilder()
    given = {"i": -(1 << 31), "u": (1 << 32) - 1, "low": -np.inf, "nan": np.nan, "h": -np.inf}
    x = g.input("x", (5,))
    g.output("y", g.add(look, x, **given))
    (y,) = compiled(g, {"x": np.zeros(5, np.float32)}, tmp_path)
    np.testing.assert_array_equal(y, np.ones(5))


def test_attributes_are_those_of_onnx():
    g = GraphBuilder()
    with pytest.raises(ValueError, match="node Cast_1: attribute to: <object"):
        g.Cast(g.input("x", (4,)), to=object())
    assert g.Cast(g.input("z", (4,)), to=TensorProto.INT8).dtype.name == "int8"


def test_constants_of_a_node_that_the_override_declines():
    def declines(attrs, inputs):
        raise UnsupportedNode("not this one")

    own = times(7, name="NonZero", domain="", overrides=True, attributes=declines)
    g = GraphBuilder(operators=[own])
    found = g.NonZero(np.array([0, 3, 4], np.float32))
    np.testing.assert_array_equal(found.data, [[1, 2]])


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ('TVMAPISetLastError("no luck today");', "^no luck today$"),
        ("", r"^(node|network) '.*' failed without an error text\.$"),
    ],
    ids=["with-a-reason", "without"],
)
@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_body_that_fails(tmp_path, statement, sentence, executor):
    body = """
    static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
      (void)x, (void)s, (void)y, (void)t;
      STATEMENT
      return -1;
    }
    """.replace("STATEMENT", statement)
    fails = Kernel(
        "Fails", "d",
        inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")], c=C(body, "f"),
    )  # fmt: skip
    g = GraphBuilder()
    g.output("y", g.add(fails, g.input("x", (4,))))
    x = {"x": np.zeros(4, np.float32)}
    with ThreadPoolExecutor(1) as pool:  # a new thread has no error of another call
        running = pool.submit(compiled, g, x, tmp_path, executor=executor)
        with pytest.raises(TVMError, match=sentence):
            running.result()
