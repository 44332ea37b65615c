"""Test matmuls, normalisations and attention as onnxruntime's optimiser fuses them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "support"))

from nn_case import case, check

RNG = np.random.default_rng(11)


def array(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def test_fused_matmul(tmp_path):
    ms = {"domain": "com.microsoft"}
    cases = [
        case("plain", "FusedMatMul", [array(5, 7), array(7, 9)], alpha=0.25, **ms),
        case(
            "both transposed", "FusedMatMul", [array(7, 5), array(9, 7)], transA=1, transB=1, **ms
        ),
        case("batch", "FusedMatMul", [array(2, 5, 7), array(2, 9, 7)], transB=1, alpha=2.0, **ms),
        case(
            "FusedGemm", "FusedGemm", [array(5, 7), array(7, 9), array(9)], activation="Relu", **ms
        ),
        case(
            "FusedGemm leaky",
            "FusedGemm",
            [array(5, 7), array(7, 9), array(9)],
            activation="LeakyRelu",
            activation_alpha=0.1,
            **ms,
        ),
    ]
    check(cases, 13, tmp_path)


def test_fused_with_skip(tmp_path):
    ms = {"domain": "com.microsoft", "rtol": 1e-3, "atol": 1e-4}
    x, skip, row = array(2, 3, 16), array(2, 3, 16), [array(16) for _ in range(3)]
    cases = [
        case("skip", "SkipLayerNormalization", [x, skip, row[0], row[1]], [2, 3], **ms),
        case("skip bias", "SkipLayerNormalization", [x, skip, *row], [2, 3, 4], **ms),
        case("rms", "SkipSimplifiedLayerNormalization", [x, skip, row[0]], [2], epsilon=1e-5, **ms),
    ]
    check(cases, 17, tmp_path)


@pytest.mark.slow
def test_contributed(tmp_path):
    ms = {"domain": "com.microsoft"}
    x, row = array(2, 4, 24), array(24)
    keys = (RNG.uniform(0, 1, (2, 6)) > 0.4).astype(np.int32)
    keys[:, 0] = 1
    parts = [array(2, 4, 24), array(2, 6, 24), array(2, 6, 24)]
    multi = {"num_heads": 3, **ms}
    weights = [array(24, 72), array(72)]
    cases = [
        case("Gelu", "Gelu", [x], **ms),
        case("BiasGelu", "BiasGelu", [x, row], [1], **ms),
        case("FastGelu", "FastGelu", [x, row], [1], **ms),
        case("QuickGelu", "QuickGelu", [x], alpha=1.5, **ms),
        case("MultiHeadAttention", "MultiHeadAttention", parts, **multi),
        case("bias", "MultiHeadAttention", [*parts, array(72)], [3], **multi),
        case("key mask", "MultiHeadAttention", [*parts, None, keys], **multi),
        case(
            "attention bias", "MultiHeadAttention", [*parts, None, None, array(2, 3, 4, 6)], **multi
        ),
        case(
            "causal",
            "MultiHeadAttention",
            [array(2, 4, 24) for _ in range(3)],
            unidirectional=1,
            **multi,
        ),
        case("packed", "Attention", [x, *weights], [1, 2], **multi),
        case("packed causal", "Attention", [x, *weights], [1, 2], unidirectional=1, **multi),
        case("packed mask", "Attention", [x, *weights, keys[:, :4].copy()], [1, 2], **multi),
        case(
            "rotary",
            "RotaryEmbedding",
            [array(2, 3, 4, 8), np.array([2]), array(10, 4), array(10, 4)],
            [2, 3],
            **ms,
        ),
    ]
    check(cases, 17, tmp_path)
