"""Test convolutions with a fused activation and add, as written by onnxruntime's optimiser."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "support"))

from nn_case import case, check

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
