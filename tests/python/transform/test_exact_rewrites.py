"""Dead channels, cropped kernels and folded padding: results stay bitwise equal.

One network contains every form as an output, in int8 and float; it is compiled with and without the
passes, for a board and for this machine.
"""

from __future__ import annotations

import importlib

import numpy as np
import onnx
import pytest
from boards import BOARDS, run_network
from onnx import helper, numpy_helper

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform.optimize import optimize

optimize_module = importlib.import_module("tvmrt.compiler.transform.optimize")
REWRITES = ("prune-channels", "fold-pad", "fold-pad-again", "crop-windows")
STEP, ZERO = 0.05, 3  # scale of intermediate tensors and of the input


class Forms:
    """A network under construction, with int8 or float layers."""

    def __init__(self, quantised: bool, seed: int = 0) -> None:
        self.quantised = quantised
        self.kind = "i8" if quantised else "f32"
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.outputs: dict[str, str] = {}

    def const(self, array) -> str:
        name = f"{self.kind}_w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op: str, *inputs: str, **attrs) -> str:
        name = f"{self.kind}_{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attrs))
        return name

    def step(self, x: str, step: float = STEP, zero: int = ZERO) -> str:
        if not self.quantised:
            return x
        ends = self.const(np.float32(step)), self.const(np.int8(zero))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *ends), *ends)

    def parameters(self, w: np.ndarray, b: np.ndarray, axis: int) -> tuple[str, str]:
        """Return weights and bias with per-channel scales; tiny ones for channels without weights,
        as converters write."""
        if not self.quantised:
            return self.const(w.astype(np.float32)), self.const(b.astype(np.float32))
        other = tuple(d for d in range(w.ndim) if d != axis)
        scale = np.maximum(np.abs(w).max(axis=other) / 127, np.abs(b) / STEP / 2.0**30)
        scale = np.maximum(scale, 1e-9).astype(np.float32)
        shape = [-1 if d == axis else 1 for d in range(w.ndim)]
        q, zeros = np.rint(w / scale.reshape(shape)).astype(np.int8), np.zeros(len(scale))
        units = scale * np.float32(STEP)
        b = np.rint(b / units.astype(np.float64)).astype(np.int32)
        parts = ((q, scale, axis, np.int8), (b, units.astype(np.float32), 0, np.int32))
        return tuple(
            self.add("DequantizeLinear", self.const(data), self.const(s),
                     self.const(zeros.astype(kind)), axis=along)
            for data, s, along, kind in parts
        )  # fmt: skip

    def conv(self, x: str, shape, still=(), unread=(), bias=None, **attrs) -> str:
        """Add a convolution with ``still`` zero outputs and ``unread`` zero input channels."""
        w = self.rng.standard_normal(shape) * (1.0 / np.prod(shape[1:])) ** 0.5
        w[list(still)] = 0
        w[:, list(unread)] = 0
        b = self.rng.standard_normal(shape[0]) * 0.3 if bias is None else np.asarray(bias)
        return self.add("Conv", x, *self.parameters(w, b, 0), **attrs)

    def dense(self, x: str, shape) -> str:
        w = self.rng.standard_normal(shape) / shape[0] ** 0.5
        return self.add("Gemm", x, *self.parameters(w, self.rng.standard_normal(shape[1]), 1))

    def pad(self, x: str, before: int, after: int, value: float = 0.0) -> str:
        pads = self.const(np.array([0, 0, before, before, 0, 0, after, after]))
        return self.step(self.add("Pad", x, pads, self.const(np.float32(value))))

    def output(self, name: str, value: str) -> None:
        self.outputs[f"{self.kind}_{name}"] = value


STILL = (0, 3, 4, 7, 8, 11, 12, 15)
SIGNS = np.tile([0.7, -0.5, 0.3, 0.45, -0.6, 0.2, 0.8, -0.9], 2)  # four of STILL are above 0


def chain(net: Forms, x: str) -> None:
    """Add dead channels before depthwise layers with and without padding, then before windows."""
    for name, pads in (("padded", [1] * 4), ("inside", [0] * 4)):
        y = net.step(net.add("Relu", net.conv(x, (16, 6, 1, 1), STILL, bias=SIGNS)))
        y = net.conv(y, (16, 1, 3, 3), (5, 13), bias=SIGNS, group=16, pads=pads)
        y = net.step(net.add("Relu", y))
        still = (1, 2, 3, 4, 7, 9, 10, 11)  # 1, 4, 7 and 9 are 0
        y = net.step(net.add("Relu", net.conv(y, (16, 16, 3, 3), still, bias=SIGNS, pads=pads)))
        net.output(name, net.step(net.conv(y, (5, 16, 1, 1))))
    # an input of the network keeps its channels
    y = net.step(net.conv(x, (6, 1, 3, 3), (1, 4), group=6, bias=SIGNS[:6]))
    net.output("input", net.step(net.conv(y, (4, 6, 1, 1))))


def joined(net: Forms, x: str) -> None:
    """Add sums, concatenations and flattened images with equal live channels on every side."""
    a = net.step(net.add("Relu", net.conv(x, (16, 6, 1, 1), STILL, bias=SIGNS)))
    b = net.conv(x, (16, 6, 3, 3), (*STILL, 1), bias=SIGNS, pads=[1] * 4)
    both = net.step(net.add("Add", a, net.step(net.add("Relu", b))))
    parts = net.step(net.add("Concat", both, a, axis=1))
    pooled = net.step(net.add("AveragePool", parts, kernel_shape=[2, 2], strides=[2, 2]))
    pooled = net.step(net.add("MaxPool", pooled, kernel_shape=[2, 2], strides=[2, 2]))
    net.output("flat", net.step(net.dense(net.add("Flatten", pooled), (32 * 4, 9))))
    last = net.add("Transpose", pooled, perm=[0, 2, 3, 1])
    net.output("last", net.step(net.dense(net.add("Flatten", last), (32 * 4, 9))))
    net.output("read", net.step(net.conv(both, (4, 16, 1, 1), unread=(2, 5))))
    whole = net.step(net.add("GlobalAveragePool", both))
    net.output("mean", net.step(net.dense(net.add("Flatten", whole), (16, 3))))


def unread(net: Forms, x: str) -> None:
    """Add channels for which the next layer has zero weights."""
    y = net.step(net.add("Relu", net.conv(x, (16, 6, 1, 1), bias=SIGNS)))
    net.output("unread", net.step(net.conv(y, (5, 16, 3, 3), unread=range(1, 16, 2))))


def grouped(net: Forms, x: str) -> None:
    """Add few-group channels, and matmul rows, whose following layer has other channels."""
    y = net.step(net.add("Relu", net.conv(x, (8, 6, 1, 1))))
    y = net.step(net.add("Relu", net.conv(y, (8, 4, 3, 3), group=2)))
    net.output("groups", net.step(net.conv(y, (5, 8, 1, 1), unread=range(4))))
    for width in (6, 5):  # as many as channels, and fewer
        rows = net.parameters(net.rng.standard_normal((8, width)) / 3, np.zeros(width), 1)[0]
        y = net.step(net.add("MatMul", x, rows))
        y = net.step(net.conv(y, (6, 1, 3, 3), group=6))
        net.output(f"rows{width}", net.step(net.conv(y, (5, 6, 1, 1), unread=range(4))))


def paddings(net: Forms, x: str) -> None:
    y = net.step(net.add("Relu", net.conv(x, (8, 6, 1, 1))))
    net.output("conv", net.step(net.conv(net.pad(y, 1, 2), (5, 8, 3, 3), strides=[2, 2])))
    net.output("depthwise", net.step(net.conv(net.pad(y, 2, 0), (8, 1, 3, 3), group=8)))
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    net.output("max", net.step(net.add("MaxPool", net.pad(y, 1, 1), **window)))
    net.output("mean_pad", net.step(net.add("AveragePool", net.pad(y, 0, 1), **window)))


def dilated(net: Forms, x: str) -> None:
    """Add kernels with rows or columns that only meet padding."""
    y = net.step(net.add("Relu", net.conv(x, (8, 6, 1, 1))))
    far = net.conv(y, (5, 8, 3, 3), dilations=[8, 8], pads=[8] * 4)
    net.output("far", net.step(far))
    wide = net.conv(y, (5, 8, 3, 3), dilations=[3, 9], pads=[3, 9, 3, 9])
    net.output("wide", net.step(wide))
    wide = net.conv(y, (8, 1, 5, 5), group=8, dilations=[4, 4], pads=[8] * 4)
    net.output("depthwise", net.step(wide))
    # windows of four rows, three apart, that begin at -8 and -4
    last = net.conv(y, (5, 8, 4, 1), dilations=[3, 1], strides=[4, 1], pads=[8, 0, 1, 0])
    net.output("strided", net.step(last))
    whole = net.conv(y, (5, 8, 3, 3), dilations=[7, 7], pads=[7] * 4)
    net.output("whole", net.step(whole))


def stay(net: Forms, x: str) -> None:
    """Add forms that must not be folded: nonzero padding, windows of padding only, maxima."""
    y = net.step(net.add("Relu", net.conv(x, (8, 6, 1, 1))))
    net.output("not_zero", net.step(net.conv(net.pad(y, 1, 1, 0.5), (5, 8, 3, 3))))
    net.output("wins", net.step(net.add("MaxPool", net.pad(x, 1, 1), kernel_shape=[3, 3])))
    net.output("alone", net.step(net.add("MaxPool", net.pad(y, 3, 3), kernel_shape=[2, 2])))
    net.output("counted", net.step(net.add("AveragePool", net.pad(y, 1, 1), pads=[1] * 4,
                                           kernel_shape=[3, 3])))  # fmt: skip


def network(*forms, kinds=(True, False)) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    x = np.random.default_rng(9).uniform(-4, 4, (1, 6, 8, 8)).astype(np.float32)
    nets = [Forms(quantised) for quantised in kinds]
    for net in nets:
        start = net.step("x")
        for form in forms:
            form(net, start)
        for name, value in net.outputs.items():
            net.nodes.append(helper.make_node("Identity", [value], [name]))
    graph = helper.make_graph(
        [n for net in nets for n in net.nodes],
        "forms",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info(n) for net in nets for n in net.outputs],
        [w for net in nets for w in net.weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), {
        "x": x
    }


def reference(model, feeds) -> dict[str, np.ndarray]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def on_host(model, feeds, folder, **options) -> dict[str, np.ndarray]:
    library = tvmrt.compile(model, executor="aot", **options)
    library.export_library(str(folder / "net.so"))
    module = tvmrt.runtime.load_module(str(folder / "net.so"))
    executor = tvmrt.runtime.executor.AotModule(module["default"](tvmrt.cpu(0)))
    executor.set_input("x", feeds["x"])
    executor.run()
    outputs = library.summary.outputs
    return {o.name: executor.get_output(i).numpy() for i, o in enumerate(outputs)}


def on_board(model, feeds, folder) -> dict[str, np.ndarray]:
    board = BOARDS["cortex-m4"]
    library = tvmrt.compile(model, target=board.target, interface_api="c", unpacked_api=True,
                            module_name="net")  # fmt: skip
    return run_network(board, library, feeds, folder).outputs


def without_rewrites(monkeypatch) -> None:
    kept = tuple(p for p in optimize_module.PASSES if p[0] not in REWRITES)
    assert len(kept) == len(optimize_module.PASSES) - len(REWRITES)
    monkeypatch.setattr(optimize_module, "PASSES", kept)


def compare(found, wanted) -> None:
    for name, expected in wanted.items():
        if name.startswith("i8"):  # sums near a tie differ by one step, rewritten or not
            np.testing.assert_allclose(found[name], expected, atol=STEP * 1.01, err_msg=name)
            assert (found[name] != expected).sum() <= 1, name
        else:
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_board_results_are_bitwise_equal_with_rewrites(tmp_path, monkeypatch):
    model, feeds = network(chain, joined, unread, paddings, dilated)
    found = on_board(model, feeds, tmp_path / "with")
    compare(found, reference(model, feeds))
    without_rewrites(monkeypatch)
    for name, expected in on_board(model, feeds, tmp_path / "without").items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


@pytest.mark.slow
def test_host_matches_onnxruntime(tmp_path):
    model, feeds = network(chain, joined, paddings, dilated, kinds=[True])
    compare(on_host(model, feeds, tmp_path), reference(model, feeds))


@pytest.mark.slow
def test_grouped_convolutions_match_onnxruntime(tmp_path):
    model, feeds = network(grouped)
    compare(on_host(model, feeds, tmp_path, target="native"), reference(model, feeds))


def layers(form) -> dict[str, list]:
    """Return the weight shapes of each kind of layer, and the number of remaining pads."""
    graph = import_model(network(form)[0])
    optimize(graph, lambda name, graph: None)
    found: dict[str, list] = {"i8": [], "f32": [], "pads": []}
    for node in graph.nodes:
        if node.op == "pad":
            found["pads"].append(node.name)
        elif node.op in ("conv", "qconv", "matmul", "qmatmul"):
            found["i8" if node.op.startswith("q") else "f32"].append(node.inputs[1].shape)
    return found


def test_dead_channels_are_pruned():
    found = layers(chain)
    # Four of the eight dead channels are zero; the others matter next to padding. Inside, integer
    # sums have them in the bias; float sums would be rounded differently. Kernels
    # process four channels at a time: six live ones become eight.
    ends = [(6, 1, 3, 3), (4, 6, 1, 1)]
    floats = [(12, 6, 1, 1), (12, 1, 3, 3), (12, 12, 3, 3), (5, 12, 1, 1)]
    padded = [(12, 6, 1, 1), (12, 1, 3, 3), (8, 12, 3, 3), (5, 8, 1, 1)]
    inside = [(8, 6, 1, 1), (8, 1, 3, 3), (8, 8, 3, 3), (5, 8, 1, 1)]
    assert found["i8"] == [*padded, *inside, *ends]
    assert found["f32"] == [*floats, *floats, *ends]
    for kind in ("i8", "f32"):
        assert layers(unread)[kind] == [(8, 6, 1, 1), (5, 8, 3, 3)]
    # four dead channels of the sum are 0; in int8 all eight are in the biases
    assert sorted(layers(joined)["f32"])[-2:] == [(96, 9), (96, 9)]
    assert sorted(layers(joined)["i8"])[-2:] == [(64, 9), (64, 9)]


def test_grouped_and_other_axis_channels_are_kept():
    found = layers(grouped)
    rows = [(8, 6), (6, 1, 3, 3), (5, 6, 1, 1)]
    for kind in ("i8", "f32"):
        assert sorted(found[kind]) == sorted(
            [(8, 6, 1, 1), (8, 4, 3, 3), (5, 8, 1, 1), *rows, (8, 5), *rows[1:]]
        )


def test_pads_are_folded_into_matching_windows():
    assert layers(paddings)["pads"] == []
    assert len(layers(stay)["pads"]) == 8


def test_padding_only_kernel_rows_are_cropped():
    found = layers(dilated)
    kept = [(5, 8, 1, 1), (5, 8, 3, 1), (8, 1, 3, 3), (5, 8, 2, 1), (5, 8, 3, 3)]
    for kind in ("i8", "f32"):
        assert found[kind] == [(8, 6, 1, 1), *kept], kind
