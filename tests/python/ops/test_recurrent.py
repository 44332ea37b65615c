"""LSTM, GRU and RNN, compared with ONNX Runtime or the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from nn_case import case, check
from onnx import helper
from onnx_graph import model

import tvmrt

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OUTPUTS = {"LSTM": 3, "GRU": 2, "RNN": 2}


def cell(
    id, op, steps=5, batch=2, width=3, hidden=7, states=False, bias=True, lengths=None, fixed=True,
    **attrs,
):  # fmt: skip
    """Return a recurrent node with random weights: constants if ``fixed``, otherwise inputs."""
    rng = np.random.default_rng(sum(map(ord, id)))
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    gates = GATES[op] * hidden

    def array(*shape):
        return rng.uniform(-0.7, 0.7, shape).astype(np.float32)

    batch_first = attrs.get("layout", 0)
    peepholes = attrs.pop("peepholes", False)
    x = array(batch, steps, width) if batch_first else array(steps, batch, width)
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    inputs = [
        x,
        array(directions, gates, width),
        array(directions, gates, hidden),
        array(directions, 2 * gates) if bias else None,
        None if lengths is None else np.asarray(lengths, np.int32),
        array(*state) if states else None,
    ]
    if op == "LSTM":
        inputs.append(array(*state) if states else None)
        inputs.append(array(directions, 3 * hidden) if peepholes else None)
    constants = [i for i in (1, 2, 3, 7) if i < len(inputs) and inputs[i] is not None]
    constants = constants if fixed else []
    while inputs[-1] is None:
        inputs.pop()
    return case(id, op, inputs, constants, hidden_size=hidden, outputs=OUTPUTS[op], **attrs)


def common(op):
    linear = {"linear_before_reset": 1} if op == "GRU" else {}
    return [
        cell("plain", op),
        cell("one row, wide", op, batch=1, hidden=40),
        cell("many rows", op, batch=37, hidden=16, steps=2),
        cell("one step", op, steps=1),
        cell("reverse", op, direction="reverse"),
        cell("bidirectional", op, direction="bidirectional", states=True),
        cell("no bias", op, bias=False),
        cell("initial states", op, states=True),
        cell("clip", op, clip=0.3),
        cell("lengths", op, lengths=[3, 5]),
        cell("lengths reverse", op, lengths=[2, 4], direction="reverse"),
        cell("lengths both", op, lengths=[4, 1], direction="bidirectional", states=True),
        cell("large", op, steps=8, batch=1, hidden=128, direction="bidirectional", **linear),
    ]


@pytest.mark.slow
def test_lstm(tmp_path):
    cases = [
        *common("LSTM"),
        cell("peepholes", "LSTM", peepholes=True, states=True),
        cell("coupled gates", "LSTM", input_forget=1),
        cell("activations", "LSTM", activations=["HardSigmoid", "Softsign", "Relu"]),
        cell(
            "parameters",
            "LSTM",
            activations=["HardSigmoid", "LeakyRelu", "Elu"],
            activation_alpha=[0.3, 0.1, 0.7],
            activation_beta=[0.4],
        ),
    ]
    check(cases, 14, tmp_path)


@pytest.mark.slow
def test_gru(tmp_path):
    cases = [
        *common("GRU"),
        cell("linear before reset", "GRU", linear_before_reset=1, states=True),
        cell("linear before reset, no bias", "GRU", linear_before_reset=1, bias=False),
        cell(
            "linear before reset, both",
            "GRU",
            linear_before_reset=1,
            direction="bidirectional",
            lengths=[5, 2],
        ),
        cell("activations", "GRU", activations=["Sigmoid", "Softplus"]),
    ]
    check(cases, 14, tmp_path)


def test_rnn(tmp_path):
    cases = [
        *common("RNN"),
        cell(
            "affine", "RNN", activations=["Affine"], activation_alpha=[0.5], activation_beta=[0.1]
        ),
        cell("thresholded", "RNN", activations=["ThresholdedRelu"], activation_alpha=[0.2]),
        cell(
            "scaled",
            "RNN",
            activations=["ScaledTanh"],
            activation_alpha=[1.5],
            activation_beta=[0.6],
        ),
    ]
    check(cases, 14, tmp_path)


@pytest.mark.slow
def test_dynamic_weights(tmp_path):
    cases = [
        cell("lstm", "LSTM", fixed=False, peepholes=True, states=True, direction="bidirectional"),
        cell("wide lstm", "LSTM", fixed=False, hidden=40, batch=3, lengths=[5, 1, 3]),
        cell("gru", "GRU", fixed=False, states=True, direction="bidirectional"),
        cell("gru before reset", "GRU", fixed=False, linear_before_reset=1, hidden=17),
        cell("gru without bias", "GRU", fixed=False, linear_before_reset=1, bias=False),
        cell("rnn", "RNN", fixed=False, direction="reverse", states=True),
    ]
    check(cases, 14, tmp_path)


def test_batch_first(tmp_path):
    cases = [cell(op, op, layout=1, states=True) for op in GATES]
    check(cases, 14, tmp_path, "reference")


def extents(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


WRONG_EXTENTS = {
    "peepholes-none": (7, extents(1, 0), r"operand p is float32\[1, 0\], .* = \[1, 6\]"),
    "peepholes-two": (7, extents(1, 2), r"operand p is float32\[1, 2\], .* = \[1, 6\]"),
    "lengths": (4, np.array([2], np.int32), r".* each sample; found .* lengths = int32\[1\]"),
    "state": (5, extents(1, 1, 2), r".* each direction and sample; found h0 = float32\[1, 1, 2\]"),
}


@pytest.mark.parametrize("place, array, sentence", WRONG_EXTENTS.values(), ids=WRONG_EXTENTS)
def test_cell_with_mismatched_operand_is_rejected(place, array, sentence):
    given = {"x": extents(3, 4, 5), "w": extents(1, 8, 5), "r": extents(1, 8, 2), "odd": array}
    names = ["x", "w", "r", *[""] * (place - 3), "odd"]
    node = helper.make_node("LSTM", names, ["y"], "cell", hidden_size=2)
    weights = {name: given[name] for name in ("w", "r")}
    proto = model([node], {n: a for n, a in given.items() if n not in weights}, ["y"], weights)
    with pytest.raises(ValueError, match=f"node cell .LSTM.: {sentence}"):
        tvmrt.compile(proto)
