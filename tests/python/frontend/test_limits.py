"""Inputs beyond a limit are refused at once, by a sentence with the limit."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
from onnx import helper

import tvmrt
from tvmrt.compiler.ir import limits
from tvmrt.compiler.ir.sizes import MAX_WEIGHT
from tvmrt.compiler.ir.tensor_type import MAX_RANK
from tvmrt.error import UnsupportedError

ROOT = Path(__file__).parents[3]

# The network, ONNX's opset, and words of the error.
BEYOND = [
    pytest.param("(float[7] a) => (float[2] b, float[5] c)"
                 " { b, c = Split<num_outputs = 4294967296>(a) }", 18,
                 "num_outputs is 4294967296, but the outputs are 2", id="Split"),
    pytest.param("(float[1] a) => (float[N] y) <int64[1] n = {2147483647}> { y = Expand(a, n) }",
                 17, "takes 8589934588 bytes; the limit is max_memory=4294967296", id="Expand"),
    pytest.param("(float[1] a) => (float[N] y) <float[1] c = {1}, int64[1] n = {2147483647}>"
                 " { e = Expand(c, n) y = Add(e, a) }", 17, "max_memory=4294967296",
                 id="Expand-constant"),
    pytest.param("(float[1] a) => (float[N] y) <int64[1] n = {2147483647}> { y = Tile(a, n) }",
                 17, "max_memory=4294967296", id="Tile"),
    pytest.param("(float[1] a) => (float[N] y) <int64[2] n = {0, 2147483646}> { y = Pad(a, n) }",
                 17, "max_memory=4294967296", id="Pad"),
    pytest.param("(float[1] a) => (float[N] y) <int64[1] n = {3000000000}>"
                 " { e = ConstantOfShape(n) y = Add(e, a) }", 17, "2147483647",
                 id="ConstantOfShape"),
    pytest.param("(float[1] a) => (float[N] y) <int64 s = {0}, int64 e = {9000000000}, int64 d = "
                 "{1}> { r = Range(s, e, d) f = Cast<to = 1>(r) y = Add(f, a) }", 17,
                 "9000000000 elements; the maximum is 16777216", id="Range"),
    pytest.param("(int64[1] a) => (float[1, N] y) <int64 d = {2147483647}, float[2] v = {0, 1}>"
                 " { y = OneHot(a, d, v) }", 17, "the maximum is 16777216", id="OneHot"),
    pytest.param("(float[1, 1, 1, 1] a) => (float[1, 1, 1, N] y) <int64[4] s = {1, 1, 1, 99999999}>"
                 ' { y = Resize<mode = "cubic">(a, , , s) }', 17, "the maximum is 2097152",
                 id="Resize"),
    pytest.param("(float[1, 1, 1, 1] a) => (float[1, 1, N, M] y) <float[4] s = {1, 1, 99999, "
                 "99999}> { y = Upsample(a, s) }", 9, "2147483647", id="Upsample"),
    pytest.param("(float[1] a) => (float[N] y) <int64 n = {2147483647}>"
                 " { w = HannWindow(n) y = Add(a, w) }", 17, "the maximum is 16777216",
                 id="HannWindow"),
    pytest.param("(float[99999, 99999] a) => (float[N, M] y) { y = EyeLike(a) }", 17,
                 "the maximum is 16777216", id="EyeLike"),
    pytest.param("(float[1, 2, 3] t) => (float[1, N, M, 2] y) <int64[4] s = {1, 1, 99999, 99999}>"
                 " { y = AffineGrid(t, s) }", 20, "the maximum is 16777216", id="AffineGrid"),
    pytest.param("(float[1, 4, 4] t) => (float[1, 1, N, M] y) <int64[2] s = {999999, 999999},"
                 " int64[2] b = {2, 2}> { y = Col2Im(t, s, b) }", 18, "the maximum is 16777216",
                 id="Col2Im"),
    pytest.param("(float[99999] a, float[99999] b) => (float[N, M] y)"
                 ' { y = Einsum<equation = "i,j->ij">(a, b) }', 17, "2147483647",
                 id="Einsum"),
    pytest.param("(float[1, 8, 1] a) => (float[1, N, 2] y) <int64 n = {3000000000}>"
                 " { y = DFT<axis = 1>(a, n) }", 17, "2147483647", id="DFT"),
    pytest.param("(float[4] a) => (float[N] y) <int64 n = {5000}> { y = Loop<"
                 "body = b (int64 i, bool g, float[K] p) => (bool g, float[M] q)"
                 " { q = Concat<axis = 0>(p, p) }>(n, , a) }",
                 17, "is 4 before an iteration .* is unbounded", id="Loop that grows"),
]  # fmt: skip


def parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(f"{head} g {text}")


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    """The imports of the first compilation take time as well."""
    tvmrt.compile(parsed(RELU))


@pytest.mark.parametrize("text, opset, words", BEYOND)
def test_a_number_beyond_a_bound_is_refused_before_any_work(text, opset, words):
    begin = time.process_time()
    with pytest.raises((ValueError, UnsupportedError), match=words):
        tvmrt.compile(parsed(text, opset))
    assert time.process_time() - begin < 60


def test_functions_that_call_one_another_twice_are_counted_first():
    node, info = helper.make_node, helper.make_tensor_value_info
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "f0", ["x"], ["y"], [node("Relu", ["x"], ["y"])],
                                      opsets)]  # fmt: skip
    for i in range(1, 40):
        twice = [node(f"f{i - 1}", ["x"], ["h"], domain="own"),
                 node(f"f{i - 1}", ["h"], ["y"], domain="own")]  # fmt: skip
        functions.append(helper.make_function("own", f"f{i}", ["x"], ["y"], twice, opsets))
    ends = [[info(name, 1, [2])] for name in ("a", "b")]
    graph = helper.make_graph([node("f39", ["a"], ["b"], domain="own")], "g", *ends)
    model = helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=8)
    with pytest.raises(
        ValueError, match=f"expand to {2**39} nodes; the maximum for a network of this size is 1103"
    ):
        tvmrt.compile(model)


RELU = "(float[1000] a) => (float[1000] y) { y = Relu(a) }"
WEIGHTED = "(float[1] a) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Add(a, w) }"


@pytest.mark.parametrize(
    "text, nbytes", [(RELU, 8000), (WEIGHTED, 4 + 12 + 12)], ids=["tensors", "weights"]
)
def test_the_bound_on_memory_is_exact(text, nbytes):
    tvmrt.compile(parsed(text), max_memory=nbytes)
    with pytest.raises(UnsupportedError, match=f"max_memory={nbytes - 1};"):
        tvmrt.compile(parsed(text), max_memory=nbytes - 1)


@pytest.mark.parametrize("taps", [60, 70, 1_000_000])
def test_windows_of_dynamic_weights_are_fast(taps):
    shapes = f"(float[2, 4, {taps + 1}] a, float[4, 1, {taps}] w) => (float[2, 4, 2] y)"
    begin = time.process_time()
    program = tvmrt.compile(parsed(shapes + " { y = Conv<group = 4>(a, w) }"))
    assert time.process_time() - begin < 60
    assert len(program.program.steps) <= 62


def test_windows_gathered_by_tables_are_right(tmp_path):
    """9 x 9 taps with strides, dilations, pads and groups, compared with a direct convolution."""
    text = """(float[2, 4, 21, 19] x, float[6, 2, 9, 9] w) => (float[2, 6, N, M] y) {
        y = Conv<group = 2, strides = [2, 1], dilations = [1, 2], pads = [1, 2, 0, 3]>(x, w) }"""
    model = parsed(text)
    random = np.random.default_rng(3)
    feeds = {"x": random.standard_normal((2, 4, 21, 19)).astype(np.float32),
             "w": random.standard_normal((6, 2, 9, 9)).astype(np.float32)}  # fmt: skip
    tvmrt.compile(model).export(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    executor.run(**feeds)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0]
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_documentation_lists_the_bounds():
    page = (ROOT / "docs" / "reference" / "limits.md").read_text()
    tables = limits.MAX_TABLE, limits.MAX_TABLES, limits.MAX_FOLDED_BYTES
    written = limits.MAX_UNROLLED_ITERATIONS, limits.MAX_UNROLLED_NODES, limits.MIN_UNROLLED_NODES
    for bound in (limits.MAX_MEMORY, limits.MAX_ELEMENTS, MAX_RANK, MAX_WEIGHT, *tables, *written):
        assert f"{bound:,}" in page


def test_a_long_vector_takes_no_memory_to_compile(tmp_path):
    """The onnx package would store an extent for each of its elements."""
    network = parsed("(float[500000000] x, float s) => (float[500000000] y) { y = Sub(x, s) }")
    onnx.save(network, tmp_path / "long.onnx")
    script = (
        "import resource, sys, tvmrt;"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30));"
        "tvmrt.compile(sys.argv[1])"
    )
    # numpy's threads, one per processor, reserve addresses as well
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, tmp_path / "long.onnx"]
    subprocess.run(command, check=True, env=environment)
