"""Custom operators get tensors in a layout that they declare, inside composed operators too."""

from __future__ import annotations

import numpy as np
import pytest
from custom_case import compiled, example, kernel, run

import tvmrt
from tvmrt.custom import C, GraphBuilder, Tensor, composed

# Each element is multiplied by its channel number, so that every mistake about the layout shows.
BODY = r"""
#define BODY(name, channel)                                                                     \
  static int32_t name(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {   \
    const int64_t pixels = s->dim[2] * s->dim[3], channels = s->dim[1];                         \
    (void)t, (void)pixels, (void)channels;                                                      \
    for (int64_t i = 0; i < s->size; ++i) y[i] = x[i] * (float)(1 + (channel));                 \
    return 0;                                                                                   \
  }
BODY(nchw, i / pixels % channels)
BODY(nhwc, i % channels)
BODY(nwch, i / s->dim[2] % channels)
"""
SHAPE = (2, 8, 3, 5)
CHANNELS = np.arange(1, 9, dtype=np.float32)[:, None, None]
RNG = np.random.default_rng(1)
X = RNG.standard_normal(SHAPE).astype(np.float32)
WEIGHTS = RNG.standard_normal((8, 8, 1, 1)).astype(np.float32)


def channel_scale(*layouts: str, functions=("NCHW", "NHWC", "NWCH")):
    """Return an operator that multiplies by the channel number, in the layouts given."""
    return kernel(
        name="_".join(layouts),
        inputs=[Tensor("x", "float32", layouts)],
        outputs=[Tensor("y", "float32", layouts)],
        c=C(BODY, {("float32", name): name.lower() for name in functions}),
    )


def conv(v: np.ndarray) -> np.ndarray:
    return np.einsum("nchw,mc->nmhw", v, WEIGHTS[:, :, 0, 0])


def copies(library) -> int:
    """Return the steps of a program that change a tensor's layout."""
    return sum(s.group.root.op == "identity" for s in library.program.steps)


def chosen(library) -> list[tuple[str, ...]]:
    nodes = [s.group.root for s in library.program.steps]
    return [node.attrs.get("layouts") for node in nodes if node.op == "custom"]


@pytest.mark.parametrize("layouts", [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NHWC",)])
def test_operator_between_convolutions_works_in_their_layout(tmp_path, layouts):
    """The only copies are those of the caller's tensors."""
    g = GraphBuilder()
    v = g.Relu(g.Conv(g.input("x", SHAPE), WEIGHTS))
    g.output("y", g.Conv(g.Relu(g.add(channel_scale(*layouts), v)), WEIGHTS))
    library = tvmrt.compile(g)
    assert (chosen(library), copies(library)) == ([("NHWC", "NHWC")], 2)
    (found,) = run(library, {"x": X}, tmp_path)
    np.testing.assert_allclose(found, conv(np.maximum(conv(X), 0) * CHANNELS), 1e-4, 1e-4)


def test_element_wise_operator_takes_the_layout_of_adjacent_operators():
    hard_swish = example("hard_swish").hard_swish
    g = GraphBuilder()
    v = g.Conv(g.input("x", SHAPE), WEIGHTS)
    v = g.Conv(g.Tanh(g.add(hard_swish, g.add(hard_swish, v))), WEIGHTS)
    g.output("y", g.add(hard_swish, g.Reshape(v, [2, -1])))
    assert chosen(tvmrt.compile(g)) == [("NHWC", "NHWC"), ("NHWC", "NHWC"), None]


def test_layout_inference_inside_composed_operators(tmp_path):
    scale = channel_scale("NCHW", "NHWC")
    inner = composed("Inner", domain="d")(lambda g, x: g.Relu(g.add(scale, x)))

    @composed("Outer", domain="d")
    def outer(g, x):
        return g.add(inner, g.Conv(g.add(inner, x), WEIGHTS))

    g = GraphBuilder()
    v = g.add(outer, g.Conv(g.input("x", SHAPE), WEIGHTS))
    g.output("y", g.Conv(v, WEIGHTS))
    library = tvmrt.compile(g)
    assert (chosen(library), copies(library)) == ([("NHWC", "NHWC")] * 2, 2)
    wanted = conv(X)
    for _ in range(2):
        wanted = conv(np.maximum(wanted * CHANNELS, 0))
    np.testing.assert_allclose(run(library, {"x": X}, tmp_path)[0], wanted, 1e-3, 1e-2)


OPERATORS = [
    channel_scale("NCHW", "NHWC"),
    channel_scale("NHWC"),
    channel_scale("NWCH", "NCHW"),
    channel_scale("NCHW"),
]


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_are_right(tmp_path, seed):
    """Operators of all kinds in random order, some values used twice."""
    rng = np.random.default_rng(seed)
    g = GraphBuilder()
    values = [(g.input("x", SHAPE), X)]
    for kind in rng.integers(7, size=8):
        v, array = values[rng.integers(max(0, len(values) - 2), len(values))]
        if kind < len(OPERATORS):
            values.append((g.add(OPERATORS[kind], v), array * CHANNELS))
        elif kind == 4:
            values.append((g.Conv(v, WEIGHTS * 0.3), conv(array) * 0.3))
        elif kind == 5:
            values.append((g.Tanh(v), np.tanh(array)))
        else:
            values.append((g.Add(v, values[0][0]), array + X))
    g.output("y", g.Tanh(values[-1][0]))
    (y,) = compiled(g, {"x": X}, tmp_path)
    np.testing.assert_allclose(y, np.tanh(values[-1][1]), 1e-3, 1e-4)


def test_value_that_is_read_in_two_layouts(tmp_path):
    body = r"""
    static int32_t f(const float *a, const tvmrt_shape *s, const float *b, const tvmrt_shape *t,
                     float *y, const tvmrt_shape *u) {
      const int64_t pixels = s->dim[2] * s->dim[3], channels = s->dim[1];
      (void)t, (void)u;
      for (int64_t i = 0; i < s->size; ++i) {
        const int64_t c = i / pixels % channels, n = i / (pixels * channels), p = i % pixels;
        y[i] = a[i] - b[(n * pixels + p) * channels + c];
      }
      return 0;
    }
    """
    a, b = Tensor("a", "float32"), Tensor("b", "float32", "NHWC")
    g = GraphBuilder()
    v = g.Relu(g.input("x", SHAPE))
    g.output("y", g.add(kernel(inputs=[a, b], c=C(body, "f")), v, v))
    np.testing.assert_array_equal(compiled(g, {"x": X}, tmp_path)[0], np.zeros(SHAPE))


@pytest.mark.parametrize("only", ["NCHW", "NHWC"])
def test_layout_without_a_function_is_not_chosen(tmp_path, only):
    scale = channel_scale("NCHW", "NHWC", functions=[only])
    g = GraphBuilder()
    v = g.add(scale, g.input("x", SHAPE))
    g.output("y", g.add(scale, g.Conv(v, WEIGHTS)))
    library = tvmrt.compile(g)
    assert chosen(library) == [(only, only)] * 2
    wanted = conv(X * CHANNELS) * CHANNELS
    np.testing.assert_allclose(run(library, {"x": X}, tmp_path)[0], wanted, 1e-4, 1e-3)
