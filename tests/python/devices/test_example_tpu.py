"""Test the simulated accelerator: its arithmetic against numpy, its faults, its queue."""

from __future__ import annotations

import json
import threading
import time

import example_devices
import numpy as np
import pytest
from any_size_case import EXECUTORS, check_on_device
from onnx import parser
from unary import HEADER, executor_of

import tvmrt
from tvmrt.runtime import get_global_func

load_regions = get_global_func("tvmrt.device.load_regions")


@pytest.fixture(autouse=True)
def tpu():
    example_devices.load("tpu")


def region(op, inputs, output, attrs=None, constants=(), options=None):
    """Make a module with one region of one node: arrays in, an array of zeros for the shape out.

    Inputs whose numbers are in ``constants`` are part of the region. None is left out.
    """
    tensors, data, numbers, given = [], b"", [], []
    for i, array in enumerate(inputs):
        if array is None:
            numbers.append(-1)
            continue
        row = {"name": f"x{i}", "dtype": "float32", "shape": list(array.shape)}
        if i in constants:
            data += b"\0" * (-len(data) % 64)
            row.update(offset=len(data), bytes=array.nbytes)
            data += array.tobytes()
        else:
            given.append(len(tensors))
        numbers.append(len(tensors))
        tensors.append(row)
    tensors.append({"name": "y", "dtype": "float32", "shape": list(output)})
    last = len(tensors) - 1
    node = {"op": op, "name": "n", "inputs": numbers, "outputs": [last], "attrs": attrs or {}}
    text = {
        "format": "tvmrt-regions",
        "version": 1,
        "device": "tpu",
        "options": options or {},
        "regions": [
            {
                "symbol": "r",
                "tensors": tensors,
                "nodes": [node],
                "inputs": given,
                "outputs": [last],
            }
        ],
    }
    return load_regions(json.dumps(text), bytearray(data))


def run(module, arrays, shape):
    out = tvmrt.nd.array(np.zeros(shape, np.float32))
    module["r"](*[tvmrt.nd.array(a) for a in arrays], out)
    return out.numpy()


def compute(op, inputs, shape, attrs=None, constants=(), options=None):
    module = region(op, inputs, shape, attrs, constants, options)
    given = [a for i, a in enumerate(inputs) if i not in constants and a is not None]
    return run(module, given, shape)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


POINTWISE = {"add": np.add, "mul": np.multiply}


@pytest.mark.parametrize("op", POINTWISE)
@pytest.mark.parametrize(
    "shapes",
    [((2, 3, 4, 5), (3, 1, 1)), ((7,), (4, 1)), ((), (2, 9)), ((1, 9, 2, 2), (1, 9, 2, 2))],
    ids=["channels", "both", "scalar", "same"],
)
def test_pointwise_operators_broadcast(op, shapes, rng):
    a, b = (floats(rng, *shape) for shape in shapes)
    expected = POINTWISE[op](a, b)
    np.testing.assert_allclose(compute(op, [a, b], expected.shape), expected, rtol=1e-6)


def convolve(x, w, bias, stride, pad, dilation, groups):
    """Convolve by the definition, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    k = dilation * (w.shape[2] - 1) + 1
    rows, columns = ((n - k) // stride + 1 for n in x.shape[2:])
    out = np.zeros((x.shape[0], w.shape[0], rows, columns))
    channels, maps = w.shape[1], w.shape[0] // groups
    for oc in range(w.shape[0]):
        group = x[:, oc // maps * channels : (oc // maps + 1) * channels]
        for i in range(rows):
            for j in range(columns):
                y0, x0 = i * stride, j * stride
                patch = group[:, :, y0 : y0 + k : dilation, x0 : x0 + k : dilation]
                out[:, oc, i, j] = (patch * w[oc]).sum((1, 2, 3)) + bias[oc]
    return out


CONVOLUTIONS = {
    "plain": (3, 5, 3, 1, 0, 1, 1),
    "padded-stride2": (8, 9, 3, 2, 1, 1, 1),
    "depthwise": (10, 10, 3, 1, 1, 1, 10),
    "groups-dilated": (4, 6, 3, 1, 2, 2, 2),
    "pointwise": (17, 3, 1, 1, 0, 1, 1),
}


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("float16", 2e-2)])
def test_convolution_in_each_precision(case, precision, tolerance, rng):
    channels, maps, kernel, stride, pad, dilation, groups = case
    x = floats(rng, 2, channels, 9, 8)
    w, bias = floats(rng, maps, channels // groups, kernel, kernel), floats(rng, maps)
    expected = convolve(x, w, bias, stride, pad, dilation, groups)
    attrs = {
        "strides": [stride] * 2,
        "dilations": [dilation] * 2,
        "pads_before": [pad] * 2,
        "pads_after": [pad] * 2,
        "groups": groups,
        "precision": precision,
    }
    got = compute("conv", [x, w, bias], expected.shape, attrs, constants=(1, 2))
    assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max()
    if precision != "float32":  # it did compute in reduced precision
        assert np.abs(got - expected).max() > 1e-6


@pytest.mark.parametrize(
    ("op", "shapes", "out", "attrs", "reason"),
    [
        ("erf", [(2,)], (2,), {}, "no unit for this operator"),
        ("add", [(2,)], (2,), {}, "lacks an operand"),
        ("add", [(3,), (2,)], (3,), {}, "shapes do not fit"),
        ("relu", [(1, 1, 1, 1, 1)], (1, 1, 1, 1, 1), {}, "at most 4 dimensions"),
        ("relu", [(0, 2)], (0, 2), {}, "have elements"),
        ("conv", [(1, 2, 3), (2, 2, 1)], (1, 2, 3), {}, "two spatial axes"),
        ("conv", [(1, 4, 3, 3), (4, 2, 1, 1)], (1, 4, 3, 3), {}, "shapes do not fit"),
        ("conv", [(1, 4, 3, 3), (4, 4, 1, 1)], (1, 4, 3, 3), {"groups": 3}, "shapes do not fit"),
        ("conv", [(1, 2, 3, 3), (2, 2, 1, 1), (3,)], (1, 2, 3, 3), {}, "shapes do not fit"),
    ],
)
def test_unsupported_nodes_are_refused_with_the_reason(op, shapes, out, attrs, reason):
    with pytest.raises(tvmrt.TVMError, match=f"device 'tpu': evaluation of region 'r'.*{reason}"):
        region(op, [np.zeros(s, np.float32) for s in shapes], out, attrs)


ONE = np.ones((2,), np.float32)


def test_fault_of_preparation_names_the_node():
    with pytest.raises(tvmrt.TVMError, match=r"pre_run of region 'r' failed at node 'n' .relu."):
        region("relu", [ONE], (2,), options={"fault": "pre_run"})


@pytest.mark.parametrize(
    ("fault", "text"),
    [("run", "async_wait of region 'r' failed at node 'n' .relu.: the simulated fault 'run'")],
)
def test_region_survives_a_failed_run(fault, text):
    module = region("relu", [ONE], (2,), options={"fault": fault})
    for _ in range(2):
        with pytest.raises(tvmrt.TVMError, match=text):
            run(module, [ONE], (2,))


def test_options_are_members_of_the_object_itself():
    options = {"note": {"fault": "run"}, "words": ['"fault":', "fault", 'a \\"'], "text": "fault"}
    run(region("relu", [ONE], (2,), options=options), [ONE], (2,))
    failing = region("relu", [ONE], (2,), options={**options, "fault": "run"})
    with pytest.raises(tvmrt.TVMError, match="simulated fault 'run'"):
        run(failing, [ONE], (2,))


def test_run_that_hangs_times_out_and_can_be_freed():
    module = region("relu", [ONE], (2,), options={"fault": "hang", "timeout_ms": 30})
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(tvmrt.TVMError, match="did not end in time"):
            run(module, [ONE], (2,))
    assert time.monotonic() - start > 0.05
    other = region("relu", [ONE], (2,))
    np.testing.assert_array_equal(run(other, [-ONE], (2,)), [0, 0])


def test_device_is_unregistered_and_registered_again():
    module = region("relu", [ONE], (2,))
    unregister = get_global_func("tvmrt.device.unregister")
    with pytest.raises(ValueError, match="used by 1 loaded libraries"):
        unregister("tpu")
    del module
    unregister("tpu")
    np.testing.assert_array_equal(run(region("relu", [ONE], (2,)), [-ONE], (2,)), [0, 0])


def test_out_of_memory_is_an_error(monkeypatch):
    unregister = get_global_func("tvmrt.device.unregister")
    monkeypatch.setenv("TVMRT_TPU_MEMORY_BYTES", "100")
    unregister("tpu")
    held = region("relu", [ONE], (2,))  # two tensors of 32 bytes each
    with pytest.raises(tvmrt.TVMError, match="does not fit into the remaining"):
        region("relu", [ONE], (2,))
    del held
    region("relu", [ONE], (2,))
    monkeypatch.delenv("TVMRT_TPU_MEMORY_BYTES")
    unregister("tpu")


def test_many_threads_share_the_device():
    module = region("mul", [ONE, ONE], (2,), constants=(1,))
    wrong = []

    def work(value):
        x = np.full((2,), value, np.float32)
        for _ in range(50):
            if not np.array_equal(run(module, [x], (2,)), x):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.everyday(2)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_whole_networks_at_all_sizes(executor, tmp_path):
    check_on_device("tpu", "convolutions", executor, tmp_path)


def test_hanging_run_times_out_in_the_waiting_call(tmp_path):
    fault = {"tpu": {"fault": "hang", "timeout_ms": 30}}
    model = parser.parse_model(HEADER + "g (float[4] x) => (float[4] y) { y = Relu(x) }")
    options = {"executor": "aot", "schedule": "async", "device_options": fault}
    tvmrt.compile(model, devices=["tpu"], **options).export_library(tmp_path / "n.so")
    net = executor_of(tvmrt.runtime.load_module(tmp_path / "n.so"), "aot")
    net.set_input("x", np.ones(4, np.float32))
    for _ in range(2):  # the second run is an ordinary one
        with pytest.raises(tvmrt.TVMError, match="did not end in time"):
            net.run()
