"""Test matmuls and convolutions of float activations with int8 weights, one scale or one per
channel."""

from __future__ import annotations

import numpy as np
import pytest
from compilers import Build
from many_networks import STRICT, ManyNetworks
from tflite_case import Net, assert_like, feeds_for, litert_runs, ours

from tvmrt.compiler.transform.optimize import optimize
from tvmrt.plugins.tflite.frontend import import_model

pytest.importorskip("ai_edge_litert")

SCALES = {
    "one": 0.01, "equal": [0.01] * 4, "channels": [0.01, 0.02, 0.03, 0.04],
    "one is 0": [0.01, 0.0, 0.02, 0.03],
}  # fmt: skip
GEOMETRY = {"strideW": 1, "strideH": 1, "padding": 0}


class Layers(Net):
    """Layers with one input, in parallel."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(1)
        self.x = self.input((2, 6, 5, 4), "float32")

    def operands(self, shape: tuple[int, ...], scale, axis: int = 0) -> list[int]:
        weights = self.rng.integers(-127, 128, shape).astype(np.int8)
        bias = self.rng.standard_normal(shape[axis]).astype(np.float32)
        return [self.const(weights, scale, axis=axis), self.const(bias)]

    def convolution(self, scale, shape=(4, 3, 3, 4), dilation: int = 1) -> None:
        y = self.output((2, 6, 5, shape[0]), "float32")
        dilations = {"dilationWFactor": dilation, "dilationHFactor": dilation}
        operands = [self.x, *self.operands(shape, scale)]
        self.op("CONV_2D", operands, [y], 5, "Conv2DOptions", **GEOMETRY, **dilations)

    def depthwise(self, scale) -> None:
        y = self.output((2, 6, 5, 4), "float32")
        operands = [self.x, *self.operands((1, 3, 3, 4), scale, 3)]
        self.op("DEPTHWISE_CONV_2D", operands, [y], 6, "DepthwiseConv2DOptions",
                depthMultiplier=1, **GEOMETRY)  # fmt: skip

    def transposed(self, scale) -> None:
        y = self.output((2, 6, 5, 4), "float32")
        w, b = self.operands((4, 3, 3, 4), scale)
        extents = self.const(np.array((2, 6, 5, 4), np.int32))
        self.op("TRANSPOSE_CONV", [extents, w, self.x, b], [y], 3, "TransposeConvOptions",
                **GEOMETRY)  # fmt: skip

    def dense(self, scale, asymmetric: bool) -> None:
        y = self.output((60, 4), "float32")
        operands = [self.x, *self.operands((4, 4), scale)]
        self.op("FULLY_CONNECTED", operands, [y], 9, "FullyConnectedOptions",
                asymmetricQuantizeInputs=asymmetric)  # fmt: skip


def layers() -> Layers:
    net = Layers()
    for name, scale in SCALES.items():
        net.convolution(scale)
        net.transposed(scale)
        for asymmetric in (False, True):
            net.dense(scale, asymmetric)
        if name != "one":  # which LiteRT refuses
            net.depthwise(scale)
    net.convolution(0.01, dilation=2)
    net.convolution(0.01, (1, 3, 3, 4))
    net.convolution([0.01] * 4, (4, 1, 1, 2))  # two groups
    return net


def inputs(data: bytes) -> list[np.ndarray]:
    """Return two images of different ranges, not centred at zero."""
    (x,) = feeds_for(data)
    x = 3 * x + 1
    x[0] *= 0.1
    return [x]


def test_activations_are_quantised_as_by_litert(tmp_path):
    data = layers().data()
    (right,) = litert_runs(data, [inputs(data)])
    assert_like(ours(data, inputs(data), tmp_path), right)


def test_an_image_of_zeros_gives_the_bias(tmp_path):
    data = layers().data()
    x = inputs(data)[0]
    x[1] = 0
    (right,) = litert_runs(data, [[x]])
    assert_like(ours(data, [x], tmp_path), right)


def test_transpose_convolution_of_stride_1_is_not_padded():
    """A transposed convolution of stride 1 inserts no zeros between elements: no step copies
    them."""
    graph = import_model(layers().data())
    optimize(graph, lambda name, after: None)
    pads = [node for node in graph.nodes if node.op == "pad"]
    assert pads and all(any((*n.attrs["before"], *n.attrs["after"])) for n in pads)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32"])
def test_activations_are_quantised_as_by_litert_on_boards(target, tmp_path):
    build = Build("gcc", "-O2", "plain", target)
    data = layers().data()
    networks = ManyNetworks({"hybrid": data}, {"hybrid": inputs(data)}, target, tmp_path)
    (right,) = litert_runs(data, [inputs(data)])
    assert_like(networks.results(build, tmp_path, STRICT)["hybrid"], right)
