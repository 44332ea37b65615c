"""Custom operators in networks with dynamic dimensions."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from dynamic_networks import FLOAT, Draft
from onnx import helper
from sized_call import program_text, read_results, write_runs

import tvmrt
from tvmrt.custom import C, Kernel, Tensor, composed
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path
from tvmrt.runtime.executor import AotModule, GraphModule

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
