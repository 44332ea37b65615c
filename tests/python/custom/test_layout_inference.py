"""Layouts of custom and composed operators are chosen to minimise copies."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from custom_case import compiled, example, run

import tvmrt
from tvmrt.compiler.codegen.builder import build_program
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.ir.custom import copy_graph
from tvmrt.compiler.ir.layout import parse_layout
from tvmrt.compiler.transform import layout_inference as inference
from tvmrt.compiler.transform.blocked_layouts import lower_blocked_layouts
from tvmrt.custom import C, GraphBuilder, Kernel, Tensor, composed

# NCHW, NHWC, blocks of four channels: each element is multiplied by its channel number, so that
# every mistake about the layout shows.
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
BODY(nchw4c, i / (4 * pixels) % (channels / 4) * 4 + i % 4)
"""
FUNCTIONS = {("float32", name): name.lower() for name in ("NCHW", "NHWC", "NCHW4c")}
SHAPE = (2, 8, 3, 5)
CHANNELS = np.arange(1, 9, dtype=np.float32)[:, None, None]


def channel_scale(*layouts: str, result: tuple[str, ...] | None = None) -> Kernel:
    """Return an operator that multiplies by the channel number, in the layouts given."""
    return Kernel(
        f"Scale_{'_'.join(layouts)}_{'_'.join(result or ())}",
        "d",
        inputs=[Tensor("x", "float32", layouts)],
        outputs=[Tensor("y", "float32", result or layouts)],
        reference=lambda x: x * CHANNELS,
        c=C(BODY, FUNCTIONS),
    )


def data(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def copies(library) -> int:
    """Return the steps of a program that change a tensor's layout."""
    steps = library.program.steps if hasattr(library, "program") else library.steps
    return sum(s.group.root.op == "identity" for s in steps)


WEIGHTS = np.random.default_rng(1).standard_normal((8, 8, 1, 1)).astype(np.float32)


@pytest.mark.parametrize("layouts", [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NHWC",)])
def test_operator_between_convolutions_works_in_their_layout(tmp_path, layouts):
    def network(operator):
        g = GraphBuilder()
        v = g.Conv(g.input("x", SHAPE), WEIGHTS)
        v = g.Relu(g.add(operator, g.Relu(v))) if operator else g.Mul(v, CHANNELS)
        g.output("y", g.Conv(v, WEIGHTS))
        return tvmrt.compile(g)

    library = network(channel_scale(*layouts))
    plain = network(None)
    assert copies(library) == copies(plain)
    x = data()
    (found,) = run(library, {"x": x}, tmp_path)
    inner = np.maximum(np.einsum("nchw,mc->nmhw", x, WEIGHTS[:, :, 0, 0]), 0) * CHANNELS
    wanted = np.einsum("nchw,mc->nmhw", inner, WEIGHTS[:, :, 0, 0])
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["NCHW", "NHWC", "NCHW4c"])
def test_every_layout_gives_equal_results(tmp_path, name):
    g = GraphBuilder()
    g.output("y", g.add(channel_scale(name), g.input("x", SHAPE)))
    x = data()
    (y,) = run(tvmrt.compile(g), {"x": x}, tmp_path)
    np.testing.assert_array_equal(y, x * CHANNELS)


def test_element_wise_operator_takes_the_layout_of_adjacent_operators():
    g = GraphBuilder()
    v = g.Conv(g.input("x", SHAPE), WEIGHTS)
    g.output("y", g.Conv(g.add(example("hard_swish").hard_swish, v), WEIGHTS))
    library = tvmrt.compile(g)
    (step,) = (s for s in library.program.steps if s.group.root.op == "custom")
    assert step.group.root.attrs["layouts"] == ("NHWC", "NHWC")


def test_blocked_layout_is_kept_between_blocked_operators(tmp_path):
    """One copy into blocks for four operators with pointwise nodes between; after them, the sum
    writes in the order of the last operator."""
    blocked = channel_scale("NCHW4c")
    g = GraphBuilder()
    v = g.Sigmoid(g.add(blocked, g.input("x", SHAPE)))
    half = np.full(SHAPE, 0.5, np.float32)  # converted to blocks by the compiler
    left, expected = g.add(blocked, g.Mul(v, half)), g.add(blocked, v)
    g.output("y", g.add(example("hard_swish").hard_swish, g.Add(left, expected)))
    library = tvmrt.compile(g)
    assert copies(library) == 1
    x = data()
    (y,) = run(library, {"x": x}, tmp_path)
    v = 1 / (1 + np.exp(-x * CHANNELS))
    v = 1.5 * v * CHANNELS
    np.testing.assert_allclose(y, v * np.clip(v / 6 + 0.5, 0, 1), 1e-5, 1e-5)


def test_layout_inference_inside_composed_operators(tmp_path):
    scale = channel_scale("NCHW", "NHWC")

    @composed("Inner", domain="d")
    def inner(g, x):
        return g.Relu(g.add(scale, x))

    @composed("Outer", domain="d")
    def outer(g, x):
        return g.add(inner, g.Conv(g.add(inner, x), WEIGHTS))

    g = GraphBuilder()
    v = g.add(outer, g.Conv(g.input("x", SHAPE), WEIGHTS))
    g.output("y", g.Conv(v, WEIGHTS))
    library = tvmrt.compile(g)
    found = [
        s.group.root.attrs["layouts"] for s in library.program.steps if s.group.root.op == "custom"
    ]
    assert found == [("NHWC", "NHWC")] * 2
    assert copies(library) == 2  # the caller's tensors

    def conv(v):
        return np.einsum("nchw,mc->nmhw", v, WEIGHTS[:, :, 0, 0])

    x = data()
    wanted = conv(x)
    for _ in range(2):
        wanted = conv(np.maximum(wanted * CHANNELS, 0))
    (y,) = run(library, {"x": x}, tmp_path)
    np.testing.assert_allclose(y, wanted, 1e-3, 1e-2)


OPERATORS = [
    channel_scale("NCHW", "NHWC"),
    channel_scale("NHWC"),
    channel_scale("NCHW4c", "NCHW"),
    channel_scale("NCHW4c"),
    channel_scale("NHWC", "NCHW4c", result=("NCHW", "NCHW4c")),
]


def random_graph(seed: int):
    """Return operators of all kinds in random order, some values used twice."""
    rng = np.random.default_rng(seed)
    g = GraphBuilder()
    values = [g.input("x", SHAPE)]
    for _ in range(6):
        v = values[rng.integers(max(0, len(values) - 2), len(values))]
        kind = rng.integers(8)
        if kind < len(OPERATORS):
            values.append(g.add(OPERATORS[kind], v))
        elif kind == 5:
            values.append(g.Conv(v, WEIGHTS * 0.3))
        elif kind == 6:
            values.append(g.Tanh(v))
        else:
            values.append(g.Add(v, values[rng.integers(len(values))]))
    g.output("y", g.Tanh(values[-1]))
    return g


def reference(graph, x: np.ndarray) -> np.ndarray:
    """Compute the graph's result with numpy, node by node."""
    known = {graph.inputs[0]: x}
    for node in graph.nodes:
        a = [known[v] if v in known else v.data for v in node.inputs]
        if node.op == "custom":
            found = a[0] * CHANNELS
        elif node.op == "conv":
            found = np.einsum("nchw,mc->nmhw", a[0], a[1][:, :, 0, 0])
        else:
            found = {"tanh": np.tanh, "add": np.add}[node.op](*a)
        known[node.output] = found
    return known[graph.outputs[0]]


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_are_right_with_the_fewest_copies(tmp_path, seed):
    """Every combination of layouts is built; none has fewer copies than the chosen one."""
    graph = random_graph(seed).graph()
    target = get_target("native")
    custom = [n for n in graph.nodes if n.op == "custom"]
    options = [inference._alternatives(n, graph) for n in custom]
    fewest = []
    for row in product(*options):
        trial = copy_graph(graph)
        nodes = [n for n in trial.nodes if n.op == "custom"]
        for node, names in zip(nodes, row):
            node.attrs["layouts"] = names
        lower_blocked_layouts(trial)
        fewest.append(copies(build_program(trial, target)))
    library = tvmrt.compile(random_graph(seed))
    assert copies(library) <= min(fewest)
    if seed < 3:
        x = data(seed)
        (y,) = run(library, {"x": x}, tmp_path)
        np.testing.assert_allclose(y, reference(graph, x), 1e-3, 1e-4)


def test_layouts_of_long_chains_are_assigned_greedily(monkeypatch):
    monkeypatch.setattr(inference, "MAX_VISITS", 1)
    g = GraphBuilder()
    v = g.Conv(g.input("x", SHAPE), WEIGHTS)
    for _ in range(4):
        v = g.add(OPERATORS[0], v)
    g.output("y", g.Conv(v, WEIGHTS))
    assert copies(tvmrt.compile(g)) == 2


@pytest.mark.parametrize(
    ("name", "order", "block"),
    [("NCHW", (0, 1, 2, 3), 1), ("NHWC", (0, 2, 3, 1), 1), ("NDHWC", (0, 2, 3, 4, 1), 1),
     ("NCW8c", (0, 1, 2), 8)],
)  # fmt: skip
def test_layouts_are_read_by_name(name, order, block):
    layout = parse_layout(name)
    assert (layout.order, layout.block) == (order, block)


@pytest.mark.parametrize("name", ["", "NCXW", "NHW", "NCHW0c", "NCCHW", "NCH", "nchw"])
def test_invalid_layout_is_refused(name):
    with pytest.raises(ValueError, match="is not known; spell the axes as in NCHW"):
        parse_layout(name)


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
    minus = Kernel(
        "Minus", "d",
        inputs=[Tensor("a", "float32", "NCHW"), Tensor("b", "float32", "NHWC")],
        outputs=[Tensor("y", "float32", "NCHW")], c=C(body, "f"),
    )  # fmt: skip
    g = GraphBuilder()
    v = g.input("x", SHAPE)
    g.output("y", g.add(minus, v, v))
    (y,) = run(tvmrt.compile(g), {"x": data()}, tmp_path)
    np.testing.assert_array_equal(y, np.zeros(SHAPE, np.float32))


@pytest.mark.parametrize(
    ("declared", "only"),
    [(("NCHW", "NHWC"), "NCHW"), (("NCHW", "NHWC"), "NHWC"), ("any", None), ("any", "NHWC")],
)
def test_layout_without_a_function_is_not_chosen(tmp_path, declared, only):
    body = """
    static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
      (void)t;
      for (int64_t i = 0; i < s->size; ++i) y[i] = 2 * x[i];
      return 0;
    }
    """
    double = Kernel(
        "Double", "d",
        inputs=[Tensor("x", "float32", declared)],
        outputs=[Tensor("y", "float32", declared)], c=C(body, {("float32", only): "f"}),
    )  # fmt: skip
    w = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    given = np.random.default_rng(0).random((1, 3, 4, 5), np.float32)
    for between_convolutions in (False, True):
        g = GraphBuilder()
        x = g.input("x", given.shape)
        g.output(
            "y",
            g.Conv(g.add(double, g.Conv(x, w)), w) if between_convolutions else g.add(double, x),
        )
        (y,) = compiled(g, {"x": given}, tmp_path)
        np.testing.assert_allclose(y, 2 * given, 1e-6)
