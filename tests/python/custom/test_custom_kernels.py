"""Kernels from one declaration: in imported and built networks, for every element type."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest
from custom_case import compiled, example, onnx_model, run
from onnx import helper

import tvmrt
from tvmrt.custom import C, GraphBuilder, Kernel, Tensor

SCALARS = {"scale": 0.5, "tail": -1.0, "out_scale": 2.0, "out_zp": 3.0}


def swish(x, scale, tail, out_scale, out_zp):
    """Compute the definition in double precision."""
    v = x.astype(np.float64) * scale + tail
    return v * np.clip(v / 6 + 0.5, 0, 1) * out_scale + out_zp


def hard_swish_model(x: np.ndarray, **scalars: float):
    node = helper.make_node(
        "HardSwish", ["x"], ["y"], "act", domain="example.swish", **{**SCALARS, **scalars}
    )
    return onnx_model([node], {"x": x}, {"y": x.dtype})


def numbers(dtype: str) -> np.ndarray:
    """Return values over the whole range in which hard-swish is not linear."""
    if dtype == "uint8":
        return np.arange(256, dtype=np.uint8).reshape(2, 128)
    return np.linspace(-20, 20, 256).reshape(2, 128).astype(dtype)


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"),
    [("float32", 1e-5, 1e-5), (ml_dtypes.bfloat16, 2**-8, 0), ("uint8", 0, 0.501)],
    ids=["float32", "bfloat16", "uint8"],
)
def test_node_of_a_foreign_domain_is_the_declared_operator(tmp_path, dtype, rtol, atol, executor):
    x = numbers(dtype)
    operators = [example("hard_swish").hard_swish]
    (y,) = compiled(hard_swish_model(x), {"x": x}, tmp_path, operators=operators, executor=executor)
    assert y.dtype == x.dtype
    expected = swish(x, **SCALARS)
    if dtype == "uint8":
        expected = np.clip(expected, 0, 255)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol, atol)


def test_half_precision_reaches_the_body_unconverted():
    library = tvmrt.compile(
        hard_swish_model(numbers(ml_dtypes.bfloat16)),
        operators=[example("hard_swish").hard_swish],
    )
    (step,) = library.program.steps
    assert "hswish_bf16(" in library.sources.functions[0].text
    assert [a.dtype.name for a in step.reads] == ["bfloat16"]


def test_graph_builder_mixes_custom_and_built_in_operators(tmp_path):
    x = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 3, 4)
    g = GraphBuilder("net")
    v = g.input("x", x.shape)
    g.output("y", g.Relu(g.add(example("hard_swish").hard_swish, v, **SCALARS)))
    (y,) = compiled(g, {"x": x}, tmp_path)
    np.testing.assert_allclose(y, np.maximum(swish(x, **SCALARS), 0), 1e-5, 1e-5)


def test_operator_is_registered_with_a_graph_at_its_first_use():
    hard_swish = example("hard_swish").hard_swish
    g, other = GraphBuilder("one", [hard_swish]), GraphBuilder("two", [hard_swish])
    v = g.input("x", (4,))
    assert g.graph().operators == {}
    g.add("example.swish::HardSwish", v)
    assert g.graph().operators == {"example.swish::HardSwish": hard_swish}
    assert other.graph().operators == {}


def test_kernel_ids_count_down_and_are_unique():
    ids = [
        Kernel(
            f"Id{i}", "d", inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")],
            reference=lambda x: x,
        ).kernel_id
        for i in range(3)
    ]  # fmt: skip
    assert ids[0] < 0
    assert ids == [ids[0], ids[0] - 1, ids[0] - 2]


def test_generated_call_matches_a_built_in_operator(tmp_path):
    """One C function per node, plain pointers, constant shapes: no lookup, no boxing."""
    x = np.zeros((2, 128), np.float32)
    library = tvmrt.compile(
        hard_swish_model(x), operators=[example("hard_swish").hard_swish], executor="aot"
    )
    built_in = onnx_model(
        [helper.make_node("HardSwish", ["x"], ["y"], "act")], {"x": x}, {"y": "f4"}
    )
    expected = tvmrt.compile(built_in, executor="aot")
    signature, call = (
        [line for line in library.sources.files[name].splitlines() if "tvmgen_default_act(" in line]
        for name in ("tvmgen_default_ops.h", "tvmgen_default_lib0.c")
    )
    for name, lines in (("tvmgen_default_ops.h", signature), ("tvmgen_default_lib0.c", call)):
        assert len(lines) == 1
        assert lines[0] in expected.sources.files[name]


def test_declaration_without_kernels_is_shorter_than_60_lines():
    module = example("hard_swish")
    text = inspect.getsource(module)
    for body in (module.C_BODY, module.OPENCL_BODY):
        assert body in text
        text = text.replace(body, "")
    assert len(text.splitlines()) < 60


def test_reports_use_the_operator_name():
    x = np.zeros((2, 128), np.float32)
    library = tvmrt.compile(hard_swish_model(x), operators=[example("hard_swish").hard_swish])
    assert [o.op for o in library.summary.operators] == ["example.swish::HardSwish"]
    assert " * example.swish::HardSwish: act\n" in library.sources.files["tvmgen_default_lib1.c"]


SCALED = r"""
static int32_t fill(const float *x, const tvmrt_shape *xs, float *y, const tvmrt_shape *ys,
                    int32_t i, uint32_t u, float f, int32_t b, uint16_t h) {
  (void)x, (void)xs, (void)ys;
  y[0] = (float)i;
  y[1] = (float)u;
  y[2] = f;
  y[3] = (float)b;
  y[4] = (float)h;
  return 0;
}
"""


def test_scalars_arrive_in_their_declared_types(tmp_path):
    kernel = Kernel(
        "Fill", "d",
        inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")],
        scalars={"i": "int", "u": "uint", "f": "float", "b": "bool", "h": "half"},
        c=C(SCALED, "fill"),
    )  # fmt: skip
    g = GraphBuilder()
    v = g.input("x", (5,))
    g.output("y", g.add(kernel, v, i=-(1 << 31), u=(1 << 32) - 1, f=0.1, b=True, h=1.5))
    (y,) = compiled(g, {"x": np.zeros(5, np.float32)}, tmp_path)
    half = np.float16(1.5).view(np.uint16)
    np.testing.assert_array_equal(y, np.array([-(2**31), 2**32 - 1, 0.1, 1, half], np.float32))


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
    kernel = Kernel(
        "Plus", "d",
        inputs=[Tensor("x", "float32"), Tensor("b", "float32", optional=True)],
        outputs=[Tensor("y", "float32")],
        c=C(OPTIONAL, "plus"),
    )  # fmt: skip
    x, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.float32)
    g = GraphBuilder()
    v = g.input("x", x.shape)
    more = {"constant": [b], "input": [g.input("b", b.shape)], "left out": []}[bias]
    g.output("y", g.add(kernel, v, *more))
    (y,) = compiled(g, {"x": x, "b": b}, tmp_path)
    np.testing.assert_array_equal(y, x + (100 if bias == "left out" else b))


def test_reference_folds_nodes_of_constants():
    g = GraphBuilder()
    g.input("x", (1,))
    g.output("y", g.add(example("hard_swish").hard_swish, np.array([6.0], np.float32)))
    library = tvmrt.compile(g)
    assert [s.group.root.op for s in library.program.steps] == ["identity"]


def test_newest_compatible_version_is_used(tmp_path):
    def version(number):
        body = f"""
static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {{
  (void)s, (void)t;
  *y = *x * {number};
  return 0;
}}
"""
        return Kernel(
            "Times", "d", number,
            inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")], c=C(body, "f"),
        )  # fmt: skip

    x = np.ones(1, np.float32)
    node = helper.make_node("Times", ["x"], ["y"], domain="d")
    model = onnx_model([node], {"x": x}, {"y": "f4"}, versions={"d": 4})
    (y,) = compiled(model, {"x": x}, tmp_path, operators=[version(n) for n in (1, 3, 5)])
    assert y == 3


def test_override_applies_to_its_graph_only(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 9, 8), (4, 3, 3, 3)))
    depthwise = rng.standard_normal((4, 1, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(4).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "plain", strides=[2, 2], pads=[1] * 4),
        helper.make_node("Conv", ["c", "d"], ["y"], "depthwise", group=4),
    ]
    model = onnx_model(nodes, {"x": x}, {"y": "f4"}, {"w": w, "b": bias, "d": depthwise})
    changed = tvmrt.compile(model, operators=[example("direct_conv").direct_conv])
    plain = tvmrt.compile(model)
    ops = [[s.group.root.op for s in net.program.steps] for net in (changed, plain)]
    assert ops[0].count("custom") == 1
    assert ops[0].count("conv") == 1  # the operator declines the depthwise convolution
    assert "custom" not in ops[1]
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(run(changed, {"x": x}, tmp_path)[0], expected, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("first", "factor"), [((1, 14, 18), 14), ((18,), 1)], ids=["newest-that-fits", "none-fits"]
)
def test_override_applies_from_its_own_opset_on(tmp_path, first, factor):
    """The network is of opset 17."""

    def relu(version: int) -> Kernel:
        body = """
        static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
          (void)t;
          for (int64_t i = 0; i < s->size; ++i) y[i] = FACTOR * x[i];
          return 0;
        }
        """.replace("FACTOR", str(version))
        return Kernel(
            "Relu", version=version, overrides=True,
            inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")], c=C(body, "f"),
        )  # fmt: skip

    x = {"x": np.ones(4, np.float32)}
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], x, {"y": "f4"})
    (y,) = compiled(model, x, tmp_path, operators=[relu(version) for version in first])
    np.testing.assert_array_equal(y, np.full(4, factor))
