"""Test the signatures with which tuning identifies layers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tvmrt
from tvmrt.compiler.ir.tuned import Choice
from tvmrt.compiler.ir.tuned_layer import layer_of, parse_layer


def network(op: str, x: tuple, w: tuple, **attributes) -> onnx.ModelProto:
    """Return one layer with made-up weights."""
    weights = np.random.default_rng(0).standard_normal(w, np.float32)
    node = helper.make_node(op, ["x", "w"], ["y"], "layer", **attributes)
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x)]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph([node], "net", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


CASES = {
    "conv float32 1x3x9x8 by 4x3x3x2 stride 2x1 dilation 1x2 pads 1x0 0x2 groups 1": (
        network("Conv", (1, 3, 9, 8), (4, 3, 3, 2), strides=[2, 1], dilations=[1, 2],
                pads=[1, 0, 0, 2]),
        4 * 4 * 8 * (3 * 3 * 2),
    ),
    "conv float32 2x8x7 by 8x1x3 stride 1 dilation 1 pads 1 1 groups 8": (
        network("Conv", (2, 8, 7), (8, 1, 3), pads=[1, 1], group=8), 2 * 8 * 7 * 3,
    ),
    "matmul float32 6x5 by 5x7": (network("MatMul", (2, 3, 5), (5, 7)), 210),
    "conv_transpose float32 1x4x5x6 by 4x3x4x3 stride 2x1 dilation 1x1 pads 1x0 0x2 groups 1": (
        network("ConvTranspose", (1, 4, 5, 6), (4, 3, 4, 3), strides=[2, 1], pads=[1, 0, 0, 2]),
        5 * 6 * 4 * 3 * 4 * 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_a_layer_is_known_by_its_signature(text):
    model, macs = CASES[text]
    (step,) = [s for s in tvmrt.compile(model).program.steps if layer_of(s.group.root)]
    layer = layer_of(step.group.root)
    assert layer.text == text
    assert parse_layer(text) == layer
    y = step.group.root.output.shape
    assert np.prod(layer.out) == np.prod(y)
    if "conv" in text:
        assert layer.out == tuple(y)
    assert layer.macs == macs


@pytest.mark.parametrize(
    "text",
    [
        "", "conv", "matmul float32 6x5", "matmul float32 6 by 5x7", "matmul int4 6x5 by 5x7",
        "matmul float32 6x5x4 by 5x7", "matmul float32 6x0 by 0x7",
        "conv float32 1x3x9x8 by 4x3x3x2",
        "conv float32 1x3x9 by 4x3x3 stride 1x1 dilation 1x1 pads 0 0 groups 1",
        "matmul float32 6x5 by 5x7 stride 1 dilation 1 pads 0 0 groups 1",
        "lstm int8 3x1x16 by 16x4", "lstm float32 3x16 by 16x4", "gelu float32 6x5 by 5x7",
    ],
)  # fmt: skip
def test_invalid_signatures_are_refused(text):
    with pytest.raises(ValueError, match="is not a layer signature"):
        parse_layer(text)


def test_dynamic_layers_have_no_signature():
    model = network("MatMul", ("rows", 5), (5, 7))
    program = tvmrt.compile(model, dims={"rows": (1, 8)}).program
    assert not [step for step in program.steps if layer_of(step.group.root)]


def test_a_choice_reads_as_words():
    assert str(Choice()) == "as estimated"
    assert str(Choice((16, 2, 8), 3, threads=1)) == (
        "tiles of 16 x 2 channels x 8, 3 blocks at once, one thread"
    )
    assert str(Choice((16, 2, 8), square=4, threads=0)) == "Winograd 4, all threads"
