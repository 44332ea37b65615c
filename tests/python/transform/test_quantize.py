"""Quantisation passes: operators that remain after conversions are fused."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform.optimize import optimize

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
from quant_case import Net


def scalar(number: float) -> np.ndarray:
    return np.asarray(number, np.float32)


def zero(kind: str, number: int = 0) -> np.ndarray:
    return np.asarray(number, kind)


def operators(net: Net) -> Counter:
    """Return the number of nodes per operator."""
    return Counter(node.op for node in optimized(net).nodes)


def optimized(net: Net):
    graph = import_model(net.model())
    optimize(graph, lambda name, graph: None)
    return graph


class Layers(Net):
    """Layers between conversions with one scale for all activations."""

    scale, point = scalar(0.1), zero("int8", 5)

    def start(self, *shape: int) -> str:
        return self.dequantize(self.input(self.bytes("int8", *shape)), self.scale, self.point)

    def kernel(self, *shape: int) -> str:
        return self.dequantize(self.bytes("int8", *shape), scalar(0.01), zero("int8"))

    def conv(self, x: str, out_c: int, in_c: int, bias: str | np.ndarray | None = None) -> str:
        weights = self.kernel(out_c, in_c, 3, 3)
        return self.node("Conv", x, weights, bias, pads=[1, 1, 1, 1])

    def end(self, y: str) -> str:
        return self.quantize(y, self.scale, self.point)

    def again(self, y: str) -> str:
        return self.dequantize(self.end(y), self.scale, self.point)


@pytest.mark.parametrize("after", ["nothing", "Relu", "Clip"])
def test_convolution_with_bounds_is_one_node(after):
    net = Layers()
    bias = net.dequantize(np.arange(8, dtype=np.int32), scalar(0.1) * scalar(0.01))
    y = net.conv(net.start(1, 4, 6, 6), 8, 4, bias)
    if after == "Relu":
        y = net.node("Relu", y)
    elif after == "Clip":
        y = net.node("Clip", y, scalar(0), scalar(6))
    net.output(net.end(y))
    assert operators(net) == {"qconv": 1}


def test_bounds_are_those_of_the_activation():
    net = Layers()
    y = net.node("Clip", net.conv(net.start(1, 4, 6, 6), 8, 4), scalar(0), scalar(6))
    net.output(net.end(y))
    (node,) = optimized(net).nodes
    assert (node.attrs["low"], node.attrs["high"]) == (5, 65)


def test_bounds_that_no_integer_exceeds_are_omitted():
    """Bytes from -128 to 127 of scale 0.1 and zero point 5 are numbers from -13.3 to 12.2."""
    for bounds, expected in {(0, 100): (5, 127), (-13.4, 3): (-128, 35)}.items():
        net = Layers()
        y = net.again(net.conv(net.start(1, 4, 6, 6), 8, 4))
        net.output(net.end(net.node("Clip", y, *map(scalar, bounds))))
        (node,) = optimized(net).nodes
        assert (node.op, node.attrs["low"], node.attrs["high"]) == ("qconv", *expected)


def test_float_result_dequantises_the_sums():
    net = Layers()
    net.output(net.conv(net.start(1, 4, 6, 6), 8, 4))
    (node,) = optimized(net).nodes
    assert (node.op, node.attrs["to"]) == ("qconv", "float32")


def test_fractional_bias_of_a_float_result_stays_an_add():
    net = Layers()
    bias = (np.arange(8) * 0.0123456 + 0.3).astype(np.float32)
    net.output(net.conv(net.start(1, 4, 6, 6), 8, 4, bias))
    assert operators(net) == {"qconv": 1, "add": 1}


def test_sums_that_could_overflow_stay_in_float():
    net = Layers()
    x = net.dequantize(net.input(net.bytes("uint8", 1, 70000)), scalar(0.1), zero("uint8"))
    w = net.dequantize(np.full((70000, 1), 127, np.int8), scalar(0.01), zero("int8"))
    net.output(net.node("MatMul", x, w))
    assert operators(net)["qmatmul"] == 0


def test_views_and_pools_between_convolutions_work_on_int8(tmp_path):
    net = Layers()
    y = net.again(net.conv(net.start(1, 4, 8, 8), 8, 4))
    y = net.again(net.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]))
    y = net.again(net.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]))
    y = net.again(net.node("Transpose", y, perm=[0, 2, 3, 1]))
    y = net.again(net.node("Reshape", y, np.array([1, 32])))
    net.output(net.end(net.node("MatMul", y, net.kernel(32, 7))))
    found = operators(net)
    assert {"quantize", "dequantize", "conv", "matmul"}.isdisjoint(found)
    assert (found["qconv"], found["qmatmul"]) == (1, 1)
    assert (found["qmax_pool"], found["qavg_pool"]) == (1, 1)

    # operators that select elements by constant or computed indices move integers, too
    net = Layers()
    lengths = net.input(np.array([2, 3], np.int64))
    y = net.node("ReverseSequence", net.start(4, 2, 6), lengths, time_axis=0, batch_axis=1)
    net.output(net.end(y), "sequences")
    scales = np.array([1, 1, 2, 2], np.float32)
    y = net.node("Resize", net.start(1, 3, 4, 4), None, scales, mode="nearest")
    net.output(net.end(y), "nearest")
    assert not {"quantize", "dequantize"} & operators(net).keys()
    net.check(tmp_path, steps=0)


def test_residual_add_has_an_int8_kernel():
    net = Layers()
    x = net.start(1, 4, 8, 8)
    y = net.again(net.conv(x, 4, 4))
    net.output(net.end(net.node("Relu", net.node("Add", x, y))))
    assert operators(net) == {"qconv": 1, "qadd": 1}


def test_concat_of_equal_scales_works_on_int8():
    net = Layers()
    x = net.start(1, 4, 8, 8)
    y = net.node("Concat", net.again(net.conv(x, 4, 4)), net.again(net.conv(x, 8, 4)), axis=1)
    net.output(net.end(y))
    assert operators(net) == {"qconv": 2, "concat": 1}


def test_quantize_after_concat_moves_into_the_convolutions():
    net = Layers()
    x = net.start(1, 4, 8, 8)
    net.output(net.end(net.node("Concat", net.conv(x, 4, 4), net.conv(x, 8, 4), axis=1)))
    assert operators(net) == {"qconv": 2, "concat": 1}


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu"])
def test_functions_of_one_tensor_become_tables(op):
    net = Layers()
    net.output(net.end(net.node(op, net.start(3, 40))))
    assert operators(net) == {"table": 1}


def test_table_holds_the_literal_result_of_every_byte():
    net = Layers()
    net.output(net.end(net.node("Tanh", net.start(3, 40))))
    (node,) = optimized(net).nodes
    q = np.arange(256, dtype=np.uint8).view(np.int8)
    real = (q.astype(np.float32) - 5) * np.float32(0.1)
    wanted = np.clip(np.rint(np.tanh(real) / np.float32(0.1)) + 5, -128, 127)
    np.testing.assert_array_equal(node.inputs[1].data.view(np.int8), wanted.astype(np.int8))


def test_argmax_works_on_int8():
    net = Layers()
    net.output(net.node("ArgMax", net.start(1, 9, 4, 4), axis=1))
    graph = optimized(net)
    assert Counter(n.op for n in graph.nodes)["dequantize"] == 0


def test_each_reader_dequantises_for_itself():
    net = Layers()
    x = net.start(3, 4)
    net.output(net.node("Exp", x))
    net.output(net.node("Sqrt", x))
    assert operators(net) == {"dequantize": 2, "exp": 1, "sqrt": 1}


def test_weights_of_other_types_stay_in_floats():
    net = Layers()
    w = net.dequantize(np.ones((8, 4, 3, 3), np.int16), scalar(0.01), zero("int16"))
    net.output(net.end(net.node("Conv", net.start(1, 4, 6, 6), w)))
    found = operators(net)
    assert (found["conv"], found["qconv"]) == (1, 0)


def test_scale_by_input_channel_stays_in_floats():
    net = Layers()
    scales = np.linspace(0.01, 0.02, 4, dtype=np.float32)
    w = net.dequantize(net.bytes("int8", 8, 4, 1, 1), scales, np.zeros(4, np.int8), axis=1)
    net.output(net.end(net.node("Conv", net.start(1, 4, 6, 6), w)))
    assert operators(net)["conv"] == 1


def test_product_of_two_computed_tensors_is_an_integer_kernel():
    net = Layers()
    y = net.node("Transpose", net.start(2, 5, 8), perm=[0, 2, 1])
    net.output(net.end(net.node("MatMul", net.start(2, 4, 8), y)))
    assert operators(net) == {"transpose": 1, "qmatmul_computed": 1}


def test_product_with_its_own_sigmoid_is_one_table():
    net = Layers()
    x = net.start(3, 40)
    gate = net.quantize(net.node("Sigmoid", x), scalar(1 / 256), zero("uint8"))
    gate = net.dequantize(gate, scalar(1 / 256), zero("uint8"))
    net.output(net.end(net.node("Mul", x, gate)))
    assert operators(net) == {"table": 1}


def test_quantised_result_of_a_node_with_missing_inputs():
    net = Layers()
    weights, recurrent = net.numbers(1, 16, 8), net.numbers(1, 16, 4)
    y = net.node("LSTM", net.start(5, 1, 8), weights, recurrent, None, hidden_size=4)
    net.output(net.end(y))
    found = operators(net)
    assert (found["lstm"], found["quantize"]) == (1, 1)
