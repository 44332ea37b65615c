"""Custom operators in networks with dynamic dimensions."""

from __future__ import annotations

import subprocess
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from dynamic_networks import FLOAT, Draft
from onnx import helper
from sized_call import program_text, read_results, write_runs

import tvmrt
from tvmrt.compiler.custom import plugin_kernel
from tvmrt.compiler.ir import DTYPES, TensorType
from tvmrt.custom import C, Kernel, Tensor, composed, load_operators
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path
from tvmrt.runtime.executor import AotModule, GraphModule

ROOT = Path(__file__).parents[3]
DOMAIN = "example.sizes"
EXECUTORS = {"graph": GraphModule, "aot": AotModule}
DIMS = {"rows": (1, 5), "length": (2, 40)}
SIZES = [(5, 40), (1, 2), (3, 17), (2, 3), (5, 40)]

# sums of pairs of elements plus a bias, through scratch memory
BODY = """
static int32_t halves(const float *x, const tvmrt_shape *x_shape, float *y,
                      const tvmrt_shape *y_shape, float bias, void *scratch) {
  float *kept = (float *)scratch;
  const int64_t length = x_shape->dim[1], made = y_shape->dim[1];
  if (made != length / 2 + 1 || x_shape->size != x_shape->dim[0] * length) return -1;
  for (int64_t row = 0; row < x_shape->dim[0]; ++row) {
    for (int64_t i = 0; i < length; ++i) kept[i] = x[row * length + i] + bias;
    for (int64_t i = 0; i < made; ++i) {
      y[row * made + i] = (2 * i < length ? kept[2 * i] : 0) +
                          (2 * i + 1 < length ? kept[2 * i + 1] : 0);
    }
  }
  return 0;
}
"""


def halves(shape=lambda x, *, bias: (x.shape[0], x.shape[1] // 2 + 1), **more):
    fields = {
        "inputs": [Tensor("x", "float32")],
        "outputs": [Tensor("y", "float32")],
        "scalars": {"bias": ("float", 0.5)},
        "shape": shape,
        "c": C(BODY, "halves", lambda x, y, *, bias: 4 * x.shape[1]),
    }
    return Kernel("Halves", DOMAIN, **{**fields, **more})


def halved(x):
    padded = np.zeros((len(x), 2 * (x.shape[1] // 2 + 1)), np.float32)
    padded[:, : x.shape[1]] = x + np.float32(0.5)
    return padded.reshape(len(x), -1, 2).sum(axis=2)


@composed("Scaled", domain=DOMAIN)
def scaled(g, x, *, gain=2.0):
    """Scale the sum of each row, with all rows reshaped to one in between."""
    flat = g.Reshape(x, [1, x.shape[0] * x.shape[1]])
    rows = g.Reshape(flat, [x.shape[0], -1])
    return g.Div(g.Mul(g.ReduceSum(rows, np.array([1], np.int64)), gain), 3.0)


def network():
    d = Draft()
    summed = d.node("Halves", ["x"], domain=DOMAIN)
    y = d.node("Relu", [summed])
    z = d.node("Scaled", [summed], domain=DOMAIN, gain=6.0)
    model = d.model({"x": (FLOAT, ["rows", "length"])}, {y: FLOAT, z: FLOAT})
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def rows_of(sizes):
    rng = np.random.default_rng(sum(sizes))
    return rng.normal(size=sizes).astype(np.float32)


def check(found, x):
    y, z = found
    expected = halved(x)
    np.testing.assert_allclose(y, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(z, 2 * expected.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_kernels_get_the_extents_of_each_run(executor, tmp_path):
    library = tvmrt.compile(network(), dims=DIMS, operators=[halves(), scaled], executor=executor)
    library.export_library(str(tmp_path / "net.so"))
    factory = tvmrt.runtime.load_module(str(tmp_path / "net.so"))["default"]
    session = EXECUTORS[executor](factory(tvmrt.cpu(0)))
    for sizes in SIZES:
        x = rows_of(sizes)
        session.set_input("x", x)
        session.run()
        check([session.get_output(i).numpy() for i in range(2)], x)


def test_kernels_on_boards_get_the_extents_of_each_run(tmp_path):
    """Scratch has the maximum size; sanitizers check the run."""
    library = tvmrt.compile(
        network(), dims=DIMS, operators=[halves(), scaled], target="cortex-m4",
        interface_api="c", module_name="net",
    )  # fmt: skip
    (step,) = [s for s in library.program.steps if s.group.root.op == "custom"]
    assert step.scratch_bytes == 4 * 40
    library.export_sources(tmp_path)
    (tmp_path / "main.c").write_text(program_text(library))
    flags = [f"-I{path}" for path in [tmp_path, *find_include_path()]]
    sources = [str(path) for path in sorted(tmp_path.glob("*.c"))]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    program = str(tmp_path / "program")
    subprocess.run(["cc", *strict, *flags, *sources, "-lm", "-o", program], check=True)
    inputs = [rows_of(sizes) for sizes in SIZES]
    runs = [({"rows": len(x), "length": x.shape[1]}, {"x": x}) for x in inputs]
    write_runs(library, runs, tmp_path)
    subprocess.run([program], cwd=tmp_path, check=True)
    found = read_results(library, tmp_path)
    assert len(found) == len(SIZES)
    for results, x in zip(found, inputs):
        check(results, x)


REFUSED = [
    pytest.param({"shape": lambda x, *, bias: (x.shape[0], max(x.shape[1], 7))},
                 r"shape: the function of example.sizes::Halves: whether .* \(length = 2..40\)",
                 id="a comparison"),
    pytest.param({"shape": lambda x, *, bias: (x.shape[0], int(x.shape[1] / 2) + 1)},
                 "shape: the function of example.sizes::Halves: the quotient length / 2",
                 id="floats"),
    pytest.param({"c": C(BODY, lambda x, y, *, bias: ["halves"] * x.shape[0])},
                 "c.function: the function of example.sizes::Halves: the extent rows",
                 id="choice of a function"),
]  # fmt: skip


@pytest.mark.parametrize("fields, sentence", REFUSED)
def test_use_of_a_dynamic_extent_as_a_number_is_refused(fields, sentence):
    """The error is at the node; fixed sizes still work."""
    operators = [halves(**fields), scaled]
    with pytest.raises(UnsupportedError, match=sentence) as problem:
        tvmrt.compile(network(), dims=DIMS, operators=operators)
    assert "Halves0_0" in str(problem.value)


def test_a_shape_below_zero_is_refused():
    operators = [halves(lambda x, *, bias: (x.shape[0], x.shape[1] - 3)), scaled]
    with pytest.raises(ValueError, match=r"shape: .* is neither a shape"):
        tvmrt.compile(network(), dims=DIMS, operators=operators)


SHARED = """
#include <string.h>
#include <tvm/runtime/custom_op.h>

static const char body[] =
    "static int32_t twice(const float *x, const tvmrt_shape *x_shape, float *y,\\n"
    "                     const tvmrt_shape *y_shape, void *scratch) {\\n"
    "  memcpy(scratch, x, (size_t)x_shape->size * 4);\\n"
    "  for (int64_t i = 0; i < y_shape->size; ++i) y[i] = 2 * ((const float *)scratch)[i];\\n"
    "  return 0;\\n"
    "}\\n"
    "static int32_t thrice(const float *x, const tvmrt_shape *x_shape, float *y,\\n"
    "                      const tvmrt_shape *y_shape, void *scratch) {\\n"
    "  (void)x, (void)x_shape, (void)y, (void)y_shape, (void)scratch;\\n"
    "  return -1;\\n"
    "}\\n";

static const char *always(const tvmrt_op_call *call) {
  (void)call;
  return "twice";
}

static const char *by_size(const tvmrt_op_call *call) {
  return call->inputs[0].shape[1] < 20 ? "twice" : "thrice";
}

static int64_t bytes(const tvmrt_op_call *call) {
  return 4 * call->inputs[0].shape[0] * call->inputs[0].shape[1];
}

static const char *same(const tvmrt_op_call *call, tvmrt_op_shape *out) {
  out->ndim = 2;
  memcpy(out->dim, call->inputs[0].shape, 16);
  return NULL;
}

static const tvmrt_op_operand in[] = {{"x", "float32", NULL, 0}};
static const tvmrt_op_operand out[] = {{"y", "float32", NULL, 0}};
#define KERNEL(title, shaped, chosen) \\
  {.struct_bytes = sizeof(tvmrt_op_kernel), .name = title, .domain = "example.sizes", \\
   .version = 1, .inputs = in, .num_inputs = 1, .outputs = out, .num_outputs = 1, \\
   .shape = shaped, .c_source = body, .c_function = chosen, .c_scratch = bytes}
static const tvmrt_op_kernel kernels[] = {
    KERNEL("Twice", NULL, always), KERNEL("Chosen", NULL, by_size), KERNEL("Shaped", same, always)};

const tvmrt_operators *tvmrt_get_operators(void) {
  static const tvmrt_operators all = {TVMRT_OPERATORS_ABI, kernels, 3, NULL, 0};
  return &all;
}
"""


@pytest.fixture(scope="module")
def declared_in_c(tmp_path_factory):
    folder = tmp_path_factory.mktemp("declared")
    (folder / "operators.c").write_text(SHARED)
    path = folder / "liboperators.so"
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run(["cc", *flags, str(folder / "operators.c"), "-o", str(path)], check=True)
    return load_operators(path)


def alone(op):
    d = Draft()
    y = d.node(op, ["x"], domain=DOMAIN)
    model = d.model({"x": (FLOAT, ["rows", "length"])}, {y: FLOAT})
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def test_c_shape_functions_are_called_for_both_bounds(declared_in_c, tmp_path):
    library = tvmrt.compile(alone("Twice"), dims=DIMS, operators=declared_in_c)
    assert library.program.steps[0].scratch_bytes == 4 * 5 * 40
    library.export_library(str(tmp_path / "net.so"))
    factory = tvmrt.runtime.load_module(str(tmp_path / "net.so"))["default"]
    session = GraphModule(factory(tvmrt.cpu(0)))
    for sizes in SIZES:
        x = rows_of(sizes)
        session.set_input("x", x)
        session.run()
        np.testing.assert_array_equal(session.get_output(0).numpy(), 2 * x)


@pytest.mark.parametrize(
    "op, sentence",
    [
        ("Chosen", "Chosen: it returns thrice at the upper bounds and twice at the lower bounds"),
        ("Shaped", r"Shaped: its C function takes numbers.*\(length = 2..40, rows = 1..5\)"),
    ],
)
def test_undecidable_c_shape_function_is_refused(declared_in_c, op, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        tvmrt.compile(alone(op), dims=DIMS, operators=declared_in_c)
    tvmrt.compile(alone(op), shapes={"x": (3, 8)}, operators=declared_in_c)


def test_arguments_of_a_c_shape_function_outlive_the_call(declared_in_c, monkeypatch):
    """The shape of an output is read through a pointer into the arguments."""
    shaped = next(one for one in declared_in_c if one.name.endswith("Shaped"))
    calls, alive, given = [], [], shaped._declaration

    class Kept(plugin_kernel.Call):
        def __init__(self, *args):
            super().__init__(*args)
            calls.append(weakref.ref(self))

    def shape(pointer, rows):
        alive.append(calls[-1]() is not None)
        return given.shape(pointer, rows)

    monkeypatch.setattr(plugin_kernel, "Call", Kept)
    monkeypatch.setattr(shaped, "_declaration", SimpleNamespace(shape=shape))
    assert shaped._shape_in_c(TensorType((3, 8), DTYPES["float32"])) == [(3, 8)] and alive == [True]
