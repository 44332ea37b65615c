"""Int8 residual adds fused into the tiles of the preceding layer; results equal onnxruntime's."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from quant_case import LAYERS, Net, scalar

from tvmrt.compiler import pipeline
from tvmrt.compiler.codegen.c.formatting import LINE
from tvmrt.compiler.codegen.loops.quantized_binary_scales import binary_scales
from tvmrt.compiler.ir import DTYPES, get_op

# the layer, its channels, int8 or uint8, whether it is the second addend, whether a bound follows
SUMS = {
    "part of a vector": ("1x1", 23, "uint8", False, False),
    "whole vectors": ("1x1", 64, "uint8", True, True),
    "whole and part": ("3x3", 75, "int8", False, False),
    "signed": ("3x3", 48, "int8", True, False),
}
ZEROS = {"uint8": np.uint8(117), "int8": np.int8(-9)}


def layer(net: Net, x: str, name: str, outputs: int, kind: str, scale: float) -> str:
    """Return the int8 output of a convolution."""
    _, w_shape, attrs = LAYERS[name]
    weights = net.bytes("int8", outputs, *w_shape[1:])
    of_x, of_y = (scalar(0.02), ZEROS[kind]), (scalar(scale), ZEROS[kind])
    return net.node(
        "QLinearConv", x, *of_x, weights, scalar(0.004), np.int8(0), *of_y, **attrs
    )  # fmt: skip


def residual(net: Net, name: str, outputs: int, kind: str, swapped: bool, bounded: bool) -> str:
    """Return a quantised add of two layers; the second one's tiles compute it."""
    x, scales = net.input(net.bytes(kind, *LAYERS[name][0])), (0.031, 0.0173)
    layers = [layer(net, x, name, outputs, kind, scale) for scale in scales]
    a, b = (net.dequantize(y, scalar(s), ZEROS[kind]) for y, s in zip(layers, scales))
    total = net.node("Add", *((b, a) if swapped else (a, b)))
    if bounded:
        total = net.node("Relu", total)
    return net.quantize(total, scalar(0.0291), ZEROS[kind])


def test_int8_results_match_onnxruntime(tmp_path):
    net = Net()
    for label, sizes in SUMS.items():
        net.output(residual(net, *sizes), label)
    net.check(tmp_path, steps=0, share=0)
    operators = pipeline.compile(net.model(), target="native").summary.operators
    assert not [each for each in operators if each.op == "qadd"]


def test_results_read_twice_are_stored(tmp_path):
    """A layer output with a second reader, and a tensor added to itself."""
    net = Net()
    net.output(residual(net, *SUMS["part of a vector"]), "sum")
    last = [n.output[0] for n in net.nodes if n.op_type == "QLinearConv"][-1]
    net.output(last, "layer")
    x = net.input(net.bytes("uint8", *LAYERS["1x1"][0]))
    y = layer(net, x, "1x1", 24, "uint8", 0.031)
    y = net.dequantize(y, scalar(0.031), ZEROS["uint8"])
    net.output(net.quantize(net.node("Add", y, y), scalar(0.06), np.uint8(3)), "twice")
    net.check(tmp_path, steps=0, share=0)


@pytest.mark.parametrize("target", ["x86-64", "cortex-m4", "cortex-m55"])
def test_generated_lines_are_short(target):
    net = Net()
    net.output(residual(net, *SUMS["whole vectors"]))
    files = pipeline.compile(net.model(), target=target).sources.files
    lines = [
        line
        for name, text in files.items()
        if name.endswith((".c", ".h"))
        for line in text.split("\n")
    ]
    assert [line for line in lines if len(line) > LINE] == []


@pytest.mark.parametrize("op", ["qadd", "qmul"])
def test_multiplication_replaces_exact_divisions(op):
    """With scales of real quantizers, almost all of 40 pairs need no division, and all match the
    formula for each pair of bytes."""
    rng, divided = np.random.default_rng(3), 0
    a, b = ((np.arange(256) - zero).astype(np.float32) for zero in (117, 3))
    for _ in range(40):
        scales = [float(np.float32(s)) for s in rng.uniform(0.01, 0.09, 3)]
        node = SimpleNamespace(op=op, attrs=dict(zip(("a_scale", "b_scale", "y_scale"), scales)))
        node.attrs |= {"a_zero": 117, "b_zero": 3, "y_zero": 90, "low": 0, "high": 255}
        node.operator = get_op(op)
        node.inputs = [SimpleNamespace(dtype=DTYPES["uint8"])] * 2
        by = binary_scales(node)
        divided += by.divisor != 1
        bytes_by = []
        for fa, fb, factor, divisor in ((*scales[:2], 1, scales[2]), vars(by).values()):
            u, v = a[:, None] * np.float32(fa), b * np.float32(fb)
            both = u + v if op == "qadd" else u * v * np.float32(factor)
            bytes_by.append(np.clip(np.rint(both / np.float32(divisor)) + 90, 0, 255))
        assert np.array_equal(*bytes_by)
    assert divided <= 2
