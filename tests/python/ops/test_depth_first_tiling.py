"""Depth-first execution, a slab of rows at a time: bitwise equal results in less memory."""

from __future__ import annotations

import platform
from math import prod

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.runtime.executor import AotModule, GraphModule

X = np.random.default_rng(5).standard_normal((1, 8, 41, 19), np.float32)


class Blocks:
    """A network of independent blocks, each from the input to a separate output."""

    def __init__(self, seed: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.outputs = [], {}, []

    def op(self, kind: str, *inputs: str, **attributes) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"weight{len(self.weights)}"
        self.weights[name] = array.astype(np.float32)
        return name

    def conv(self, x: str, shape: tuple, stride=1, pads=(0, 0, 0, 0), group=1, dilation=1) -> str:
        w = self.rng.standard_normal(shape) / prod(shape[1:]) ** 0.5
        bias = self.constant(self.rng.standard_normal(shape[0]))
        strides, dilations = [stride, stride], [dilation, dilation]
        return self.op(
            "Conv", x, self.constant(w), bias, strides=strides, pads=list(pads), group=group,
            dilations=dilations,
        )  # fmt: skip

    def act(self, x: str, kind: str) -> str:
        if kind == "relu6":
            return self.op("Clip", x, self.constant(np.array(0.0)), self.constant(np.array(6.0)))
        if kind == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        return self.op(kind, x)

    def epilogues(self, x: str, channels: int) -> str:
        """Return epilogues with a per-channel operand."""
        scales = self.constant(self.rng.standard_normal((channels, 1, 1)))
        return self.op("Mul", self.act(x, "Relu"), scales)

    def block(self, kinds, middle: int, size: int, stride: int, pads, **window) -> str:
        """Return an expansion and a depthwise layer."""
        wide = self.act(self.conv("x", (middle, 8, 1, 1)), kinds)
        shape = (middle, 1, size, size)
        return self.act(self.conv(wide, shape, stride, pads, middle, **window), kinds)

    def model(self, x: np.ndarray = X):
        return make_model(self.nodes, {"x": x}, self.outputs, self.weights)


def blocks(x: np.ndarray = X):
    """Return blocks with several kernels, strides, pads, width tails and epilogues."""
    made = Blocks()
    inverted = made.conv(made.block("relu6", 50, 3, 1, (1, 1, 1, 1)), (8, 50, 1, 1))
    made.outputs.append(made.op("Add", inverted, "x"))  # the chain's own input
    strided = made.conv(made.block("silu", 37, 5, 2, (2, 1, 3, 4)), (21, 37, 1, 1))
    made.outputs.append(made.act(strided, "Relu"))
    excited = made.block("HardSwish", 48, 7, 1, (3, 3, 3, 3))
    mean = made.op("GlobalAveragePool", excited)
    scales = made.act(made.conv(mean, (48, 48, 1, 1)), "Sigmoid")
    made.outputs.append(made.conv(made.op("Mul", excited, scales), (9, 48, 1, 1)))
    # a stem, grouped windows, one that skips rows, and an add with another block's result
    stem = made.act(made.conv("x", (32, 8, 3, 3), 2, (0, 1, 1, 1)), "Relu")
    grouped = made.act(made.conv(stem, (32, 8, 3, 3), 1, (1, 1, 1, 1), 4), "Relu")
    skipping = made.conv(grouped, (17, 32, 1, 1), 2)
    second = made.act(made.conv("x", (17, 8, 4, 4), 4, (1, 0, 0, 3)), "Relu")
    made.outputs.append(made.op("Add", skipping, second))
    dilated = made.block("relu6", 16, 3, 1, (0, 2, 1, 2), dilation=2)
    made.outputs.append(made.conv(dilated, (8, 16, 1, 1)))
    return made.model(x)


def pools(x: np.ndarray = X):
    """Return pooling at the start, inside and at the end of chains, with padded, partial, separate
    and adjacent windows, epilogues and channel tails."""
    made = Blocks()
    stem = made.act(made.conv("x", (21, 8, 3, 3), 1, (1, 1, 1, 1)), "Relu")
    size = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    pooled = made.op("MaxPool", stem, **size, ceil_mode=1)
    made.outputs.append(made.conv(pooled, (37, 21, 1, 1)))
    wide = made.act(made.conv("x", (50, 8, 1, 1)), "silu")
    deep = made.act(made.conv(wide, (50, 1, 3, 3), 1, (1, 1, 1, 1), 50), "Relu")
    mean = made.op("AveragePool", deep, **size, count_include_pad=1, ceil_mode=1)
    made.outputs.append(made.op("MaxPool", mean, kernel_shape=[2, 2], strides=[1, 1]))
    first_pool = made.op("MaxPool", "x", kernel_shape=[2, 3], dilations=[3, 2], pads=[1, 0, 1, 2])
    part = made.op("AveragePool", made.conv(first_pool, (16, 8, 1, 1)), **size)
    made.outputs.append(made.act(part, "HardSwish"))
    power = made.op("LpPool", made.conv("x", (16, 8, 1, 1)), kernel_shape=[2, 2], strides=[2, 2])
    made.outputs.append(made.conv(power, (8, 16, 2, 2), 2))
    first = made.epilogues(made.conv("x", (16, 8, 1, 1)), 16)
    pooled = made.op("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    made.outputs.append(made.epilogues(made.conv(pooled, (24, 16, 1, 1)), 24))
    return made.model(x)


@pytest.fixture(scope="module", params=[blocks, pools])
def libraries(tmp_path_factory, request):
    """Compile a network untiled and tiled, the latter also for a machine without vectors."""
    folder, made = tmp_path_factory.mktemp("slabs"), {"model": request.param()}
    for name, options in {
        "whole": {"row_chains": False, "executor": "aot"},
        "chains": {"row_chains": True, "executor": "graph"},
        "host": {"row_chains": True, "executor": "aot", "target": "host"},
    }.items():
        library = tvmrt.compile(made["model"], **options)
        library.export_library(folder / f"{name}.so")
        made[name] = folder / f"{name}.so", library
    return made


def results(library) -> list[np.ndarray]:
    path, compiled = library
    module = tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0))
    executor = (GraphModule if compiled.has_graph_json else AotModule)(module)
    executor.set_input(0, X)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


@pytest.fixture
def threads():
    """Set the number of threads, and restore it afterwards."""
    configure = tvmrt.get_global_func("runtime.config_threadpool")
    before = tvmrt.get_global_func("runtime.NumThreads")()
    yield lambda count: configure(0, count)
    configure(0, before)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_tiled_chains_match_whole_layers_bitwise(libraries, threads, count):
    threads(count)
    whole, found = results(libraries["whole"]), results(libraries["chains"])
    assert len(found) == len(libraries["model"].graph.output)
    for a, b in zip(whole, found):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("target", ["chains", "host"])
def test_chains_agree_with_onnxruntime(libraries, target):
    model = libraries["model"].SerializeToString()
    right = onnxruntime.InferenceSession(model).run(None, {"x": X})
    for a, b in zip(results(libraries[target]), right):
        assert np.abs(a - b).max() < 2e-5 * np.abs(b).max()


def test_chains_are_single_operators_and_take_less_memory(libraries, request):
    whole, chains = (libraries[name][1].summary for name in ("whole", "chains"))
    # 3, 3, 2, 2 and 3 layers are 5 operators; the fourth's last one follows a second branch;
    # scales and the last layer after the third are one; 3, 4, 3, 3 and 3 layers with pooling
    fewer = {"blocks": 9, "pools": 11}[request.node.callspec.params["libraries"].__name__]
    assert len(whole.operators) - len(chains.operators) == fewer
    assert chains.arena_bytes < 0.7 * whole.arena_bytes
    assert sum(op.macs for op in chains.operators) == sum(op.macs for op in whole.operators)


def inverted(extent: int, channels: int = 24, batch: int = 1):
    made = Blocks()
    x = np.zeros((batch, 8, extent, extent), np.float32)
    wide = made.block("relu6", channels, 3, 1, (1, 1, 1, 1))
    made.outputs.append(made.conv(wide, (8, channels, 1, 1)))
    return made.model(x)


def operators(model, **options) -> int:
    return len(tvmrt.compile(model, **options).summary.operators)


def test_cache_resident_layers_are_tiled_only_on_request():
    assert operators(inverted(16)) == operators(inverted(16), row_chains=False)
    assert operators(inverted(16), row_chains=True) == operators(inverted(16)) - 2
    assert operators(inverted(160)) == operators(inverted(160), row_chains=False) - 2


def test_batches_are_not_tiled():
    model = inverted(16, batch=2)
    assert operators(model, row_chains=True) == operators(model, row_chains=False)


def test_result_with_other_readers_is_not_tiled():
    made = Blocks()
    wide = made.block("relu6", 24, 3, 1, (1, 1, 1, 1))
    made.outputs += [wide, made.conv(wide, (8, 24, 1, 1))]
    model = made.model()
    assert operators(model, row_chains=True) == operators(model, row_chains=False) - 1


def few_rows(x: np.ndarray):
    """Return blocks of 7 x 7, as at the end of networks, with channel tails, and their means."""
    made = Blocks()
    deep = made.act(made.conv("x", (401, 8, 1, 1)), "HardSwish")
    for size, stride in ((5, 1), (3, 2)):
        windows = (401, 1, size, size)
        wide = made.act(made.conv("x", (401, 8, 1, 1)), "Relu")
        pads = [size // 2] * 4
        made.outputs.append(made.act(made.conv(wide, windows, stride, pads, 401), "HardSwish"))
    made.outputs.append(made.op("GlobalAveragePool", made.outputs[0]))
    made.outputs.append(made.op("GlobalAveragePool", deep))
    return made.model(x)


def count_steps_saved(model, x, folder, threads, **options) -> int:
    """Check that tiled results equal untiled ones bitwise for any number of threads. Return the
    number of steps saved."""
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found, counts = [], []
    for name, chains in {"whole": {"row_chains": False}, "chains": {}}.items():
        library = tvmrt.compile(model, executor="aot", **options, **chains)
        counts.append(len(library.summary.operators))
        library.export_library(folder / f"{name}.so")
        executor = AotModule(
            tvmrt.runtime.load_module(folder / f"{name}.so")["default"](tvmrt.cpu(0))
        )
        for count in (1, 2, 3, 4, 7, 8):
            threads(count)
            executor.set_input(0, x)
            executor.run()
            found.append([executor.get_output(i).numpy() for i in range(len(right))])
    for outputs in found:
        for a, b, first in zip(outputs, right, found[0]):
            assert np.abs(a - b).max() < 2e-5 * np.abs(b).max()
            assert np.array_equal(a, first)
    return counts[0] - counts[1]


def test_few_rows_are_partitioned_by_channels(tmp_path, threads):
    """Results equal those of whole layers bitwise, for any number of threads."""
    x = np.random.default_rng(6).standard_normal((1, 8, 7, 7), np.float32)
    assert count_steps_saved(few_rows(x), x, tmp_path, threads) == 2


def scaled_channels(x: np.ndarray):
    """Return 1x1 convolutions of scaled channels, with vector and tile tails, the scale on either
    side, a residual add, and one scaled tensor with a second reader."""
    made = Blocks()
    for channels in (401, 64, 24, 3):
        wide = made.act(made.conv("x", (channels, 8, 1, 1)), "HardSwish")
        mean = made.op("GlobalAveragePool", wide)
        scales = made.act(made.conv(mean, (channels, channels, 1, 1)), "Sigmoid")
        pair = (wide, scales) if channels % 2 else (scales, wide)
        product = made.op("Mul", *pair)
        narrow = made.conv(product, (8, channels, 1, 1))
        made.outputs.append(made.op("Add", narrow, "x") if channels > 50 else narrow)
    made.outputs.append(made.conv(product, (8, 3, 1, 1), stride=2))
    return made.model(x)


@pytest.mark.parametrize("kind", ["native", "host", "v3"])
@pytest.mark.parametrize("size", [(19, 11), (7, 7)])
def test_channel_scales_are_fused_into_the_next_layer(tmp_path, threads, size, kind):
    """Results equal whole layers bitwise, for any number of threads; v3 tiles have tails of several
    pixels and of none."""
    if kind == "v3" and platform.machine() != "x86_64":
        pytest.skip("v3 is a level of x86-64")
    target = {"target": "x86-64", "levels": ["v3"]} if kind == "v3" else {"target": kind}
    x = np.random.default_rng(7).standard_normal((1, 8, *size), np.float32)
    # the last Mul has several readers
    assert count_steps_saved(scaled_channels(x), x, tmp_path, threads, **target) == 3


def test_factors_without_channels_are_not_channel_scales():
    """Products of an image and a scalar or a vector, in front of another operator."""
    x = np.random.default_rng(8).standard_normal((1, 8, 6, 5), np.float32)
    made = Blocks()
    for axes in ([0, 1, 2, 3], [0, 1, 2]):
        factor = made.op("ReduceMax", "x", axes=axes, keepdims=0)
        made.outputs.append(made.conv(made.op("Mul", factor, "x"), (4, 8, 1, 1)))
    model = made.model(x)
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for a, b in zip(tvmrt.load(model, cache=False)(x), right):
        assert np.abs(a - b).max() < 2e-5 * np.abs(b).max()
