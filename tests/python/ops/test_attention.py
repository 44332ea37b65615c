"""Attention and rotary embedding, compared with the reference evaluator or ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from nn_case import case, check

RNG = np.random.default_rng(17)


def array(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def qkv(steps=4, length=6, heads=3, shared=3, width=8, value=8, batch=2):
    return [
        array(batch, heads, steps, width),
        array(batch, shared, length, width),
        array(batch, shared, length, value),
    ]


@pytest.mark.slow
def test_attention(tmp_path):
    mask = RNG.uniform(0, 1, (4, 6)) > 0.3
    mask[:, 0] = True
    flat = [array(2, 4, 24), array(2, 6, 24), array(2, 6, 30)]
    cases = [
        case("plain", "Attention", qkv()),
        case("scale and cap", "Attention", qkv(), scale=0.3, softcap=2.0),
        case("shared heads", "Attention", qkv(heads=6, shared=2)),
        case("one key head", "Attention", qkv(heads=4, shared=1, value=5)),
        case("causal", "Attention", qkv(steps=6), is_causal=1),
        case("float mask", "Attention", [*qkv(), array(2, 1, 4, 6)]),
        case("bool mask", "Attention", [*qkv(), mask]),
        case("causal and mask", "Attention", [*qkv(steps=6), array(6, 6)], is_causal=1),
        case("short mask", "Attention", [*qkv(), array(4, 5)]),
        case("three axes", "Attention", flat, q_num_heads=3, kv_num_heads=3),
    ]
    blocked = mask.copy()
    blocked[1] = False
    cases.append(case("a row without keys", "Attention", [*qkv(), blocked]))
    past = [array(2, 3, 5, 8), array(2, 3, 5, 8)]
    cases.append(case("past", "Attention", [*qkv(length=4), None, *past], is_causal=1, outputs=3))
    # mode 0 returns the scores before the soft cap, which the evaluator does not keep
    cases += [
        case(
            f"scores {mode}",
            "Attention",
            [*qkv(), array(4, 6)],
            outputs=4,
            softcap=1.5 if mode else 0.0,
            qk_matmul_output_mode=mode,
        )
        for mode in range(4)
    ]
    check(cases, 23, tmp_path, "reference")


def test_attention_windows(tmp_path):
    cases = [
        case("window", "Attention", qkv(steps=6), left_window_size=2, right_window_size=1),
        case("causal window", "Attention", qkv(steps=6), left_window_size=1, is_causal=1),
        case(
            "valid keys",
            "Attention",
            [*qkv(), None, None, None, np.array([5, 6])],
            is_causal=1,
        ),
    ]
    check(cases, 25, tmp_path, "reference")


def test_rotary_embedding(tmp_path):
    x, flat = array(2, 3, 4, 8), array(2, 4, 24)
    places = np.array([[0, 3, 5, 1], [9, 2, 2, 4]])
    cos, sin = array(10, 4), array(10, 4)
    near = [array(2, 4, 4), array(2, 4, 4)]
    cases = [
        case("by place", "RotaryEmbedding", [x, cos, sin, places]),
        case("constant caches", "RotaryEmbedding", [x, cos, sin, places], [1, 2]),
        case("interleaved", "RotaryEmbedding", [x, cos, sin, places], interleaved=1),
        case("no places", "RotaryEmbedding", [x, *near]),
        case("three axes", "RotaryEmbedding", [flat, *near], num_heads=3),
        case(
            "partial",
            "RotaryEmbedding",
            [x, array(10, 2), array(10, 2), places],
            rotary_embedding_dim=4,
        ),
    ]
    check(cases, 23, tmp_path, "reference")


@pytest.mark.slow
def test_newest(tmp_path):
    def packed(heads, width):
        return array(2, 5, heads * width)

    rate = RNG.uniform(0, 1, (2, 5, 2)).astype(np.float32)
    decay = -RNG.uniform(0, 1, (2, 5, 8)).astype(np.float32)
    state = array(2, 2, 4, 3)
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "outputs": 2}
    inputs = [packed(4, 4), packed(2, 4), packed(2, 3)]
    cases = [
        case("linear", "LinearAttention", inputs, update_rule="linear", **heads),
        case("gated", "LinearAttention", [*inputs, state, decay], update_rule="gated", **heads),
        case(
            "delta", "LinearAttention", [*inputs, state, None, rate], update_rule="delta", **heads
        ),
        case(
            "gated delta", "LinearAttention", [*inputs, None, decay[:, :, :2].copy(), rate], **heads
        ),
        case(
            "causal conv", "CausalConvWithState", [array(2, 6, 5), array(6, 1, 4)], [1], outputs=2
        ),
        case(
            "causal conv with state",
            "CausalConvWithState",
            [array(2, 6, 5), array(6, 1, 4), array(6), array(2, 6, 3)],
            [1, 2],
            outputs=2,
            activation="silu",
        ),
    ]
    check(cases, 27, tmp_path, "reference")
