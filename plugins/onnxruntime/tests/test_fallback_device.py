"""Test the device onnxruntime: it runs unsupported operators in the middle of a network."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sample_devices import run_library
from unary import executor_of

import tvmrt
from tvmrt.error import TVMError, UnsupportedError
from tvmrt.plugins.onnxruntime.device import OnnxRuntime

runtime = pytest.importorskip("onnxruntime")
OURS = "com.microsoft"
RNG = np.random.default_rng(11)
X = RNG.normal(size=(2, 3, 3)).astype(np.float32)


def model(nodes, shape, results, constants=None):
    """Make a model. ``nodes``: operator, domain, inputs, outputs, attributes; ``results``:
    types."""
    made = [
        helper.make_node(op, ins, outs, name=f"n{i}", domain=domain, **attrs)
        for i, (op, domain, ins, outs, attrs) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in results.items()],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(OURS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


NODES = [
    ("Add", "", ["x", "eye"], ["a"], {}),
    ("SampleOp", OURS, ["a"], ["b"], {}),
    ("Mul", "", ["b", "two"], ["c"], {}),
    ("SampleOp", OURS, ["c"], ["y"], {}),
]
HELD = {"eye": 3 * np.eye(3, dtype=np.float32), "two": np.float32(2)}
SAMPLES = model(NODES, [2, 3, 3], {"y": TensorProto.FLOAT}, HELD)
GOLDEN = 2 * (X + HELD["eye"])


def compiled(network, tmp_path, **options):
    library = tvmrt.compile(network, devices=["onnxruntime"], **options)
    library.export_library(tmp_path / "net.so")
    return library


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_nodes_between_those_of_the_cpu(tmp_path, executor):
    library = compiled(SAMPLES, tmp_path, executor=executor)
    rows = {row.name: row.device for row in library.summary.nodes}
    assert rows == {"n0": "cpu", "n1": "onnxruntime", "n2": "cpu", "n3": "onnxruntime"}
    (found,) = run_library(tmp_path / "net.so", executor, {"x": X})
    np.testing.assert_allclose(found, GOLDEN, rtol=1e-4)


def test_adjacent_nodes_share_a_region_with_constants(tmp_path):
    """Operands have several types, and onnxruntime does not infer the shapes."""
    held = {
        "boxes": np.array([[0, 0, 0.7, 1], [0.2, 0.1, 1, 0.5]], np.float32),
        "which": np.array([0, 0], np.int32),
        "size": np.array([3, 2], np.int32),
        "mask": np.array([[[1, 1], [1, 0], [1, 1]], [[1, 0], [1, 1], [0, 1]]], np.int32)[:, None],
    }
    nodes = [
        ("CropAndResize", OURS, ["x", "boxes", "which", "size"], ["a"], {"mode": "nearest"}),
        ("MaxpoolWithMask", OURS, ["a", "mask"], ["b"], {"kernel_shape": [2, 2]}),
    ]
    results = {"b": TensorProto.FLOAT, "a": TensorProto.FLOAT}
    network = model(nodes, [1, 1, 6, 5], results, held)
    x = RNG.normal(size=(1, 1, 6, 5)).astype(np.float32)
    library = compiled(network, tmp_path)
    assert len(library.summary.regions) == 1
    wanted = judged(network, x)
    assert wanted[0].shape == (2, 1, 2, 1)
    for found, golden in zip(run_library(tmp_path / "net.so", "graph", {"x": x}), wanted):
        np.testing.assert_array_equal(found, golden)


def judged(network, x):
    session = runtime.InferenceSession(
        network.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})


def test_omitted_operands_and_unused_results(tmp_path):
    weights, past = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 1, 3), (1, 4, 2)))
    nodes = [("CausalConvWithState", OURS, ["x", "w", "", "past"], ["y", "state"], {})]
    network = model(nodes, [1, 4, 6], {"y": TensorProto.FLOAT}, {"w": weights, "past": past})
    compiled(network, tmp_path)
    x = RNG.normal(size=(1, 4, 6)).astype(np.float32)
    rows = np.lib.stride_tricks.sliding_window_view(np.concatenate([past, x], 2), 3, axis=2)
    (found,) = run_library(tmp_path / "net.so", "graph", {"x": x})
    np.testing.assert_allclose(found, np.einsum("bctk,cok->bct", rows, weights), rtol=1e-5)


def test_two_threads_have_a_context_each(tmp_path):
    compiled(SAMPLES, tmp_path, executor="aot")
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    wrong = []

    def work(factor):
        net = executor_of(module, "aot")
        x = factor * X
        net.set_input("x", x)
        for _ in range(20):
            net.run()
            if not np.allclose(net.get_output(0).numpy(), 2 * (x + HELD["eye"]), rtol=1e-3):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(np.float32(f),)) for f in (0.5, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_the_device_the_error_names_it():
    with pytest.raises(UnsupportedError, match=r"SampleOp: .*; or use the device onnxr"):
        tvmrt.compile(SAMPLES)


REFUSED = {
    "its own": ([("Nothing", "my", ["x"], ["y"], {})], "my::Nothing.*onnxruntime: it rejects"),
    "numbers": ([("Unheard", OURS, ["x"], ["y"], {})], "Unheard.*onnxruntime: it rejects the node"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_by_onnxruntime_reports_both_errors(case):
    nodes, said = REFUSED[case]
    network = model(nodes, [2, 3], {"y": TensorProto.FLOAT})
    network.opset_import.append(helper.make_opsetid("my", 1))
    with pytest.raises(UnsupportedError, match=said):
        tvmrt.compile(network, devices=["onnxruntime"])


def test_dynamic_sizes_are_refused():
    network = model(NODES[1:2], ["n", 3, 3], {"b": TensorProto.FLOAT})
    network.graph.node[0].input[0] = "x"
    with pytest.raises(UnsupportedError, match=r"onnxruntime: its operands have dynamic sizes"):
        tvmrt.compile(network, devices=["onnxruntime"], dims={"n": 4})


@pytest.mark.parametrize(
    "options", [{"device_fallback": True}, {"target": "cortex-m4"}], ids=["fallback", "board"]
)
def test_where_the_cpu_would_have_to_run_it(options):
    with pytest.raises(UnsupportedError, match=r"n1.*tvmrt has no C code for this operator"):
        tvmrt.compile(SAMPLES, devices=["onnxruntime"], **options)


def test_without_the_package(tmp_path, monkeypatch):
    """The error at compile time and at load time names the missing package."""
    compiled(SAMPLES, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(TVMError, match=r"package onnxruntime is not installed; pip install"):
        tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0))
    monkeypatch.setattr(OnnxRuntime, "absent", lambda self: "the package is not installed")
    with pytest.raises(UnsupportedError, match=r"onnxruntime: the package.* is not installed"):
        tvmrt.compile(SAMPLES, devices=["onnxruntime"])


def test_supported_operators_stay_on_the_cpu():
    network = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
    )
    (row,) = tvmrt.compile(network, devices=["onnxruntime"]).summary.nodes
    assert (row.device, "tvmrt has an operator for it" in row.reason) == ("cpu", True)
