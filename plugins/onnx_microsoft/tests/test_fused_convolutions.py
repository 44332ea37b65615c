"""Test convolutions with a fused activation and add, as written by onnxruntime's optimiser."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "support"))

from nn_case import case, check
from onnx import helper
from onnx_graph import model

from tvmrt.compiler.frontend.onnx import import_model

RNG = np.random.default_rng(11)


def array(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def test_fused(tmp_path):
    inputs = [array(1, 3, 8, 8), array(5, 3, 3, 3), array(5)]
    ms = {"domain": "com.microsoft", "pads": [1, 1, 1, 1]}
    cases = [
        case(name, "FusedConv", inputs, [1, 2], activation=name, **ms)
        for name in ("Relu", "Tanh", "Sigmoid")
    ]
    cases += [
        case(
            "leaky",
            "FusedConv",
            inputs,
            [1, 2],
            activation="LeakyRelu",
            activation_params=[0.1],
            **ms,
        ),
        case(
            "clip",
            "FusedConv",
            inputs,
            [1, 2],
            activation="Clip",
            activation_params=[0.1, 0.4],
            **ms,
        ),
        case("sum", "FusedConv", [*inputs, array(1, 5, 8, 8)], [1, 2], activation="Relu", **ms),
    ]
    check(cases, 13, tmp_path)


def test_attributes_that_contradict_the_window_are_refused():
    """onnxruntime refuses these as well."""
    for attrs, words in (
        ({"kernel_shape": [5, 5]}, "kernel_shape is [5, 5], the weights are float32[5, 3, 3, 3]"),
        ({"pads": [1] * 4, "auto_pad": "SAME_UPPER"}, "pads is [1, 1, 1, 1], but auto_pad is SAME"),
        ({"pads": [-1] * 4}, "pads is [-1, -1, -1, -1], expected 4 integers from 0"),
        ({"auto_pad": "WIDE"}, "auto_pad is 'WIDE', expected one of NOTSET"),
    ):
        node = helper.make_node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", **attrs)
        network = model([node], {"x": array(1, 3, 8, 8)}, ["y"], {"w": array(5, 3, 3, 3)})
        network.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        with pytest.raises(ValueError, match=re.escape(words)):
            import_model(network)
