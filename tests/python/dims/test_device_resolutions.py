"""Networks at other resolutions on devices of fixed shapes: post_run, then pre_run again."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from any_size_case import EXECUTORS, check, loaded, results
from dynamic_networks import FLOAT, Draft
from test_sizes_on_devices import SOURCE

import tvmrt
from tvmrt import devices
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

pytest.importorskip("onnxruntime")


class Prepared(devices.PythonDevice):
    """Device that computes convolutions of fixed shapes by their definition."""

    name = "prepared_convs"

    def supports(self, node):
        return None if node.op in ("conv", "relu") else f"no {node.op}"

    def compute(self, node, inputs):
        x = np.asarray(inputs[0], np.float64)
        if node.op == "relu":
            return np.maximum(x, 0)
        _, w, *bias = inputs
        pads = zip(node.attrs["pads_before"], node.attrs["pads_after"])
        x = np.pad(x, [(0, 0), (0, 0), *pads])
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
        rows, columns = node.attrs["strides"]
        y = np.einsum("nchwij,ocij->nohw", windows[:, :, ::rows, ::columns], w)
        return y + bias[0].reshape(1, -1, 1, 1) if bias and bias[0] is not None else y


def convolutions():
    """Two layers after a CPU operator that halves the extents."""
    d = Draft()
    pooled = d.node("AveragePool", ["x"], kernel_shape=[2, 2], strides=[2, 2])
    first = d.node("Conv", [pooled, d.weight(6, 3, 3, 3), d.weight(6)], strides=[2, 1],
                   pads=[1, 1, 1, 1])  # fmt: skip
    y = d.node("Conv", [d.node("Relu", [first]), d.weight(4, 6, 3, 3)], strides=[2, 2])
    return d.model({"x": (FLOAT, ["n", 3, "h", "w"])}, {d.node("Tanh", [y]): FLOAT})


DIMS = {"n": (1, 2), "h": (20, 64), "w": (20, 60)}
RESOLUTIONS = [(2, 64, 60), (1, 24, 41), (1, 24, 41), (2, 33, 20), (1, 64, 60)]


class Pictures:
    @staticmethod
    def inputs(rng, size):
        n, h, w = size
        return {"x": rng.normal(size=(n, 3, h, w)).astype(np.float32)}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_python_device_gets_the_new_shapes(executor, tmp_path):
    """The region's inner tensors change as well, and each run is checked against them."""
    devices.register(Prepared())
    try:
        library = tvmrt.compile(
            convolutions(), dims=DIMS, devices=["prepared_convs"], executor=executor,
            require_device=["prepared_convs:Conv"],
        )  # fmt: skip
        network = loaded(library, tmp_path, executor)
        check(network, convolutions(), Pictures, RESOLUTIONS)
    finally:
        devices.unregister("prepared_convs")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    path = tmp_path_factory.mktemp("prepared") / "libtvmrt_device_prepared.so"
    source = SOURCE.with_name("prepared_device.c")
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    include = [f"-I{p}" for p in find_include_path()]
    subprocess.run(["cc", *strict, *include, str(source), "-o", str(path)], check=True)
    tvmrt.load_device_plugin(path)
    library = ctypes.CDLL(str(path))
    library.journal_of_slots.restype = ctypes.c_char_p
    return library


def rectified(extent="rows"):
    d = Draft()
    y = d.node("Relu", [d.node("Neg", ["x"])])
    return d.model({"x": (FLOAT, [extent, 3])}, {y: FLOAT})


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)


def compiled(folder, executor="graph", **options):
    library = tvmrt.compile(
        rectified(), dims={"rows": (1, 8)}, devices=["prepared"], executor=executor,
        require_device=["prepared"], **options,
    )  # fmt: skip
    return loaded(library, folder, executor)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_device_is_queried_and_prepared_once_per_size(executor, plugin, tmp_path):
    network = compiled(tmp_path, executor)
    before = len(plugin.journal_of_slots())
    for count in (8, 3, 3, 8):
        (y,) = results(network, {"x": rows(count)})
        np.testing.assert_array_equal(y, np.maximum(-rows(count), 0))
    noted = plugin.journal_of_slots()[before:].decode().split()
    assert noted == "r8 q8 e3 p3 r3 r3 q3 e8 p8 r8".split()


def test_fixed_axis_may_be_declared_dynamic(plugin, tmp_path):
    """A fixed batch of 4 gives an error for 8 that names the sizes to compile for."""
    model = rectified(4)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    fixed = loaded(tvmrt.compile(model, devices=["prepared"]), tmp_path, "graph")
    with pytest.raises(ValueError, match=r'input .x.: .*\(8, 3\).* shapes={"x": \("N<=8", 3\)}'):
        fixed.set_input("x", rows(8))
    library = tvmrt.compile(model, shapes={"x": ("N<=8", 3)}, devices=["prepared"])
    assert [row.nbytes for row in library.summary.borders] == [8 * 3 * 4] * 2
    network = loaded(library, tmp_path, "graph")
    before = len(plugin.journal_of_slots())
    for count in (4, 8):
        (y,) = results(network, {"x": rows(count)})
        np.testing.assert_array_equal(y, np.maximum(-rows(count), 0))
    assert plugin.journal_of_slots()[before:].decode().split() == "q8 e4 p4 r4 q4 e8 p8 r8".split()


def test_refused_size_does_not_affect_others(plugin, tmp_path):
    network = compiled(tmp_path)
    for _ in range(2):
        with pytest.raises(tvmrt.TVMError, match=r"prepared.*5 rows cannot be done"):
            results(network, {"x": rows(5)})
        (y,) = results(network, {"x": rows(6)})
        np.testing.assert_array_equal(y, np.maximum(-rows(6), 0))


def test_refused_size_falls_back_to_the_cpu(plugin, tmp_path):
    network = compiled(tmp_path, device_fallback=True)
    for count in (5, 4, 5):
        (y,) = results(network, {"x": rows(count)})
        np.testing.assert_array_equal(y, np.maximum(-rows(count), 0))


def run_sizes(plugin, network, *counts):
    """Return the sizes at which the device ran."""
    before = len(plugin.journal_of_slots())
    for count in counts:
        (y,) = results(network, {"x": rows(count)})
        np.testing.assert_array_equal(y, np.maximum(-rows(count), 0))
    noted = plugin.journal_of_slots()[before:].decode().split()
    return [int(word[1:]) for word in noted if word[0] == "r"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_device_that_refuses_the_largest_size_computes_smaller_ones(
    executor, plugin, monkeypatch, tmp_path
):
    monkeypatch.setenv("PREPARED_MOST", "6")
    with pytest.raises(
        UnsupportedError, match=r'too many rows.*dims=\{"rows": \(1, 6\)\}.*fallback'
    ):
        compiled(tmp_path)
    library = tvmrt.compile(
        rectified(), dims={"rows": (1, 8)}, devices=["prepared"], executor=executor,
        device_fallback=True,
    )  # fmt: skip
    (region,) = library.summary.regions
    assert "up to rows = 6; larger ones run on the CPU: there are too many rows" in region.note
    network = loaded(library, tmp_path, executor)
    assert run_sizes(plugin, network, 8, 6, 7, 5, 2, 8, 6) == [6, 5, 2, 6]


def test_node_too_large_at_the_maximum_size_is_a_separate_region(plugin, monkeypatch, tmp_path):
    """Nodes that the device supports at all sizes stay on the device at all sizes."""
    monkeypatch.setenv("PREPARED_MOST", "6")
    monkeypatch.setenv("PREPARED_OP", "relu")
    alone = tvmrt.compile(rectified(), dims={"rows": (1, 8)}, devices=["prepared"])
    assert [row.device for row in alone.summary.nodes] == ["prepared", "cpu"]
    library = tvmrt.compile(
        rectified(), dims={"rows": (1, 8)}, devices=["prepared"], device_fallback=True
    )
    assert [row.device for row in library.summary.nodes] == ["prepared", "prepared"]
    network = loaded(library, tmp_path, "graph")
    assert run_sizes(plugin, network, 8, 6, 7) == [8, 6, 6, 7]


@pytest.mark.slow
def test_suggested_smaller_sizes_work_on_the_command_line(plugin, monkeypatch, tmp_path):
    """Use the options that the error suggests."""
    monkeypatch.setenv("PREPARED_MOST", "6")
    monkeypatch.setenv("TVMRT_DEVICE_PATH", str(Path(plugin._name).parent))
    onnx.save(rectified(), tmp_path / "net.onnx")
    command = [sys.executable, "-m", "tvmrt", "compile", "net.onnx", "-o", "net.so", "--device"]
    command += ["prepared", "--require-device", "prepared"]

    def run(*options):
        done = [*command, *options]
        return subprocess.run(done, cwd=tmp_path, capture_output=True, text=True, check=False)

    message = run("--dim", "rows=1..8").stderr
    ways = re.findall(r"compile with (--\S[^,:]*)", message)
    assert ways == ["--dim rows=1..6", "--device-fallback"]
    for options in (ways[0].split(), [ways[1], "--dim", "rows=1..8"]):
        done = run(*options)
        assert done.returncode == 0, done.stderr


def test_threads_of_different_sizes_get_their_own_results(plugin, tmp_path):
    network = compiled(tmp_path)
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))

    def work(count):
        own = EXECUTORS["graph"](module["default"](tvmrt.cpu(0)))
        for i in range(40):
            x = rows(count, i)
            (y,) = results(own, {"x": x})
            np.testing.assert_array_equal(y, np.maximum(-x, 0))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, (2, 7, 2, 8)))
    del network


def test_region_checks_its_sizes(plugin, tmp_path):
    compiled(tmp_path)
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    symbol = "tvmgen_default_prepared_main_0"
    run = module.get_function(symbol, query_imports=True)
    x, y = (tvmrt.nd.array(rows(4)) for _ in range(2))
    run(x, y, tvmrt.nd.array(np.array([4])))
    np.testing.assert_array_equal(y.numpy(), np.maximum(-rows(4), 0))
    for sizes, message in {
        (9,): "size 0 is 9, expected 1 to 8",
        (4, 4): "takes 1 sizes as its last argument",
        (3,): "tensor 'x' comes with another shape",
    }.items():
        with pytest.raises(ValueError, match=message):
            run(x, y, tvmrt.nd.array(np.array(sizes)))
    with pytest.raises(ValueError, match="1 input and 1 output and its sizes, got 2 tensors"):
        run(x, y)


def region(extents, sizes=((1, 8),)):
    tensors = [
        {"name": n, "dtype": "float32", "shape": [8, 3], "least": [1, 3], "extents": extents}
        for n in "xy"
    ]
    attrs = {"most": float("inf")}  # Python writes it as Infinity
    node = {"op": "relu", "name": "r", "inputs": [0], "outputs": [1], "attrs": attrs}
    one = {
        "symbol": "r", "name": "r", "tensors": tensors, "nodes": [node], "inputs": [0],
        "outputs": [1], "sizes": sizes,
    }  # fmt: skip
    head = {"format": "tvmrt-regions", "version": 1, "device": "prepared", "regions": [one]}
    return json.dumps(head)


WRONG = {
    "no such size": ["d1", "3"],
    "not a number": ["d0 x +", "3"],
    "nothing": ["", "3"],
    "too few operands": ["d0 +", "3"],
    "too few for a bound": ["p", "3"],
    "too many operands": ["d0 3", "3"],
    "deep": [" ".join(["1"] * 40), "3"],
    "divided by 0": ["d0 0 /", "3"],
    "negative": ["d0 -9 +", "3"],
    "too large": ["d0 " + "2147483647 * " * 3, "3"],
    "sum too large": ["2147483647 2147483647 * 1 * 2147483647 2147483647 * +", "3"],
    "another operator": ["d0 2 -", "3"],
    "an empty operand": ["d0 1  ", "3"],
    "too few extents": ["d0"],
    "too many extents": ["d0", "3", "1"],
    "too many elements": ["d0 1000000000 *", "1000000000 1000000000 *"],
}


@pytest.mark.parametrize("extents", WRONG.values(), ids=WRONG)
def test_damaged_extents(extents, plugin):
    with pytest.raises((ValueError, tvmrt.TVMError)):
        tvmrt.get_global_func("tvmrt.device.load_regions")(region(extents), b"")


@pytest.mark.parametrize("sizes", [[[1]], [[1, 2, 3]], [[-1, 8]], [[1, 2**40]], [[8, 1]], [1]])
def test_damaged_sizes(sizes, plugin):
    with pytest.raises((ValueError, tvmrt.TVMError)):
        tvmrt.get_global_func("tvmrt.device.load_regions")(region(["d0", "3"], sizes), b"")


def test_extents_match_the_compiler(plugin):
    load = tvmrt.get_global_func("tvmrt.device.load_regions")
    run = load(region(["d0 2 * -3 + p 4 / 1 +", "3"]), b"").get_function("r", True)
    for size in (1, 4, 8):
        x = rows(max(2 * size - 3, 0) // 4 + 1)
        y = tvmrt.nd.array(x * 0)
        run(tvmrt.nd.array(x), y, tvmrt.nd.array(np.array([size])))
        np.testing.assert_array_equal(y.numpy(), np.maximum(x, 0))
