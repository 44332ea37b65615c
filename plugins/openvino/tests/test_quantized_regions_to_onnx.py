"""Test quantised regions exported as ONNX: onnxruntime and OpenVINO agree within one rounding
step."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from int8_case import bytes_network
from onnx_case import judge, network, normal, region_ops
from sample_devices import run_library
from test_region_to_onnx import EXECUTORS, by_onnxruntime, region, with_openvino

import tvmrt
from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.to_onnx import region_to_onnx

__all__ = ["by_onnxruntime"]  # the fixture

CHANNELS = np.linspace(0.002, 0.01, 6, dtype=np.float32)
KINDS = {
    "int8-channels": ("int8", 0, CHANNELS),
    "uint8-one-scale": ("uint8", 120, np.float32(4e-3)),
}
DEVICES = ["by_onnxruntime", pytest.param("openvino", marks=with_openvino)]


def run(model, feeds, device, tmp_path, **options):
    library = tvmrt.compile(model, devices=[device], **options)
    library.export_library(tmp_path / "net.so")
    return library, run_library(tmp_path / "net.so", options.get("executor", "graph"), dict(feeds))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_int8_network_is_one_region(by_onnxruntime, tmp_path, device, kind):
    model, feeds = bytes_network(*KINDS[kind])
    library, (found,) = run(model, feeds, device, tmp_path)
    (ops,) = region_ops(library)
    assert {"qconv", "qadd", "qavg_pool", "qmatmul"} <= set(ops)
    (exact,) = judge(model, feeds)
    steps = np.abs(found.astype(int) - exact.astype(int))
    assert np.ptp(exact.astype(int)) > 20, "the results are nearly constant"
    assert steps.max() <= 2  # sums and means may be one step off, which the matmul accumulates


def movements(kind):
    """Return data movement, a table of a function, a matmul, channels with their own scales."""
    rng = np.random.default_rng(5)
    zero = np.array(3 if kind == "int8" else 130, kind)
    weights = {
        "s": np.float32(0.03), "z": zero, "t": np.float32(0.05), "perm": np.array([1, 3, 8]),
        "ws": CHANNELS[:4], "wz": np.zeros(4, np.int8),
        "w": rng.integers(-99, 99, (4, 3, 2, 2)).astype(np.int8),
    }  # fmt: skip
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], "a", {}),
        ("DequantizeLinear", ["a", "s", "z"], "b", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "v", {"axis": 0}),
        ("Conv", ["b", "v"], "c", {}),
        ("QuantizeLinear", ["c", "s", "z"], "d", {}),
        ("DequantizeLinear", ["d", "s", "z"], "e", {}),
        ("Sigmoid", ["e"], "f", {}),
        ("QuantizeLinear", ["f", "t", "z"], "g", {}),
        ("MaxPool", ["g"], "h", {"kernel_shape": [2, 2]}),
        ("Transpose", ["h"], "i", {"perm": [0, 2, 1, 3]}),
        ("DequantizeLinear", ["i", "t", "z"], "j", {}),
        ("Mul", ["j", "j"], "k", {}),
        ("QuantizeLinear", ["k", "t", "z"], "l", {}),
        ("DequantizeLinear", ["l", "t", "z"], "y", {}),
    ]
    feeds = {"x": normal(1, 3, 6, 7)}
    return network(nodes, feeds, weights, {"y": "float32"}), feeds


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_tables_and_data_movement(by_onnxruntime, tmp_path, device, kind):
    model, feeds = movements(kind)
    library, (found,) = run(model, feeds, device, tmp_path)
    (ops,) = region_ops(library)
    assert {"quantize", "qconv", "table", "qmax_pool", "transpose", "qmul"} <= set(ops)
    (golden,) = judge(model, feeds)
    assert np.ptp(golden) > 0.3, "the results are nearly constant"
    np.testing.assert_allclose(found, golden, atol=0.0501)  # a step


@with_openvino
@pytest.mark.parametrize(("name", "executor"), [
    ("resnet8_int8", "graph"), ("kws_dscnn_int8", "aot"),
    pytest.param("mobilenetv1_025_128_uint8", "aot", marks=pytest.mark.slow),
])  # fmt: skip
def test_quantised_networks_on_openvino(name, executor, models_dir, tmp_path):
    path = models_dir / f"{name}.onnx"
    library = tvmrt.compile(path, devices=["openvino"], executor=executor)
    library.export_library(tmp_path / "net.so")
    assert {row.device for row in library.summary.nodes} == {"openvino", "none"}
    stored = np.load(models_dir / f"{name}.npz")
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    net = EXECUTORS[executor](module["default"](tvmrt.cpu(0)))
    for key in stored.files:
        if not key.startswith("out:"):
            net.set_input(key, stored[key])
    net.run()
    (output,) = onnx.load(path).graph.output
    golden = stored[f"out:{output.name}"].astype(int)
    assert np.ptp(golden) > 20
    assert np.abs(net.get_output(0).numpy().astype(int) - golden).max() <= 1


PRODUCT = {"x_zero": 0, "to": "int32"}


def test_sums_of_int32_are_refused():
    with pytest.raises(UnsupportedError, match="n: int32 accumulators cannot be written"):
        region_to_onnx(region("qmatmul", PRODUCT, [1, 1], [1, 1]), b"")
