"""The float kernels of microcontrollers, compiled for this machine, against numpy.

On boards, with their instructions, they run in tests/python/firmware.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pytest
from kernel_build import CHECKED, build, pointer

from tvmrt.codegen.window.boards.float32 import KERNELS
from tvmrt.codegen.window.boards.kernel import MicroKernel, MicroWeights
from tvmrt.codegen.window.boards.layer_f32 import MicroLayer
from tvmrt.codegen.window.boards.shape import MicroShape
from tvmrt.codegen.window.plan import Window

HEAD = "\n".join(
    [
        "#include <math.h>",
        "#include <stdlib.h>",
        "#define TVMRT_FREESTANDING 1",
        *(f"#include <tvm/runtime/kernels/{kernel.header}>" for kernel in KERNELS.values()),
    ]
)
# scratch from a block that ends where the layer's scratch ends
FUNCTION = """
int {name}(const float* x, const float* w, const float* bias, const float* residual, float* y);
int {name}(const float* x, const float* w, const float* bias, const float* residual, float* y) {{
  static const tvmrt_micro_conv_f32 layer = {{ {members} }};
  const tvmrt_micro_data_f32 data = {{x, w, bias, residual, y, NULL, NULL}};
  void* scratch = malloc((size_t)layer.shape.scratch + 16);
  int code;
  if (scratch == NULL) return 1;
  tvmrt_scratch_lend((uint8_t*)scratch, {lent});
  code = {call};
  free(scratch);
  return code;
}}
"""


def shape(in_c, out_c, size, kernel=(1, 1), stride=(1, 1), dilation=(1, 1), pad=(0, 0), out=None,
          depthwise=False, batch=1):  # fmt: skip
    """A shape whose end padding equals its start padding unless ``out`` says otherwise."""
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    full = tuple((n + 2 * p - r) // s + 1 for n, p, r, s in zip(size, pad, reach, stride))
    images = [(1, *pair) for pair in (size, out or full)]
    walk = [(1, *pair) for pair in (kernel, stride, dilation)]
    window = Window(batch, *images, in_c, out_c, *walk, (0, *pad))
    return MicroShape(window, in_c, out_c, depthwise)


SHAPES = {
    "pointwise": shape(16, 9, (5, 3)),
    "pointwise_small": shape(5, 6, (3, 3)),
    "row": shape(30, 33, (1, 1)),
    "rows": shape(7, 4, (1, 6)),
    "three": shape(6, 18, (7, 9), (3, 3), pad=(1, 1)),
    "strided": shape(3, 8, (11, 10), (3, 3), (2, 2), pad=(1, 1)),
    "dilated": shape(4, 5, (9, 9), (3, 2), dilation=(2, 3), pad=(2, 1)),
    "cropped": shape(4, 4, (8, 8), (3, 3), pad=(-1, -2), out=(5, 4)),
    "images": shape(4, 5, (4, 5), (3, 3), pad=(1, 1), batch=2),
    "depthwise": shape(20, 20, (6, 7), (3, 3), pad=(1, 1), depthwise=True),
    "depthwise_odd": shape(7, 7, (5, 5), (3, 3), (2, 2), pad=(1, 1), depthwise=True),
    "depthwise_any": shape(4, 4, (9, 8), (5, 2), dilation=(1, 2), pad=(2, 1), depthwise=True),
    "depthwise_cropped": shape(
        4, 4, (8, 8), (3, 3), pad=(-1, -2), out=(5, 4), depthwise=True
    ),
    "depthwise_images": shape(4, 4, (4, 5), (3, 3), pad=(1, 1), depthwise=True, batch=2),
}  # fmt: skip
BOUNDS = {"free": (-np.inf, np.inf), "relu": (0.0, np.inf), "both": (-0.5, 1.0)}


def reference(x: np.ndarray, w: np.ndarray, s: MicroShape) -> np.ndarray:
    """The sums in float64, [batch, height, width, channels]."""
    y = np.zeros((s.window.batch, *s.out, s.out_c))
    for (h, v), (kh, kw) in ((o, k) for o in np.ndindex(*s.out) for k in np.ndindex(*s.kernel)):
        row = h * s.stride[0] - s.pad[0] + kh * s.dilation[0]
        column = v * s.stride[1] - s.pad[1] + kw * s.dilation[1]
        if 0 <= row < s.in_[0] and 0 <= column < s.in_[1]:
            pixel = x[:, row, column].astype(np.float64)
            tap = w[:, :, kh, kw].astype(np.float64)
            y[:, h, v] += pixel * tap[:, 0] if s.depthwise else pixel @ tap.T
    return y


@dataclass(frozen=True)
class Case:
    """A random layer, its operands and numpy's answer."""

    kernel: MicroKernel
    layer: MicroLayer
    packed: MicroWeights
    x: np.ndarray
    residual: np.ndarray | None
    expected: np.ndarray

    def function(self, name: str, lent: str) -> str:
        members = self.layer.members(self.kernel, self.layer.shape.out_c)
        text = ", ".join(f".{member} = {value}" for member, value in members.items())
        call = self.kernel.call(self.layer, "&layer")
        return FUNCTION.format(name=name, members=text, call=call, lent=lent)

    def run(self, library, name: str, y: np.ndarray, x: np.ndarray | None = None) -> int:
        x = self.x if x is None else x
        arrays = (x, self.packed.weights, self.packed.bias, self.residual, y)
        return library[name](*map(pointer, arrays))


def case(s: MicroShape, low: float, high: float, plain: bool = False) -> Case:
    """The layer for the kernel that is chosen; ``plain``: without a residual."""
    rng = np.random.default_rng(zlib.crc32(repr(s).encode()))

    def random(*extents):
        return rng.standard_normal(extents).astype(np.float32)

    x = random(s.window.batch, *s.in_, s.in_c)
    w = random(s.out_c, 1 if s.depthwise else s.in_c, *s.kernel) / np.float32(s.elements**0.5)
    bias, residual = random(s.out_c), random(s.window.batch, *s.out, s.out_c)
    layer = MicroLayer(s, w, bias, low, high, s.in_place, plain)
    kernel = KERNELS.choose(layer, frozenset())
    sums = reference(x, w, s) + bias + (0 if plain else residual)
    packed, residual = kernel.pack(layer), None if plain else residual
    return Case(kernel, layer, packed, x, residual, np.clip(sums, low, high))


ENOUGH = "(layer.shape.scratch + 15) / 16 * 16"


@pytest.mark.parametrize("bounds", list(BOUNDS))
def test_sums_are_those_of_numpy(bounds, tmp_path):
    cases = {name: case(s, *BOUNDS[bounds]) for name, s in SHAPES.items()}
    functions = [c.function(f"run_{name}", ENOUGH) for name, c in cases.items()]
    library = build(tmp_path, "".join([HEAD, *functions]), CHECKED)
    for name, c in cases.items():
        y = np.full(c.expected.shape, np.nan, np.float32)
        assert c.run(library, f"run_{name}", y) == 0
        np.testing.assert_allclose(y, c.expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_the_result_may_lie_in_the_inputs_place(tmp_path):
    shapes = {"wide": shape(12, 12, (3, 7)), "few": shape(12, 12, (1, 2)),
              "depthwise": SHAPES["depthwise"]}  # fmt: skip
    cases = {name: case(s, -np.inf, np.inf) for name, s in shapes.items()}
    functions = [c.function(name, ENOUGH) for name, c in cases.items()]
    library = build(tmp_path, "".join([HEAD, *functions]), CHECKED)
    for name, c in cases.items():
        assert c.layer.shape.in_place
        x = c.x.copy()
        assert c.run(library, name, x, x) == 0
        np.testing.assert_allclose(x, c.expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_relu_keeps_what_is_no_number(tmp_path):
    c = case(SHAPES["pointwise"], 0.0, np.inf)
    c.x[0, 2, 1, 3] = np.nan
    library = build(tmp_path, HEAD + c.function("run", ENOUGH), CHECKED)
    y = np.zeros(c.expected.shape, np.float32)
    assert c.run(library, "run", y) == 0
    assert np.isnan(y[0, 2, 1]).all() and np.isfinite(np.delete(y.reshape(15, -1), 7, 0)).all()


@pytest.mark.parametrize("name", ["three", "depthwise"])
def test_too_little_scratch_is_an_error(name, tmp_path):
    c = case(SHAPES[name], 0.0, np.inf)
    library = build(tmp_path, HEAD + c.function("run", "16"), CHECKED)
    y = np.zeros(c.expected.shape, np.float32)
    assert c.run(library, "run", y) == -1
    assert not y.any()


@pytest.mark.parametrize("bounds", ["free", "relu"])
def test_small_products_of_a_row_take_the_least_code(bounds, tmp_path):
    shapes = {f"row_{n}_{m}": shape(n, m, (1, 1)) for n, m in ((1, 16), (16, 1), (7, 5))}
    cases = {name: case(s, *BOUNDS[bounds], plain=True) for name, s in shapes.items()}
    functions = [c.function(name, ENOUGH) for name, c in cases.items()]
    library = build(tmp_path, "".join([HEAD, *functions]), CHECKED)
    for name, c in cases.items():
        assert c.kernel is KERNELS["dense"]
        y = np.full(c.expected.shape, np.nan, np.float32)
        assert c.run(library, name, y) == 0
        np.testing.assert_allclose(y, c.expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_other_layers_go_to_other_kernels():
    row, large = shape(7, 5, (1, 1)), shape(30, 33, (1, 1))
    assert case(row, -1.0, 1.0, plain=True).kernel is KERNELS["conv"]  # bounds of their own
    assert case(row, 0.0, np.inf).kernel is KERNELS["conv"]  # a residual
    assert case(large, 0.0, np.inf, plain=True).kernel is KERNELS["conv"]
    assert case(shape(5, 5, (1, 1)), 0.0, np.inf, plain=True).kernel is KERNELS["conv"]  # in place
    assert case(SHAPES["depthwise"], 0.0, np.inf).kernel is KERNELS["depthwise"]
