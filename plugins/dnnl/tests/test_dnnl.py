"""Test the device dnnl against onnxruntime: matmuls, fused epilogues, layouts, sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_case import judge, network, normal, region_ops
from onnx_case import run as run_on
from sample_devices import run_library

import tvmrt
from tvmrt.compiler.devices.region_json import region_text
from tvmrt.conformance import operators
from tvmrt.devices import get

pytestmark = pytest.mark.usefixtures("dnnl")


def run(model, feeds, tmp_path, executor="graph", **options):
    return run_on(model, feeds, tmp_path, "dnnl", executor, **options)


def test_every_operator_of_the_conformance_tests():
    findings = operators.check(get("dnnl"), 1e-3)
    assert {f.subject.partition(":")[0] for f in findings} >= {"Conv", "ConvTranspose", "MatMul"}
    assert not [f for f in findings if not f.passed]


CONV = ("Conv", ["x", "w"], "c", {})
CHAINS = {
    "conv-relu": [CONV, ("Relu", ["c"], "y", {})],
    "conv-bias-relu": [CONV, ("Add", ["bias", "c"], "d", {}), ("Relu", ["d"], "y", {})],
    "conv-clip": [CONV, ("Clip", ["c", "low", "high"], "y", {})],
    "conv-one-bound": [CONV, ("Min", ["high", "c"], "y", {})],
    "conv-plus-input": [CONV, ("Add", ["c", "x"], "y", {})],
    "conv-sum-clip": [CONV, ("Add", ["c", "x"], "d", {}), ("Clip", ["d", "low", "high"], "y", {})],
    "conv-relu-sum": [CONV, ("Relu", ["c"], "d", {}), ("Add", ["d", "x"], "y", {})],
    "bias-relu-sum": [
        CONV,
        ("Add", ["c", "bias"], "d", {}),
        ("Relu", ["d"], "e", {}),
        ("Add", ["e", "x"], "y", {}),
    ],
}
WEIGHTS = {
    "w": normal(6, 6, 1, 1),
    "v": normal(6, 6, 1, 1),
    "u": normal(6, 3, 3, 3),
    "low": np.float32(-0.5).reshape(()),
    "high": np.float32(0.75).reshape(()),
    "bias": normal(1, 6, 1, 1),
}
X = {"x": normal(1, 6, 7, 5)}


def chain(nodes) -> onnx.ModelProto:
    used = {name for _, names, _, _ in nodes for name in names}
    return network(nodes, X, {k: v for k, v in WEIGHTS.items() if k in used}, {"y": "float32"})


@pytest.mark.parametrize(
    ("case", "executor"), [*((case, "graph") for case in CHAINS), ("conv-sum-clip", "aot")]
)
def test_chains_are_one_region_and_right(tmp_path, case, executor):
    model = chain(CHAINS[case])
    library, (found,) = run(model, X, tmp_path, executor)
    assert {row.device for row in library.summary.nodes} == {"dnnl"}
    assert len(library.partition.regions) == 1
    np.testing.assert_allclose(found, judge(model, X)[0], 1e-4, 1e-5)


TOGETHER = {
    "two-convs-added": [
        CONV,
        ("Conv", ["x", "v"], "d", {}),
        ("Add", ["c", "d"], "e", {}),
        ("Relu", ["e"], "y", {}),
    ],
    "block": [
        CONV,
        ("Relu", ["c"], "d", {}),
        ("Conv", ["d", "u"], "e", {"group": 2, "pads": [1, 1, 1, 1]}),
        ("Add", ["e", "x"], "f", {}),
        ("Relu", ["f"], "g", {}),
        ("Conv", ["g", "v"], "h", {}),
        ("Add", ["h", "f"], "y", {}),
    ],
    "added-to-itself": [CONV, ("Add", ["c", "c"], "d", {}), ("Conv", ["d", "v"], "y", {})],
    "bounds-in-the-other-order": [
        CONV,
        ("Min", ["c", "low"], "d", {}),
        ("Max", ["d", "high"], "e", {}),
        ("Conv", ["e", "v"], "y", {}),
    ],
    "rectified-twice": [
        CONV,
        ("Add", ["c", "bias"], "d", {}),
        ("Relu", ["d"], "e", {}),
        ("Conv", ["e", "v"], "f", {}),
        ("Add", ["f", "e"], "g", {}),
        ("Relu", ["g"], "y", {}),
    ],
}


@pytest.mark.parametrize("case", TOGETHER)
def test_chains_that_read_each_other(tmp_path, case):
    model = chain(TOGETHER[case])
    library, (found,) = run(model, X, tmp_path)
    assert sum(ops.count("conv") for ops in region_ops(library)) == len(
        [node for node in TOGETHER[case] if node[0] == "Conv"]
    )
    np.testing.assert_allclose(found, judge(model, X)[0], 1e-4, 1e-5)


def test_epilogues_are_fused_into_the_primitive(tmp_path):
    """Check oneDNN's log: one primitive with the fused add and clamp."""
    model = chain(CHAINS["conv-sum-clip"])
    run(model, X, tmp_path, "aot")
    code = "import sys, numpy, tvmrt; m = tvmrt.runtime.load_module(sys.argv[1])\n"
    code += "f = tvmrt.runtime.executor.AotModule(m['default'](tvmrt.cpu(0))); f.run()"
    variables = {**os.environ, "DNNL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "net.so")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines() if ",exec," in line]
    kinds = [row[row.index("exec") + 2] for row in rows]
    assert kinds.count("convolution") == 1
    assert not {"eltwise", "binary"} & set(kinds)
    assert any("binary_add" in field and "clip" in field for row in rows for field in row)


def test_infinities_pass_a_bound_on_the_other_side(tmp_path):
    x = normal(1, 6, 2, 2)
    x[0, 0], x[0, 1] = np.inf, -np.inf
    weights = {"w": np.eye(6, dtype=np.float32).reshape(6, 6, 1, 1)[:, :1], "low": WEIGHTS["low"]}
    nodes = [("Conv", ["x", "w"], "c", {"group": 6}), ("Max", ["c", "low"], "y", {})]
    weights["w"] = np.ones((6, 1, 1, 1), np.float32)
    model = network(nodes, {"x": x}, weights, {"y": "float32"})
    library, (found,) = run(model, {"x": x}, tmp_path)
    assert region_ops(library) == [["conv", "max"]]
    np.testing.assert_array_equal(found, np.maximum(x, -0.5))


PRODUCTS = {
    "rows": ((2, 3, 4), [("MatMul", ["x", "w"], "y", {})], {"w": normal(4, 5)}),
    "rows-then-column-and-whole": (
        (2, 3, 4),
        [
            ("MatMul", ["x", "w"], "p", {}),
            ("Add", ["p", "row"], "q", {}),
            ("Relu", ["q"], "r", {}),
            ("Add", ["r", "whole"], "y", {}),
        ],
        {"w": normal(4, 5), "row": normal(5), "whole": normal(2, 3, 5)},
    ),
    "a-bias-of-batches": (
        (2, 3, 4),
        [("MatMul", ["x", "w"], "p", {}), ("Add", ["p", "b"], "y", {})],
        {"w": normal(4, 5), "b": normal(2, 1, 5)},
    ),
    "batches": (
        (2, 3, 4),
        [("MatMul", ["x", "w"], "p", {}), ("Add", ["p", "b"], "y", {})],
        {"w": normal(2, 4, 5), "b": normal(3, 5)},
    ),
    "gemm": (
        (3, 4),
        [("Gemm", ["x", "w", "b"], "p", {"transB": 1}), ("Relu", ["p"], "y", {})],
        {"w": normal(5, 4), "b": normal(5)},
    ),
    "broadcast-to-more": (
        (1, 4),
        [("MatMul", ["x", "w"], "p", {}), ("Add", ["p", "many"], "y", {})],
        {"w": normal(4, 5), "many": normal(3, 5)},
    ),
    "image-in-steps": (
        (1, 4, 9, 8),
        [("Conv", ["x", "w", "b"], "c", {"pads": [1, 1, 0, 2], "strides": [2, 1], "group": 2,
                                         "dilations": [1, 2]}),
         ("Relu", ["c"], "y", {})],
        {"w": normal(6, 2, 3, 3), "b": normal(6)},
    ),
    "transposed-groups": (
        (1, 4, 5, 3),
        [("ConvTranspose", ["x", "w"], "c", {"strides": [2, 3], "output_padding": [1, 0],
                                             "group": 2}),
         ("Relu", ["c"], "y", {})],
        {"w": normal(4, 3, 3, 2)},
    ),
    "transposed": (
        (2, 4, 5),
        [("ConvTranspose", ["x", "w", "b"], "y", {"pads": [1, 0], "strides": [2]})],
        {"w": normal(4, 3, 3), "b": normal(3)},
    ),
    "cubes": (
        (1, 2, 4, 5, 3),
        [("Conv", ["x", "w"], "c", {"pads": [1] * 6}), ("Relu", ["c"], "y", {})],
        {"w": normal(3, 2, 3, 3, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS)
def test_matmuls_with_operands_of_every_form(tmp_path, case):
    shape, nodes, weights = PRODUCTS[case]
    feeds = {"x": normal(*shape)}
    model = network(nodes, feeds, weights, {"y": "float32"})
    library, (found,) = run(model, feeds, tmp_path)
    assert len(library.partition.regions) == 1
    np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-4)


def test_other_operators_stay_on_the_cpu_between_regions(tmp_path):
    nodes = [
        CONV,
        ("Relu", ["c"], "d", {}),
        ("MaxPool", ["d"], "p", {"kernel_shape": [2, 2]}),
        ("Conv", ["p", "v"], "q", {}),
        ("Sigmoid", ["q"], "y", {}),
    ]
    model = chain(nodes)
    library, (found,) = run(model, X, tmp_path)
    assert region_ops(library) == [["conv", "relu"], ["conv"]]
    assert [r.device for r in library.summary.nodes] == ["dnnl", "dnnl", "cpu", "dnnl", "cpu"]
    np.testing.assert_allclose(found, judge(model, X)[0], 1e-4, 1e-5)


def test_network_wholly_on_the_device_has_no_boundary_copies(tmp_path):
    model = chain(CHAINS["conv-relu"])
    library, (found,) = run(model, X, tmp_path)
    assert [row.copied for row in library.summary.borders] == [False, False]
    np.testing.assert_allclose(found, judge(model, X)[0], 1e-4, 1e-5)


def layers() -> tuple[onnx.ModelProto, dict]:
    feeds = {"x": normal(1, 8, 12, 12)}
    weights = {"w": normal(16, 8, 3, 3) / 8, "v": normal(16, 16, 3, 3) / 12}
    nodes = [CONV, ("Relu", ["c"], "d", {}), ("Conv", ["d", "v"], "y", {})]
    return network(nodes, feeds, weights, {"y": "float32"}), feeds


def test_sessions_of_one_library_share_the_device(tmp_path):
    model, feeds = layers()
    _, (first,) = run(model, feeds, tmp_path)
    (second,) = run_library(tmp_path / "net.so", "graph", dict(feeds))
    np.testing.assert_array_equal(first, second)


def test_number_of_threads_may_change_between_runs(tmp_path):
    from tvmrt.contrib.graph_executor import GraphModule

    model, feeds = layers()
    run(model, feeds, tmp_path)
    configure = tvmrt.get_global_func("runtime.config_threadpool")
    net = GraphModule(tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0)))
    net.set_input(**feeds)
    try:
        for threads in (1, 2, 1):
            configure(1, threads)
            net.run()
            found = net.get_output(0).numpy()
            np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-5)
    finally:
        configure(1, 0)


def test_region_at_another_resolution_without_reloading(tmp_path):
    model, feeds = layers()
    library, _ = run(model, feeds, tmp_path)
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    symbol = "tvmgen_default_dnnl_main_0"
    reshape = tvmrt.get_global_func("tvmrt.device.reshape")
    (part,) = library.partition.regions
    region = json.loads(region_text([part], "dnnl")[0])["regions"][0]
    shapes = {"x": (1, 8, 20, 16), "c": (1, 16, 18, 14), "d": (1, 16, 18, 14), "y": (1, 16, 16, 12)}
    numbers = [*region["inputs"], *(node["outputs"][0] for node in region["nodes"])]
    changes = []
    for number, shape in zip(numbers, shapes.values()):
        changes += [number, tvmrt.runtime.ShapeTuple(shape)]
    reshape(module, symbol, *changes)
    large = normal(*shapes["x"])
    x, y = (tvmrt.nd.array(a) for a in (large, np.zeros(shapes["y"], np.float32)))
    module.get_function(symbol, query_imports=True)(x, y)
    np.testing.assert_allclose(y.numpy(), layers_of(large, model), 1e-4, 1e-5)


def layers_of(x: np.ndarray, model: onnx.ModelProto) -> np.ndarray:
    """Return onnxruntime's result at another resolution."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.input[0].CopyFrom(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))
    )
    return judge(copy, {"x": x})[0]
