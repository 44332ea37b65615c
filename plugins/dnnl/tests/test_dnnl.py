"""Test the device dnnl against onnxruntime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from any_size_case import check_on_device
from device_here import have
from memory_growth import check_large
from onnx_case import judge, network, normal, region_ops, run
from region_programs import call_with_strides, load

import tvmrt
from tvmrt.conformance import operators
from tvmrt.devices import get

ROOT = Path(__file__).parents[3]
WHEELS = ["onednn-cpu-gomp==2023.2.0", "onednn-devel-cpu-gomp==2023.2.0"]  # oneDNN 3.2
X = {"x": normal(1, 6, 7, 5)}
ROWS = {"x": normal(2, 3, 4)}
CONV = ("Conv", ["x", "w"], "c", {})
MATMUL = ("MatMul", ["x", "m"], "c", {})
WEIGHTS = {
    "w": normal(6, 6, 1, 1), "u": normal(6, 3, 3, 3), "bias": normal(1, 6, 1, 1),
    "low": np.float32(-0.5), "high": np.float32(0.75), "m": normal(4, 5), "row": normal(5),
    "column": normal(3, 1), "batches": normal(2, 4, 5), "whole": normal(2, 3, 5),
}  # fmt: skip
STEPS = {"pads": [1, 1, 0, 2], "strides": [2, 1], "dilations": [1, 2], "group": 2}
CASES = {
    "bias, clip, residual": (X, [["conv", "max", "min", "add"]], [
        CONV, ("Add", ["bias", "c"], "d", {}), ("Clip", ["d", "low", "high"], "e", {}),
        ("Add", ["e", "x"], "y", {})]),
    "windows": (X, [["conv", "relu"]], [
        ("Conv", ["x", "u"], "d", STEPS), ("Relu", ["d"], "y", {})]),
    "others stay on the CPU": (X, [["conv", "min"], ["conv"]], [
        CONV, ("Min", ["c", "high"], "d", {}), ("Sigmoid", ["d"], "e", {}),
        ("Conv", ["e", "w"], "f", {}), ("Exp", ["f"], "y", {})]),
    "added to itself": (X, [["conv"], ["conv"]], [
        CONV, ("Add", ["c", "c"], "d", {}), ("Conv", ["d", "w"], "y", {})]),
    "bounds that cross": (X, [["conv", "max", "min"]], [
        CONV, ("Max", ["c", "high"], "d", {}), ("Min", ["d", "low"], "y", {})]),
    "rows": (ROWS, [["matmul", "relu", "add"]], [
        MATMUL, ("Add", ["c", "row"], "d", {}), ("Relu", ["d"], "e", {}),
        ("Add", ["e", "whole"], "y", {})]),
    "batches": (ROWS, [["matmul"]], [
        ("MatMul", ["x", "batches"], "c", {}), ("Add", ["row", "c"], "y", {})]),
    "a column added": (ROWS, [["matmul"]], [MATMUL, ("Add", ["c", "column"], "y", {})]),
    "no constant": (ROWS, [["matmul"]], [
        ("Transpose", ["x"], "t", {"perm": [0, 2, 1]}), ("MatMul", ["x", "t"], "y", {})]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def dnnl():
    have("dnnl")


def test_conformance():
    findings = operators.check(get("dnnl"), 1e-3)
    assert {f.subject.partition(":")[0] for f in findings} >= {"Conv", "Gemm", "MatMul"}
    assert not [f for f in findings if not f.passed]


def library_of(case, folder, executor="graph"):
    feeds, _, nodes = CASES[case]
    used = {name for _, names, _, _ in nodes for name in names}
    weights = {k: np.asarray(v) for k, v in WEIGHTS.items() if k in used}
    model = network(nodes, feeds, weights, {"y": "float32"})
    return model, *run(model, feeds, folder, "dnnl", executor)


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("case", CASES)
def test_each_layer_is_a_region(tmp_path, case, executor):
    model, library, (found,) = library_of(case, tmp_path, executor)
    assert region_ops(library) == CASES[case][1]
    np.testing.assert_allclose(found, judge(model, CASES[case][0])[0], 1e-4, 1e-5)


@pytest.mark.parametrize("name", ["convolutions", "encoder"])
def test_dynamic_sizes(name, tmp_path):
    check_on_device("dnnl", name, "aot", tmp_path)


def test_layer_is_one_primitive(tmp_path):
    library_of("bias, clip, residual", tmp_path)
    code = "import sys; from tvmrt.runtime import cpu, load_module as load\n"
    code += "load(sys.argv[1])['default'](cpu(0))['run']()"
    command = [sys.executable, "-c", code, str(tmp_path / "net.so")]
    variables = {**os.environ, "DNNL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    lines = subprocess.check_output(command, env=variables, text=True).splitlines()
    (row,) = [line for line in lines if ",exec," in line and "reorder" not in line]
    assert "eltwise_clip" in row and "binary_add" in row


def test_number_of_threads_may_change_between_runs(tmp_path):
    _, _, (expected,) = library_of("rows", tmp_path)
    net = tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0))
    for threads in (1, 2, 0):
        tvmrt.get_global_func("runtime.config_threadpool")(1, threads)
        tvmrt.contrib.graph_executor.GraphModule(net).run(**ROWS)
        np.testing.assert_allclose(net["get_output"](0).numpy(), expected, 1e-5, 1e-6)


@pytest.mark.slow
def test_weights_are_in_memory_once(tmp_path):
    check_large(tmp_path, "dnnl")


WINDOW = {"strides": [1, 1], "dilations": [1, 1], "pads_before": [0, 0]}
HUGE = WINDOW | {"strides": [1, 2**63 - 1]}
IMAGE, ONES = [1, 2, 5, 5], np.ones((4, 2, 1, 1), np.float32)
SQUARE, TRIPLE = ONES[:2, :, 0, 0], ONES[:3, 0, 0, 0]


def test_tensors_of_a_caller_may_have_strides():
    module = load("dnnl", [IMAGE, ONES, [1, 4, 5, 5]], [("conv", [0, 1], [2], WINDOW)])
    x = normal(2, 5, 1, 10).transpose(2, 0, 1, 3)[..., ::2]
    y = np.full((5, 1, 5, 4), np.nan, np.float32).transpose(1, 3, 2, 0)
    call_with_strides(module["r"], x, y)
    np.testing.assert_allclose(y, np.repeat(x.sum(1, keepdims=True), 4, 1), 1e-5, 1e-6)


DAMAGED = {
    "strides has not 2": ([IMAGE, ONES, IMAGE], [("conv", [0, 1], [2], HUGE)]),
    "number of axes": ([[2, 5, 5], ONES, IMAGE], [("conv", [0, 1], [2], WINDOW)]),
    "an extent outside": ([[0, 3], ONES[0, :, 0], [0, 1]], [("matmul", [0, 1], [2], {})]),
    "operator exp": ([[3], ONES, [3]], [("exp", [0, 1], [2], {})]),
    "not broadcast": (
        [[2, 2], SQUARE, np.float32([1] * 3), [2, 2]],
        [("matmul", [0, 1, 2], [3], {})],
    ),
    "invalid arguments": ([[4, 3], SQUARE, [4, 2]], [("matmul", [0, 1], [2], {})]),
}


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_region_is_refused(text):
    with pytest.raises((tvmrt.TVMError, ValueError), match=text):
        load("dnnl", *DAMAGED[text])


@pytest.mark.slow
def test_built_with_onednn_3_from_its_wheel(tmp_path):
    python = [sys.executable, "-m"]
    pip = [*python, "pip", "install", "-q", "--no-deps", "--prefix", tmp_path / "w", *WHEELS]
    if subprocess.call(pip) != 0:
        pytest.skip("the wheels of oneDNN 3 cannot be downloaded for this machine")
    options = [f"-Ddevice_prefixes=dnnl={tmp_path / 'w'}", "-Dplugins=dnnl", "-Dwerror=true"]
    options += ["-Dpython=disabled", "-Dtests=disabled"]
    subprocess.check_call(["meson", "setup", tmp_path / "b", ROOT, *options])
    subprocess.check_call(["ninja", "-C", tmp_path / "b"])
    variables = {**os.environ, "TVMRT_DEVICE_PATH": str(tmp_path / "b/src_runtime")}
    tests = [*python, "pytest", "-m", "", "-k", "not wheel and not memory", __file__]
    subprocess.check_call(tests, env=variables, cwd=ROOT)
