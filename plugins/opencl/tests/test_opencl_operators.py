"""Test gathers, recurrent cells and quantised operators on the device opencl."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from dense_network import two_layers
from onnx import helper, numpy_helper
from quantised_case import quantised_layers, step_by_step
from sample_devices import run_library

import tvmrt
from tvmrt.error import TVMError

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(11)


@pytest.fixture(scope="module", autouse=True)
def device():
    try:
        found = tvmrt.get_global_func("tvmrt.device.find")("opencl")
    except (TVMError, OSError) as problem:
        pytest.skip(f"the device opencl cannot run here: {problem}")
    if not found:
        pytest.skip("the device opencl is not built: OpenCL's headers or loader are missing")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network(nodes, feeds, weights, outputs) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node(op, ins, outs, **attrs) for op, ins, outs, attrs in nodes],
        "g",
        [helper.make_tensor_value_info(k, kind(v.dtype), v.shape) for k, v in feeds.items()],
        [helper.make_tensor_value_info(k, kind(np.dtype("f")), None) for k in outputs],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model, feeds, tmp_path, regions=1):
    """Run everything on the device."""
    library = tvmrt.compile(model, devices=["opencl"], executor="aot")
    assert len(library.partition.regions) == regions
    assert "cpu" not in {row.device for row in library.summary.nodes}
    library.export_library(tmp_path / "net.so")
    return run_library(tmp_path / "net.so", "aot", dict(feeds))


def check(model, feeds, tmp_path, regions=1):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for array, golden in zip(run(model, feeds, tmp_path, regions), session.run(None, dict(feeds))):
        np.testing.assert_allclose(array, golden, 1e-4, 1e-5)


def test_gathers_read_the_indexed_elements(tmp_path):
    """Use negative indices, each kind of axis, and a transposed operand."""
    feeds = {
        "x": normal(3, 4, 5),
        "i": np.array([[0, -1], [2, -4]]),
        "j": RNG.integers(-5, 5, (4, 3, 2)),
        "k": np.array([[[1, -1], [0, 3]], [[2, 2], [-3, 0]], [[0, 0], [1, 4]], [[2, -5], [0, 1]]]),
    }
    nodes = [
        ("Transpose", ["x"], ["t"], {"perm": [1, 0, 2]}),
        ("Gather", ["t", "i"], ["a"], {"axis": 0}),
        ("GatherElements", ["t", "j"], ["b"], {"axis": 2}),
        ("GatherND", ["t", "k"], ["c"], {"batch_dims": 1}),
    ]
    check(network(nodes, feeds, {}, ["a", "b", "c"]), feeds, tmp_path)


def test_recurrent_cells_go_through_their_steps(tmp_path):
    """Test both directions, with and without initial states, both reset modes; more units than
    inputs."""
    hidden, inputs = 70, 5
    feeds = {"x": normal(4, 2, inputs), "h": normal(2, 2, hidden), "c": normal(2, 2, hidden)}
    weights = {}
    for name, gates in (("l", 4), ("g", 3), ("r", 1)):
        ways = 2 if name == "l" else 1
        weights[f"w{name}"] = normal(ways, gates * hidden, inputs) / 2
        weights[f"r{name}"] = normal(ways, gates * hidden, hidden) / 8
        weights[f"b{name}"] = normal(ways, 2 * gates * hidden)
    size = {"hidden_size": hidden}
    weights["g_reset_r"] = normal(1, 3 * hidden, hidden) / 8
    nodes = [
        (
            "LSTM",
            ["x", "wl", "rl", "bl", "", "h", "c"],
            ["y", "last", "cell"],
            {**size, "direction": "bidirectional"},
        ),
        ("GRU", ["x", "wg", "rg", "bg"], ["gy"], {**size, "linear_before_reset": 1}),
        ("GRU", ["x", "wg", "g_reset_r", "bg"], ["gz"], {**size, "direction": "reverse"}),
        ("RNN", ["x", "wr", "rr", "br"], ["", "ry"], {**size, "activations": ["Relu"]}),
    ]
    outputs = ["y", "last", "cell", "gy", "gz", "ry"]
    check(network(nodes, feeds, weights, outputs), feeds, tmp_path, regions=4)


def test_cell_with_clipping_stays_on_the_cpu():
    weights = {"w": normal(1, 8, 3), "r": normal(1, 8, 8)}
    nodes = [("RNN", ["x", "w", "r"], ["y"], {"hidden_size": 8, "clip": 0.5})]
    model = network(nodes, {"x": normal(2, 1, 3)}, weights, ["y"])
    library = tvmrt.compile(model, devices=["opencl"])
    (row,) = [row for row in library.summary.nodes if row.op_type == "RNN"]
    assert "neither clip nor couple" in row.reason


def test_a_quantised_network_is_exact(tmp_path):
    model, feeds = quantised_layers("uint8", 1, False)
    np.testing.assert_array_equal(run(model, feeds, tmp_path)[0], step_by_step(model, feeds))


def test_kernels_are_reported_as_their_layers():
    (region,) = tvmrt.compile(two_layers()[0], devices=["opencl"]).summary.operators
    assert region.macs == 4 * 48 * 64 + 4 * 10 * 48
