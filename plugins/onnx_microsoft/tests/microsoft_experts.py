"""Test cases of mixtures of experts."""

from __future__ import annotations

import numpy as np
from nn_case import Case, case, reference

RNG = np.random.default_rng(74)
MS = {"domain": "com.microsoft"}
TOKENS, EXPERTS, WIDTH, INNER = 5, 4, 32, 16


def array(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.5, shape).astype(np.float32)


def _weights(rows: int, bias: bool = True) -> list:
    """Return the weights of both projections; the first has ``rows`` rows per expert."""
    biases = [array(EXPERTS, rows), array(EXPERTS, WIDTH)] if bias else [None, None]
    return [array(EXPERTS, rows, WIDTH), biases[0], array(EXPERTS, WIDTH, INNER), biases[1]]


def _inputs(*lead: int) -> list[np.ndarray]:
    lead = lead or (TOKENS,)
    return [array(*lead, WIDTH), 3 * array(int(np.prod(lead)), EXPERTS)]


def experts() -> list[Case]:
    def one(
        id: str, rows: int = INNER, lead=(), bias=True, constants=(2, 3, 4, 5), **attrs
    ) -> Case:
        inputs = [*_inputs(*lead), *_weights(rows, bias)]
        while inputs[-1] is None:
            inputs.pop()
        return case(id, "MoE", inputs, constants, **{"k": 2, **attrs}, **MS)

    gated = {"rows": 2 * INNER, "activation_type": "swiglu", "swiglu_fusion": 1}
    return [
        *(one(kind, activation_type=kind) for kind in ("relu", "gelu", "silu", "identity")),
        one("normalised", normalize_routing_weights=1),
        one("one expert", k=1),
        one("all experts", k=4, normalize_routing_weights=1),
        one("no bias", bias=False),
        one("three axes", lead=(2, 3)),
        one("computed weights", constants=()),
        one("swiglu", **gated),
        one(
            "swiglu of gpt-oss",
            activation_alpha=1.702,
            activation_beta=1.0,
            swiglu_limit=0.7,
            **gated,
        ),
        one("limit 0", swiglu_limit=0.0, **gated),
        *_rearranged(),
    ]


def _rearranged() -> list[Case]:
    """Layouts that onnxruntime computes on accelerators only, compared with what it computes on
    CPUs for the interleaved layout, or with a formula."""
    inputs = _inputs()
    both, bias, second, last = _weights(2 * INNER)
    attrs = {"k": 2, "activation_type": "swiglu", "swiglu_limit": 0.6, **MS}
    interleaved = case("", "MoE", [*inputs, both, bias, second, last], swiglu_fusion=1, **attrs)
    wanted = reference(interleaved, 17, "onnxruntime")
    gate, linear = ([v[:, i::2] for v in (both, bias)] for i in (0, 1))
    halves = [np.concatenate(pair, 1) for pair in zip(gate, linear)]
    rest = [second, last]
    return [
        case("halves", "MoE", [*inputs, *halves, *rest], swiglu_fusion=2, wanted=wanted, **attrs),
        case("fc3", "MoE", [*inputs, *gate, *rest, *linear], wanted=wanted, **attrs),
    ]


def _quantized(shape: tuple[int, ...], bits: int, block: int, zeros: bool):
    """Return packed weights, scales, zero points, and the weights that they stand for."""
    count, rows, width = shape
    numbers = RNG.integers(0, 1 << bits, shape).astype(np.uint8)
    blocks = width // block if block else 1
    scales = (RNG.uniform(0.5, 1, (count, rows, blocks)) / 2**bits).astype(np.float32)
    points = RNG.integers(0, 1 << bits, (count, rows, blocks)).astype(np.uint8)
    used = points if zeros else np.full_like(points, 1 << (bits - 1))
    spread = numbers.reshape(count, rows, blocks, -1).astype(np.float32) - used[..., None]
    weights = (spread * scales[..., None]).reshape(shape)
    if not block:
        scales, points = scales[..., 0], points[..., 0]
    return _packed(numbers, bits), scales, _packed(points, bits) if zeros else None, weights


def _packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    each = 8 // bits
    padding = -numbers.shape[-1] % each
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, padding)])
    numbers = numbers.reshape(*numbers.shape[:-1], -1, each)
    return np.bitwise_or.reduce(numbers << (np.arange(each, dtype=np.uint8) * bits), -1).astype(
        "u1"
    )


def quantized_experts() -> list[Case]:
    def one(id: str, bits=4, block=16, zeros=False, rows=2 * INNER, half=False, tail=(), **attrs):
        first, second = (EXPERTS, rows, WIDTH), (EXPERTS, WIDTH, INNER)
        parts = [_quantized(shape, bits, block, zeros) for shape in (first, second)]
        biases = [array(EXPERTS, rows), array(EXPERTS, WIDTH)]
        inputs = _inputs()
        for (packed, scales, _, _), bias in zip(parts, biases):
            inputs += [packed, scales, bias]
        inputs += [None, None, None, parts[0][2], parts[1][2], None, *tail]
        while inputs[-1] is None:
            inputs.pop()
        if half:
            inputs = [v.astype("f2") if v is not None and v.dtype == "f4" else v for v in inputs]
            attrs |= {"rtol": 4e-3, "atol": 4e-3}
        if rows == 2 * INNER:
            attrs |= {"activation_type": "swiglu", "swiglu_fusion": 1}
        if block:
            attrs["block_size"] = block
        attrs = {"k": 2, "expert_weight_bits": bits, **attrs, **MS}
        return case(id, "QMoE", inputs, range(2, 13), **attrs)

    weights = RNG.uniform(0.1, 1, (TOKENS, EXPERTS)).astype(np.float32)
    rounded = {"bits": 8, "rtol": 2e-2, "atol": 2e-2}  # onnxruntime rounds activations to int8
    return [
        *(one(f"{bits} bits", bits) for bits in (2, 4)),
        *(one(f"{bits} bits, zero points", bits, zeros=True) for bits in (2, 4)),
        one("8 bits", **rounded),
        one("8 bits, zero points", zeros=True, **rounded),
        *(one(f"{bits} bits by row", bits, 0, zeros) for bits in (4, 8) for zeros in (False, True)),
        one("raw", weights_prepacked=0, normalize_routing_weights=1),
        *(one(kind, rows=INNER, activation_type=kind) for kind in ("relu", "gelu", "silu")),
        one("half", half=True),
        one("router weights", tail=(weights,)),
        one("router weights, normalised", tail=(weights,), normalize_routing_weights=1),
        one("limit", activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.7),
        _mixed_widths(),
    ]


def _mixed_widths() -> Case:
    """Weights of 8 and 4 bits, compared with experts of the weights that they stand for."""
    inputs = _inputs()
    first = _quantized((EXPERTS, INNER, WIDTH), 8, 16, False)
    second = _quantized((EXPERTS, WIDTH, INNER), 4, 16, False)
    dense = [*inputs, first[3], None, second[3]]
    attrs = {"k": 2, "activation_type": "silu", **MS}
    wanted = reference(
        case("", "MoE", dense, normalize_routing_weights=1, **attrs), 17, "onnxruntime"
    )
    packed = [*inputs, *first[:2], None, *second[:2]]
    attrs |= {"fc1_expert_weight_bits": 8, "block_size": 16, "wanted": wanted}
    return case("mixed widths", "QMoE", packed, range(2, 7), **attrs)
