"""Test OpenCL bodies on the device ``opencl`` inside larger regions."""

from __future__ import annotations

import numpy as np
import pytest
from custom_case import compiled, example, onnx_model, run
from device_here import have
from onnx import helper

import tvmrt
from tvmrt.custom import GraphBuilder, Kernel, OpenCL, Tensor
from tvmrt.error import TVMError, UnsupportedError


@pytest.fixture(autouse=True)
def device():
    have("opencl")


OPENCL = {"devices": ["opencl"], "require_device": ["opencl"]}
# Shapes of the operands, and attributes.
OPERANDS = {
    "hard_swish": ([(3, 50)], {"scale": 0.5, "tail": -3.0}),
    "direct_conv": ([(2, 3, 7, 6), (4, 3, 3, 2), (4,)], {"strides": [2, 2], "pads": [1] * 4}),
    "detection": ([(1, 8, 5, 6)], {"most": 10, "threshold": 0.5, "overlap": 0.45}),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("hard_swish", "float32"), ("hard_swish", "bfloat16"), ("hard_swish", "uint8"),
     ("direct_conv", "float32"), ("detection", "float32")],
)  # fmt: skip
def test_bodies_agree_with_their_references(name, dtype, tmp_path):
    operator, (shapes, attributes) = getattr(example(name), name), OPERANDS[name]
    rng, largest = np.random.default_rng(0), {"hard_swish": 12}.get(name, 1)
    arrays = [(largest * rng.random(shape)).astype(dtype) for shape in shapes]
    g = GraphBuilder()
    values = [g.input(f"x{i}", array.shape, dtype) for i, array in enumerate(arrays)]
    found = g.add(operator, *values, outputs=len(operator.outputs), **attributes)
    for i, value in enumerate(found if isinstance(found, list) else [found]):
        g.output(f"y{i}", value)
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    results = run(tvmrt.compile(g, **OPENCL), inputs, tmp_path)
    for y, right in zip(results, operator.evaluate_node(arrays, attributes), strict=True):
        atol = 1e-4 + (dtype == "uint8")
        np.testing.assert_allclose(y.astype(float), right.astype(float), 1e-2, atol)


def test_inside_of_a_larger_region(tmp_path):
    """Convolution, custom operator and activation are one region, without copies to the host."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 6, 5), (4, 3, 1, 1)))
    g = GraphBuilder()
    v = g.Conv(g.input("x", x.shape), w)
    g.output("y", g.Relu(g.add(example("hard_swish").hard_swish, v, out_zp=0.25)))
    library = tvmrt.compile(g, **OPENCL)
    (region,) = library.partition.regions
    assert "custom_opencl" in [n.op for n in region.nodes]
    assert len(region.nodes) > 1
    v = np.einsum("nchw,mc->nmhw", x, w[:, :, 0, 0])
    wanted = np.maximum(v * np.clip(v / 6 + 0.5, 0, 1) + 0.25, 0)
    np.testing.assert_allclose(run(library, {"x": x}, tmp_path)[0], wanted, 1e-4, 1e-5)


SQUARE = "__kernel void square(__global const float *x, __global float *y) {\n%s\n}\n"


def opencl_kernel(body: str) -> Kernel:
    return Kernel(
        "Square",
        "d",
        inputs=[Tensor("x", "float32")],
        outputs=[Tensor("y", "float32")],
        opencl=OpenCL(SQUARE % body, "square", global_size=lambda x, y: [x.size]),
    )


def square_network(body: str) -> GraphBuilder:
    g = GraphBuilder("net")
    g.output("y", g.add(opencl_kernel(body), g.input("x", (6,)), name="n"))
    return g


def test_operator_with_only_an_opencl_body(tmp_path):
    body = "  const size_t i = get_global_id(0);\n  y[i] = x[i] * x[i];"
    x = np.arange(6, dtype=np.float32)
    library = tvmrt.compile(square_network(body), **OPENCL)
    np.testing.assert_array_equal(run(library, {"x": x}, tmp_path)[0], x * x)


@pytest.mark.parametrize(
    ("kind", "parameter", "value"),
    [("int", "int", -3), ("uint", "uint", 2**32 - 1), ("float", "float", 0.5),
     ("bool", "int", True), ("bool", "int", False)],
)  # fmt: skip
def test_scalars_of_every_type_reach_the_body(kind, parameter, value, tmp_path):
    body = (
        f"__kernel void f(__global const float *x, __global float *y, {parameter} s) {{\n"
        "  const size_t i = get_global_id(0);\n  y[i] = x[i] + (float)s;\n}\n"
    )
    operator = Kernel(
        "Plus",
        "d",
        inputs=[Tensor("x", "float32")],
        outputs=[Tensor("y", "float32")],
        scalars={"s": kind},
        opencl=OpenCL(body, "f", global_size=lambda x, y, *, s: [x.size]),
    )
    g = GraphBuilder("net")
    g.output("y", g.add(operator, g.input("x", (6,)), name="n", s=value))
    x = np.arange(6, dtype=np.float32)
    (found,) = run(tvmrt.compile(g, **OPENCL), {"x": x}, tmp_path)
    np.testing.assert_array_equal(found, x + np.float32(value))


def test_program_that_does_not_build_shows_the_log_with_the_users_line(tmp_path):
    library = tvmrt.compile(square_network("  // one\n  y[0] = oops;"), **OPENCL)
    with pytest.raises(TVMError, match=r"(?s)d::Square.*:3:.*oops"):
        run(library, {"x": np.zeros(6, np.float32)}, tmp_path)


def test_operator_without_an_opencl_body_stays_on_the_cpu_with_the_reason():
    tensors = {"inputs": [Tensor("x", "float32")], "outputs": [Tensor("y", "float32")]}
    kernel = Kernel("Op", "d", **tensors, reference=lambda x: x)
    g = GraphBuilder("net")
    g.output("y", g.add(kernel, g.input("x", (6,)), name="n"))
    with pytest.raises(UnsupportedError, match="opencl: d::Op has no OpenCL body; declare one"):
        tvmrt.compile(g, devices=["opencl"], require_device=["opencl:Op"])


IMAGES = """
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE |
                               CLK_FILTER_NEAREST;
__kernel void shift(__read_only image2d_array_t x, __global const float *w,
                    __write_only image2d_t y, const float beta) {
  const int column = get_global_id(0), row = get_global_id(1), layer = get_global_id(2);
  const int4 from = (int4)(column + 1, row, layer, 0);
  const float v = read_imagef(x, nearest, from).x * w[layer] + beta;
  write_imagef(y, (int2)(column, layer * get_global_size(1) + row), (float4)(v, 0, 0, 0));
}
"""


def shift(x, w, beta):
    """Each element is its right neighbour, the last one stays; multiplied by one number per
    layer."""
    return np.concatenate([x[..., 1:], x[..., -1:]], -1) * w[:, None, None] + beta


def test_body_can_request_images(tmp_path):
    """The body is between operators that use buffers; one operand has layers, the other only
    rows."""
    operator = Kernel(
        "Shift",
        "test",
        inputs=[Tensor("x", "float32"), Tensor("w", "float32")],
        outputs=[Tensor("y", "float32")],
        scalars={"beta": "float"},
        shape=lambda x, w, **scalars: x.shape,
        opencl=OpenCL(IMAGES, "shift", global_size=lambda x, *rest, **scalars: x.shape[::-1]),
    )
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((3, 5, 7), (3,)))
    g = GraphBuilder()
    v = g.Neg(g.input("x", x.shape))
    g.output("y", g.Exp(g.add(operator, v, w, beta=0.5)))
    (found,) = run(tvmrt.compile(g, **OPENCL), {"x": x}, tmp_path)
    np.testing.assert_allclose(found, np.exp(shift(-x, w, np.float32(0.5))), 1e-5)


def test_empty_tensors_allocate_nothing(tmp_path):
    x = {"x": np.zeros((0, 3), np.float32)}
    node = helper.make_node("HardSwish", ["x"], ["y"], domain="example.swish")
    model = onnx_model([node], x, {"y": "f4"})
    own = [example("hard_swish").hard_swish]
    (y,) = compiled(model, x, tmp_path, operators=own, devices=["opencl"])
    assert y.shape == (0, 3)
