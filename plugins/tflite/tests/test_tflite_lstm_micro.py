"""Compare int8 LSTMs in the rounding "micro" with results recorded from tflite-micro's interpreter,
which the tests do not depend on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from compilers import Build
from many_networks import STRICT, ManyNetworks
from test_tflite_control import int8_lstm
from tflite_case import FILES, Net, feeds_for, litert_runs

import tvmrt
from tvmrt.compiler.ir.fixed_point import logistic_by_table, tanh_by_table

pytest.importorskip("ai_edge_litert")

RECORDED = FILES / "lstm_micro.json"
# Steps, the power of two of the cell's scale, and options. 14 steps are a loop.
CASES = {
    "fine cell": (3, -15, {}), "clipped": (3, -12, {"cellClip": 1.5}),
    "coarse cell": (3, -11, {"timeMajor": True}), "loop": (14, -13, {}),
}  # fmt: skip


def lstm(case: str) -> bytes:
    """Make a layer with random weights; input gate and hidden state have their own scales."""
    steps, cell, options = CASES[case]
    batch, depth, units = 2, 5, 4
    rng, net = np.random.default_rng(list(CASES).index(case)), Net()
    major = options.get("timeMajor", False)
    shape = (steps, batch) if major else (batch, steps)
    x = net.input((*shape, depth), "int8", scale=0.023, zero=4)

    def weights(gate: int, k: int) -> int:
        numbers = rng.integers(-127, 128, (units, k)).astype(np.int8)
        return net.const(numbers, scale=0.009 + gate / 999)

    w, r = ([weights(gate, k) for gate in range(4)] for k in (depth, units))
    bias = [net.const(rng.integers(-3000, 3000, units).astype(np.int32), 1.0) for _ in range(4)]
    h = net.tensor((batch, units), "int8", scale=0.0079, zero=-3)
    c = net.tensor((batch, units), "int16", scale=2.0**cell)
    for state in (h, c):
        net.graph.tensors[state].isVariable = True
    between = [net.tensor((0,), "int16", scale=2.0**-12) for _ in range(4)]
    between.append(net.tensor((0,), "int8", scale=0.0081, zero=-5))
    inputs = [x, *w, *r, -1, -1, -1, *bias, -1, -1, h, c, -1, -1, -1, -1]
    y = net.output((*shape, units), "int8", scale=0.0079, zero=-3)
    net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], 3, "UnidirectionalSequenceLSTMOptions",
           fusedActivationFunction=4, **options)  # fmt: skip
    net.graph.operators[-1].intermediates = between
    return net.data()


def inputs(case: str) -> np.ndarray:
    """Return two consecutive sequences."""
    steps, _, options = CASES[case]
    shape = (steps, 2) if options.get("timeMajor") else (2, steps)
    return np.random.default_rng(9).integers(-128, 128, (2, *shape, 5)).astype(np.int8)


def recorded(case: str) -> np.ndarray:
    return np.array(json.loads(RECORDED.read_text())[case], np.int8)


@pytest.mark.parametrize("case", CASES)
def test_integers_equal_tflite_micro(case):
    network = tvmrt.load(lstm(case), tflite_rounding="micro", cache=False)
    found = np.stack([np.asarray(network(x)) for x in inputs(case)])
    np.testing.assert_array_equal(found, recorded(case))


@pytest.mark.parametrize(("operator", "fn"), [("LOGISTIC", logistic_by_table),
                                              ("TANH", tanh_by_table)])  # fmt: skip
def test_the_functions_of_gates_are_the_operators_of_int16(operator, fn):
    net, x = Net(), np.arange(-32768, 32768).astype(np.int16).reshape(1, -1)
    operand = net.input(x.shape, "int16", scale=2.0**-12)
    net.op(operator, [operand], [net.output(x.shape, "int16", scale=2.0**-15)], 3)
    (right,) = litert_runs(net.data(), [[x]])
    np.testing.assert_array_equal(fn(3 * x.astype(np.int32)), right[0])


def test_layer_missing_in_tflite_micro_equals_litert():
    net = Net()
    int8_lstm(net, cifg=True, cell=-12)
    feeds = feeds_for(net.data())
    network = tvmrt.load(net.data(), tflite_rounding="micro", cache=False)
    (right,) = litert_runs(net.data(), [feeds])
    np.testing.assert_array_equal(np.asarray(network(*feeds)), right[0])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32"])
def test_boards_get_the_same(target, tmp_path):
    build = Build("gcc", "-O2", "plain", target)
    names = {case.replace(" ", "_"): case for case in CASES}
    networks = ManyNetworks(
        {name: lstm(case) for name, case in names.items()},
        {name: [inputs(case)[0]] for name, case in names.items()},
        target, tmp_path, concurrent=True,
    )  # fmt: skip
    for name, (found,) in networks.results(build, tmp_path, STRICT).items():
        np.testing.assert_array_equal(found, recorded(names[name])[0])
