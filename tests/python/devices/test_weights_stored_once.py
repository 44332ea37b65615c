"""Fallback code of a device reads the weights that the library holds for the device: the file has
them once, and results equal the network's."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from archives import unpack
from onnx import helper, numpy_helper

import tvmrt
from tvmrt import devices

RNG = np.random.default_rng(5)
IDS = np.array([[3, 31]])
X = RNG.standard_normal((1, 24, 6, 6)).astype(np.float32)


class Nowhere(devices.Device):
    """Device that takes everything and exists on no machine."""

    name = "nowhere"

    def supports(self, node):
        return None

    def optimize(self, region):
        for node in region.nodes:
            for name in ("activations", "clip"):  # too large for a region text
                node.attrs.pop(name, None)
        return region


def network() -> onnx.ModelProto:
    """Convolutions of four kinds, a matmul, recurrent cells and an embedding table."""
    weights = {
        "wd": RNG.standard_normal((24, 1, 3, 3)) / 3,
        "w0": RNG.standard_normal((40, 24, 3, 3)) / 15,
        "w1": RNG.standard_normal((40, 20, 1, 1)) / 6,
        "w2": RNG.standard_normal((40, 12, 2, 2)) / 6,
        "w3": RNG.standard_normal((12 * 7 * 7, 64)) / 24,
        "b3": RNG.standard_normal(64),
        "table": RNG.standard_normal((32, 64)),
        "wl": RNG.standard_normal((1, 64, 64)) / 8,
        "rl": RNG.standard_normal((1, 64, 16)) / 4,
        "wg": RNG.standard_normal((1, 48, 16)) / 4,
        "rg": RNG.standard_normal((1, 48, 16)) / 4,
    }
    checked = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()]
    checked += [
        numpy_helper.from_array(np.array(v), k)
        for k, v in {"flat": [1, 1, -1], "axes": [1]}.items()
    ]
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "wd"], ["d"], pads=[1, 1, 1, 1], group=24),
        node("Conv", ["d", "w0"], ["c0"], pads=[1, 1, 1, 1]),
        node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["c1"], group=2),
        node("ConvTranspose", ["c1", "w2"], ["c2"]),
        node("Reshape", ["c2", "flat"], ["f"]),
        node("MatMul", ["f", "w3"], ["m"]),
        node("Add", ["m", "b3"], ["a"]),
        node("Gather", ["table", "ids"], ["g"], axis=0),
        node("Concat", ["a", "g"], ["s"], axis=1),
        node("LSTM", ["s", "wl", "rl"], ["l"], hidden_size=16),
        node("Squeeze", ["l", "axes"], ["q"]),
        node("GRU", ["q", "wg", "rg"], ["y"], hidden_size=16),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", 1, X.shape), value("ids", 7, IDS.shape)],
        [value("y", 1, (1, 1, 3, 16))],
        checked,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


@pytest.fixture(scope="module")
def model():
    devices.register(Nowhere)
    yield network()
    devices.unregister("nowhere")


@pytest.fixture(scope="module")
def golden(model):
    run = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString()).run
    return run(None, {"x": X, "ids": IDS})[0]


def compiled(model, **options):
    return tvmrt.compile(model, devices=["nowhere"], device_fallback=True, **options)


def result(library, kind="graph"):
    module = library["default"](tvmrt.cpu(0))
    if kind == "graph":
        net = tvmrt.contrib.graph_executor.GraphModule(module)
    else:
        net = tvmrt.runtime.executor.AotModule(module)
    net.run(x=X, ids=IDS)
    assert [row["runs"] for row in tvmrt.device_fallbacks(net)] == [1]
    return net.get_output(0).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_float_weights_are_stored_once(model, golden, kind, tmp_path):
    library = compiled(model, executor=kind)
    weights = sum(numpy_helper.to_array(t).nbytes for t in model.graph.initializer)
    assert library.summary.weights_bytes < 1.01 * weights  # small constants are stored twice
    library.export_library(tmp_path / "n.so")
    assert (tmp_path / "n.so").stat().st_size < weights + 130_000
    found = result(tvmrt.runtime.load_module(tmp_path / "n.so"), kind)
    np.testing.assert_allclose(found, golden, rtol=1e-4, atol=1e-5)


def test_weights_in_a_separate_file(model, golden, tmp_path):
    """The file does not repeat the weights that the library has for the device."""
    library = compiled(model, params="file")
    assert sum(array.nbytes for array in library.get_params().values()) < 15_000
    library.export_library(tmp_path / "n.so")
    module = tvmrt.runtime.load_module(tmp_path / "n.so")["default"](tvmrt.cpu(0))
    net = tvmrt.contrib.graph_executor.GraphModule(module)
    net.load_params((tmp_path / "n.params").read_bytes())
    net.run(x=X, ids=IDS)
    np.testing.assert_allclose(net.get_output(0).numpy(), golden, rtol=1e-4, atol=1e-5)


def test_archive_has_all_weights(model, golden, tmp_path):
    """The C text of the archive, linked to a library, has all weights once."""
    compiled(model).export(tmp_path / "n.tar")
    unpack(tmp_path / "n.tar", tmp_path)
    config = [sys.executable, "-m", "tvmrt", "config", "--cflags"]
    flags = subprocess.check_output(config, text=True).split()
    flags += [f"-I{path.parent}" for path in tmp_path.rglob("*.h")]
    sources = sorted(tmp_path.rglob("*.c"))
    command = ["cc", "-s", "-shared", "-fPIC", *flags, *sources, "-o", tmp_path / "n.so", "-lm"]
    subprocess.run(command, check=True)
    weights = sum(numpy_helper.to_array(t).nbytes for t in model.graph.initializer)
    assert (tmp_path / "n.so").stat().st_size < weights + 400_000  # of unoptimised code
    found = result(tvmrt.runtime.load_module(tmp_path / "n.so"))
    np.testing.assert_allclose(found, golden, rtol=1e-4, atol=1e-5)


def quantised() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Convolutions with weights of both signs, the second one grouped, and a matmul."""
    draw = lambda low, shape, kind: RNG.integers(low, low + 256, shape).astype(kind)  # noqa: E731
    weights = {
        "s": np.float32(0.02), "z": np.uint8(120), "ys": np.float32(2), "m": np.int8(3),
        "w0": draw(-128, (40, 24, 3, 3), np.int8), "s0": np.full(40, 0.02, np.float32),
        "z0": np.zeros(40, np.int8), "b0": RNG.integers(-999, 999, 40).astype(np.int32),
        "w1": draw(0, (40, 20, 1, 1), np.uint8), "z1": np.uint8(140),
        "flat": np.array([1, -1]), "w2": draw(-128, (40 * 36, 64), np.int8),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QLinearConv", ["x", "s", "z", "w0", "s0", "z0", "s", "z", "b0"], ["a"], pads=[1] * 4),
        node("QLinearConv", ["a", "s", "z", "w1", "s", "z1", "s", "z"], ["b"], group=2),
        node("Reshape", ["b", "flat"], ["c"]),
        node("QLinearMatMul", ["c", "s", "z", "w2", "s", "m", "ys", "z"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    checked = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    borders = [value("x", 2, X.shape)], [value("y", 2, (1, 64))]
    graph = helper.make_graph(nodes, "g", *borders, checked)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made, {"x": draw(0, X.shape, np.uint8)}


def test_int8_weights_are_stored_once(model, tmp_path):
    network, feeds = quantised()
    session = pytest.importorskip("onnxruntime").InferenceSession(network.SerializeToString())
    golden = session.run(None, feeds)[0].astype(int)
    library = compiled(network, executor="aot")
    weights = sum(numpy_helper.to_array(t).nbytes for t in network.graph.initializer)
    assert library.summary.weights_bytes < 1.1 * weights
    library.export_library(tmp_path / "n.so")
    factory = tvmrt.runtime.load_module(tmp_path / "n.so")
    net = tvmrt.runtime.executor.AotModule(factory["default"](tvmrt.cpu(0)))
    for _ in range(2):  # the first run packs
        net.run(**feeds)
        found = net.get_output(0).numpy().astype(int)
        assert np.abs(found - golden).max() <= 1
        assert len(np.unique(found)) > 30
    assert [row["runs"] for row in tvmrt.device_fallbacks(net)] == [2]
