"""Test the simulated accelerator: its arithmetic against numpy, its faults, its queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import simulated

import tvmrt
from tvmrt.runtime import get_global_func

load_regions = get_global_func("tvmrt.device.load_regions")
set_options = get_global_func("tvmrt.device.set_options")

if not get_global_func("tvmrt.device.find")("tpu"):
    pytest.skip("the device tpu was not built", allow_module_level=True)


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


POINTWISE = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


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


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("neg", np.negative),
        ("tanh", np.tanh),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ],
)
def test_functions_of_one_operand(op, function, rng):
    x = floats(rng, 2, 3, 4)
    np.testing.assert_allclose(compute(op, [x], x.shape), function(x), rtol=1e-5, atol=1e-6)


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
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 1e-4), ("float16", 2e-2), ("int8", 0.2)]
)
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
    "shapes",
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 5))],
    ids=["matrices", "batch", "batches-broadcast"],
)
def test_matmul(shapes, rng):
    a, b = (floats(rng, *shape) for shape in shapes)
    bias = floats(rng, 5)
    expected = a @ b + bias
    np.testing.assert_allclose(
        compute("matmul", [a, b, bias], expected.shape), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(("op", "reduce"), [("max_pool", np.max), ("avg_pool", np.mean)])
def test_pooling(op, reduce, rng):
    x = floats(rng, 1, 9, 6, 8)
    expected = reduce(x.reshape(1, 9, 3, 2, 4, 2), axis=(3, 5))
    attrs = {"kernel": [2, 2], "strides": [2, 2], "dilations": [1, 1], "pads_before": [0, 0]}
    np.testing.assert_allclose(compute(op, [x], expected.shape, attrs), expected, rtol=1e-6)


def test_average_pool_count_include_pad(rng):
    x = np.ones((1, 1, 2, 2), np.float32)
    attrs = {"kernel": [2, 2], "strides": [2, 2], "pads_before": [1, 1]}
    got = compute("avg_pool", [x], (1, 1, 2, 2), {**attrs, "count_pads": 1})
    np.testing.assert_allclose(got, np.full((1, 1, 2, 2), 0.25))
    got = compute("avg_pool", [x], (1, 1, 2, 2), {**attrs, "count_pads": 0})
    np.testing.assert_allclose(got, np.ones((1, 1, 2, 2)))


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
        (
            "max_pool",
            [(1, 1, 2, 2)],
            (1, 1, 1, 1),
            {"kernel": [2**62, 2], "strides": [2**62, 2]},
            "shapes do not fit",
        ),
        ("matmul", [(2, 3), (4, 5)], (2, 5), {}, "shapes do not fit"),
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


def test_lost_device_restarts_when_unregistered():
    module = region("relu", [ONE], (2,))
    lost = region("relu", [ONE], (2,), options={"fault": "lost"})
    for broken in (lost, module):
        with pytest.raises(tvmrt.TVMError, match="the device was lost"):
            run(broken, [ONE], (2,))
    with pytest.raises(tvmrt.TVMError, match="pre_run of region 'r' failed: the device was lost"):
        region("relu", [ONE], (2,))
    unregister = get_global_func("tvmrt.device.unregister")
    with pytest.raises(ValueError, match="used by 2 loaded libraries"):
        unregister("tpu")
    del module, lost, broken
    unregister("tpu")
    np.testing.assert_array_equal(run(region("relu", [ONE], (2,)), [-ONE], (2,)), [0, 0])


@pytest.mark.parametrize("fault", ["init", "allocate"])
def test_faults_of_the_environment(fault, monkeypatch):
    monkeypatch.setenv("TVMRT_TPU_FAULT", fault)
    if fault == "init":
        get_global_func("tvmrt.device.unregister")("tpu")
    with pytest.raises(tvmrt.TVMError, match=f"{fault}.* failed: the simulated fault '{fault}'"):
        region("relu", [ONE], (2,))
    monkeypatch.delenv("TVMRT_TPU_FAULT")
    region("relu", [ONE], (2,))


def test_out_of_memory_is_an_error(monkeypatch):
    unregister = get_global_func("tvmrt.device.unregister")
    monkeypatch.setenv("TVMRT_TPU_MEMORY_BYTES", "200")
    unregister("tpu")
    held = region("relu", [ONE], (2,))  # two tensors and two operands of 32 bytes each
    with pytest.raises(tvmrt.TVMError, match="does not fit into the remaining"):
        region("relu", [ONE], (2,))
    del held
    region("relu", [ONE], (2,))
    monkeypatch.delenv("TVMRT_TPU_MEMORY_BYTES")
    unregister("tpu")


def test_regions_run_at_other_shapes_without_reloading():
    module = region("relu", [ONE], (2,))
    reshape = get_global_func("tvmrt.device.reshape")
    shape = tvmrt.runtime.ShapeTuple([5])
    reshape(module, "r", 0, shape, 1, shape)
    five = np.arange(-2, 3, dtype=np.float32)
    np.testing.assert_array_equal(run(module, [five], (5,)), np.maximum(five, 0))
    with pytest.raises(ValueError, match="another shape"):
        run(module, [ONE], (2,))


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


def test_duration_is_simulated():
    module = region("relu", [ONE], (2,), options={"duration_us": 20000})
    start = time.monotonic()
    run(module, [ONE], (2,))
    assert time.monotonic() - start > 0.019


FORK = """
import os, sys
sys.path.insert(0, {folder!r})
import numpy as np, simulated

module = simulated.load_regions("tpu", {{"t": 1}}, op="relu")
executor = simulated.executor([("t", "tpu", [0])], module)
executor.set_input("x", np.ones(simulated.SHAPE, np.float32))
for _ in range(2):
    executor.run()
    assert executor.get_output(0).numpy()[0] == 1
    child = os.fork()
    if child == 0:
        executor.run()
        os._exit(int(executor.get_output(0).numpy()[0] != 1))
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_child_has_its_own_worker():
    """Run in a separate process, since fork warns about the test's threads."""
    code = FORK.format(folder=str(Path(simulated.__file__).parent))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
