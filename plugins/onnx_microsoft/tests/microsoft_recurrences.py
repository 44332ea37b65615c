"""Test cases of operators with a state per sequence: linear attention, causal convolution."""

from __future__ import annotations

import numpy as np
from nn_case import Case, case

RNG = np.random.default_rng(73)
MS = {"domain": "com.microsoft"}
RULES = ("linear", "gated", "delta", "gated_delta")


def array(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 0.9, shape).astype(np.float32)


def halves(inputs: list) -> list:
    return [None if x is None else x.astype(np.float16) for x in inputs]


def linear_attention() -> list[Case]:
    """Up to eight steps are unrolled, more are a loop."""

    def one(id: str, steps: int, heads: tuple[int, int, int] = (2, 2, 2), **given) -> Case:
        count, keys, states = heads
        batch, width, size = 2, 4, 5
        parts = [array(batch, steps, n) for n in (count * width, keys * width, states * size)]
        parts[1] /= 2
        state = array(batch, states, width, size) if given.pop("state", True) else None
        decay = -positive(batch, steps, states * given.pop("decays", 1))
        beta = positive(batch, steps, given.pop("betas", states))
        rule = given.get("update_rule", "gated_delta")
        gates = [decay if "gated" in rule else None, beta if "delta" in rule else None]
        attrs = {"q_num_heads": count, "kv_num_heads": states, "outputs": 2, **given, **MS}
        return case(id, "LinearAttention", [*parts, state, *gates], **attrs)

    return [
        *(one(rule, 3, update_rule=rule) for rule in RULES),
        *(one(f"{rule} loop", 11, update_rule=rule) for rule in RULES),
        one("step", 1),
        one("no state", 3, state=False),
        one("decay of features", 3, decays=4),
        one("decay of features loop", 9, decays=4),
        one("one beta", 3, betas=1),
        one("query groups", 3, (4, 2, 2)),
        one("query groups loop", 10, (6, 2, 2)),
        one("shared queries", 3, (2, 4, 4)),
        one("shared queries and keys", 3, (2, 2, 4)),
        one("one key", 9, (4, 1, 4)),
        one("scale", 3, scale=0.3),
    ]


def gated_delta() -> list[Case]:
    def one(id: str, lead: tuple[int, ...], batch: int = 2, **given) -> Case:
        count, heads, width, size = 2, given.pop("heads", 4), 4, 5
        parts = [array(*lead, n, d) for n, d in ((count, width), (count, width), (heads, size))]
        if given.pop("packed", False):
            parts = [np.concatenate([x.reshape(*lead, -1) for x in parts], -1), None, None]
        decay = -positive(*lead, heads, *given.pop("decays", ()))
        beta, state = positive(*lead, heads), array(batch, heads, size, width)
        rule = given.get("update_rule", "gated_delta")
        gates = [decay if "gated" in rule else None, beta if "delta" in rule else None]
        if given.pop("half", False):
            parts = halves(parts)
        if given.pop("half gates", False):
            gates = halves(gates)
        state = state if given.pop("state", True) else None
        inputs = [*parts, None, *gates, state]
        if given.get("gate_activation", "none") != "none":
            inputs += [array(heads), array(*given.pop("bias", (heads,)))]
        attrs = {"outputs": 2, "qk_l2_norm": 1, **given, **MS}
        return case(id, "GatedDeltaNet", inputs, **attrs)

    rules = [one(rule, (6,), update_rule=rule) for rule in RULES]
    return [
        *rules,
        one("loop", (22,)),
        one("batch", (2, 3)),
        one("batch loop", (2, 9)),
        one("no state", (2, 3), state=False),
        one("packed query", (6,), packed=True),
        one("packed query of a batch", (2, 3), packed=True),
        one("decay of features", (6,), decays=(4,)),
        one("softplus", (6,), gate_activation="softplus", beta_activation="sigmoid"),
        one("bias of features", (6,), gate_activation="softplus", decays=(4,), bias=(4, 4)),
        one("flat bias", (6,), gate_activation="qwen", decays=(4,), bias=(16,)),
        one("bounded", (6,), gate_activation="kda", gate_lower_bound=-2.0),
        one("bounded by 5", (6,), gate_activation="sigmoid", decays=(4,)),
        one("no norm", (6,), qk_l2_norm=0, scale=0.2),
        one("half", (6,), half=True, rtol=2e-3, atol=2e-3),
        one("half gates", (6,), **{"half": True, "half gates": True}, rtol=2e-3, atol=2e-3),
    ]


def gates() -> list[Case]:
    a, b, bias, scale = array(2, 3, 4), array(2, 3, 4), array(4), -positive(4)

    def one(id: str, inputs: list, outputs: int, **attrs) -> Case:
        return case(id, "LinearAttentionGate", inputs, [1, 2], outputs=outputs, **attrs, **MS)

    return [
        one("decay", [a, bias, scale], 1),
        one("both", [a, bias, scale, b], 2),
        one("half", [*halves([a]), bias, scale, *halves([b])], 2, rtol=2e-3),
    ]


def causal_convolutions() -> list[Case]:
    def one(id: str, shape: tuple[int, ...], past: bool = True, bias: bool = True, **attrs) -> Case:
        last, taps = attrs.get("channels_last", 0), attrs.pop("taps", 4)
        channels = int(np.prod(shape[2:])) if last else shape[1]
        length = (taps - 1) * attrs.get("dilation", 1)
        state = (shape[0], length, *shape[2:]) if last else (*shape[:2], length)
        inputs = [array(*shape), array(channels, 1, taps), array(channels) if bias else None]
        inputs += [array(*state)] if past else []
        constants = attrs.pop("constants", [1, 2])
        return case(id, "CausalConvWithState", inputs, constants, outputs=2, **attrs, **MS)

    return [
        one("plain", (2, 3, 6)),
        one("step", (2, 3, 1), activation="silu"),
        one("no state", (2, 3, 6), past=False, activation="swish"),
        one("no bias", (1, 5, 7), bias=False),
        one("dilated", (2, 3, 5), dilation=3),
        one("one tap", (2, 3, 5), taps=1),
        one("last", (2, 6, 3), channels_last=1),
        one("many last", (2, 6, 3, 2), channels_last=1, dilation=2, activation="silu"),
        one("computed weights", (2, 3, 6), constants=[]),
    ]
