"""Kernels from one declaration: in imported and built networks, for every element type."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from custom_case import compiled, example, kernel, onnx_model, run, times
from onnx import helper

import tvmrt
from tvmrt.custom import C, GraphBuilder, Tensor, UnsupportedNode
from tvmrt.error import TVMError

SCALARS = {"scale": 0.5, "tail": -1.0, "out_scale": 2.0, "out_zp": 3.0}
NUMBERS = np.linspace(-20, 20, 256).reshape(2, 128)  # where hard-swish is not linear
TYPES = {
    "float32": (NUMBERS.astype(np.float32), 1e-5, 1e-5),
    "bfloat16": (NUMBERS.astype(ml_dtypes.bfloat16), 2**-8, 0),
    "uint8": (np.arange(256, dtype=np.uint8), 0, 0.501),
}


def swish(x, scale, tail, out_scale, out_zp):
    """Compute the definition in double precision."""
    v = x.astype(np.float64) * scale + tail
    return v * np.clip(v / 6 + 0.5, 0, 1) * out_scale + out_zp


def hard_swish_model(x: np.ndarray):
    node = helper.make_node("HardSwish", ["x"], ["y"], "act", domain="example.swish", **SCALARS)
    return onnx_model([node], {"x": x}, {"y": x.dtype})


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("dtype", TYPES)
def test_node_of_a_foreign_domain_is_the_declared_operator(tmp_path, dtype, executor):
    x, rtol, atol = TYPES[dtype]
    operators = [example("hard_swish").hard_swish]
    (y,) = compiled(hard_swish_model(x), {"x": x}, tmp_path, operators=operators, executor=executor)
    assert y.dtype == x.dtype
    expected = swish(x, **SCALARS)
    if dtype == "uint8":
        expected = np.clip(expected, 0, 255)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol, atol)


def test_half_precision_reaches_the_body_unconverted():
    model = hard_swish_model(TYPES["bfloat16"][0])
    library = tvmrt.compile(model, operators=[example("hard_swish").hard_swish])
    (step,) = library.program.steps
    assert "hswish_bf16(" in library.sources.functions[0].text
    assert [a.dtype.name for a in step.reads] == ["bfloat16"]
    assert [o.op for o in library.summary.operators] == ["example.swish::HardSwish"]


def test_operator_is_registered_with_a_graph_at_its_first_use():
    hard_swish = example("hard_swish").hard_swish
    g, other = GraphBuilder("one"), GraphBuilder("two")
    v = g.input("x", (4,))
    assert g.graph().operators == {}
    g.add(hard_swish, v)
    assert g.graph().operators == {"example.swish::HardSwish": hard_swish}
    assert other.graph().operators == {}


def test_kernel_ids_count_down_and_are_unique():
    ids = [kernel().kernel_id for _ in range(3)]
    assert ids[0] < 0
    assert ids == [ids[0], ids[0] - 1, ids[0] - 2]


def test_declaration_without_kernels_is_shorter_than_60_lines():
    module = example("hard_swish")
    text = inspect.getsource(module)
    for body in (module.C_BODY, module.OPENCL_BODY):
        assert body in text
        text = text.replace(body, "")
    assert len(text.splitlines()) < 60


SCALED = r"""
#include <math.h>
static int32_t fill(const float *x, const tvmrt_shape *xs, float *y, const tvmrt_shape *ys,
                    int32_t i, uint32_t u, float f, int32_t b, uint16_t h, float low, float nan) {
  (void)x, (void)xs, (void)ys;
  const float found[] = {i, u, f, b, h, low, isnan(nan) ? 1 : 0};
  for (int n = 0; n < 7; ++n) y[n] = found[n];
  return 0;
}
"""


def test_scalars_arrive_in_their_declared_types(tmp_path):
    """Also their extreme values."""
    types = {"i": "int", "u": "uint", "f": "float", "b": "bool", "h": "half"}
    own = kernel(scalars={**types, "low": "float", "nan": "float"}, c=C(SCALED, "fill"))
    given = {"i": -(1 << 31), "u": (1 << 32) - 1, "f": 0.1, "b": True, "h": 1.5}
    g = GraphBuilder()
    g.output("y", g.add(own, g.input("x", (7,)), **given, low=-np.inf, nan=np.nan))
    (y,) = compiled(g, {"x": np.zeros(7, np.float32)}, tmp_path)
    half = np.float16(1.5).view(np.uint16)
    expected = np.array([-(2**31), 2**32 - 1, 0.1, 1, half, -np.inf, 1], np.float32)
    np.testing.assert_array_equal(y, expected)


OPTIONAL = r"""
static int32_t plus(const float *x, const tvmrt_shape *xs, const float *b, const tvmrt_shape *bs,
                    float *y, const tvmrt_shape *ys) {
  (void)ys;
  for (int64_t i = 0; i < xs->size; ++i) y[i] = x[i] + (b ? b[i % bs->size] : 100.0f);
  return 0;
}
"""


@pytest.mark.parametrize("bias", ["constant", "input", "left out"])
def test_optional_and_constant_inputs(tmp_path, bias):
    inputs = [Tensor("x", "float32"), Tensor("b", "float32", optional=True)]
    x, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.float32)
    g = GraphBuilder()
    v = g.input("x", x.shape)
    more = {"constant": [b], "input": [g.input("b", b.shape)], "left out": []}[bias]
    g.output("y", g.add(kernel(inputs=inputs, c=C(OPTIONAL, "plus")), v, *more))
    (y,) = compiled(g, {"x": x, "b": b}, tmp_path)
    np.testing.assert_array_equal(y, x + (100 if bias == "left out" else b))


def test_reference_folds_nodes_of_constants():
    g = GraphBuilder()
    g.output("y", g.add(example("hard_swish").hard_swish, np.array([6.0], np.float32)))
    assert [s.group.root.op for s in tvmrt.compile(g).program.steps] == ["identity"]


def test_override_applies_to_its_graph_only(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(2)
    x, w, b, d = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((1, 3, 9, 8), (4, 3, 3, 3), (4,), (4, 1, 3, 3))
    )
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "plain", strides=[2, 2], pads=[1] * 4),
        helper.make_node("Conv", ["c", "d"], ["y"], "depthwise", group=4),
    ]
    model = onnx_model(nodes, {"x": x}, {"y": "f4"}, {"w": w, "b": b, "d": d})
    changed = tvmrt.compile(model, operators=[example("direct_conv").direct_conv])
    plain = tvmrt.compile(model)
    ops = [[s.group.root.op for s in net.program.steps] for net in (changed, plain)]
    assert ops[0].count("custom") == 1
    assert ops[0].count("conv") == 1  # the operator declines the depthwise convolution
    assert "custom" not in ops[1]
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(run(changed, {"x": x}, tmp_path)[0], expected, 1e-4, 1e-5)


def decline(attributes, inputs):
    raise UnsupportedNode("not this one")


OVERRIDES = {
    "older": ({"version": 14}, 7),
    "newer than the network": ({"version": 18}, 1),
    "declining": ({"attributes": decline}, 1),
}


@pytest.mark.parametrize("case", OVERRIDES)
def test_override_applies_to_constants_and_from_its_opset_on(tmp_path, case):
    """The network is of opset 17."""
    changes, factor = OVERRIDES[case]
    relu = kernel(name="Relu", domain="", overrides=True, c=times(7), **changes)
    x = {"x": np.ones(4, np.float32)}
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["w"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    model = onnx_model(nodes, x, {"y": "f4"}, {"w": np.full(4, 2, np.float32)})
    (y,) = compiled(model, x, tmp_path, operators=[relu])
    np.testing.assert_array_equal(y, np.full(4, 3 * factor))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)], ids=str)
def test_tensors_without_axes_or_elements(tmp_path, shape):
    x = {"x": np.full(shape, 2, np.float32)}
    model = onnx_model([helper.make_node("Op", ["x"], ["y"], domain="d")], x, {"y": "f4"})
    (y,) = compiled(model, x, tmp_path, operators=[kernel(c=times(3))])
    np.testing.assert_array_equal(y, 3 * x["x"])


def test_operator_without_inputs_whose_first_output_is_left_out(tmp_path):
    body = """
    static int32_t count(float *x, const tvmrt_shape *xs, int64_t *y, const tvmrt_shape *s,
                         uint32_t first) {
      (void)xs;
      x[0] = 0;
      for (int64_t i = 0; i < s->size; ++i) y[i] = first + i;
      return 0;
    }
    """
    outputs = [Tensor("x", "float32"), Tensor("y", "int64")]
    own = kernel(
        inputs=[], outputs=outputs, scalars={"first": ("uint", 1)}, c=C(body, "count"),
        shape=lambda *, first: [(1,), (5,)],
    )  # fmt: skip
    node = helper.make_node("Op", [], ["", "n"], domain="d", first=3)
    nodes = [node, helper.make_node("Add", ["x", "n"], ["y"])]
    x = {"x": np.ones(5, np.int64)}
    (y,) = compiled(onnx_model(nodes, x, {"y": "i8"}), x, tmp_path, operators=[own])
    np.testing.assert_array_equal(y, [4, 5, 6, 7, 8])


def test_names_that_are_not_c_identifiers(tmp_path):
    """Also names that parameters of the builder have."""
    domain = 'of "a\\ vendor */\n'
    scalars = dict.fromkeys(["while", "self", "operator", "name"], "float")
    body = times(3).source.replace("*t)", "*t, float w, float a, float b, float c)")
    body = body.replace(
        "(void)t;", "(void)t;\n  if (w != 2 || a != 2 || b != 2 || c != 2) return -1;"
    )
    odd = kernel(
        domain=domain, inputs=[Tensor("float", "float32")], outputs=[Tensor("return", "float32")],
        scalars=scalars, c=C(body, "f"),
    )  # fmt: skip
    x = {"*/ int": np.ones(3, np.float32)}
    node = helper.make_node("Op", list(x), ['"y" \\'], 'n */ "x"', domain=domain)
    node.attribute.extend(helper.make_attribute(name, 2.0) for name in scalars)
    (y,) = compiled(onnx_model([node], x, {'"y" \\': "f4"}), x, tmp_path, operators=[odd])
    np.testing.assert_array_equal(y, [3, 3, 3])


FAILURES = {
    "with-a-reason": ('TVMAPISetLastError("no luck today");', "^no luck today$"),
    "without": ("", r"^(node|network) '.*' failed without an error text\.$"),
}


@pytest.mark.parametrize("case", FAILURES)
@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_body_that_fails(tmp_path, case, executor):
    statement, sentence = FAILURES[case]
    body = times().source.replace("return 0", f"{statement} return -1")
    g = GraphBuilder()
    g.output("y", g.add(kernel(c=C(body, "f")), g.input("x", (4,))))
    x = {"x": np.zeros(4, np.float32)}
    with ThreadPoolExecutor(1) as pool:  # a new thread has no error of another call
        running = pool.submit(compiled, g, x, tmp_path, executor=executor)
        with pytest.raises(TVMError, match=sentence):
            running.result()
