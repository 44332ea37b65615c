"""Test cases of attention in the domain com.microsoft."""

from __future__ import annotations

import numpy as np
from nn_case import Case, case

RNG = np.random.default_rng(31)
MS = {"domain": "com.microsoft"}


def array(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def key_mask(*shape: int) -> np.ndarray:
    mask = (RNG.uniform(0, 1, shape) > 0.4).astype(np.int32)
    mask[..., 0] = 1
    return mask


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def attended(query: np.ndarray, key: np.ndarray, value: np.ndarray, bias=0.0) -> np.ndarray:
    """Compute attention in numpy, for packings that onnxruntime supports only on accelerators:
    heads [B, N, S, D]."""
    scores = query @ key.swapaxes(2, 3) / np.sqrt(query.shape[3]) + bias
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (powers / powers.sum(-1, keepdims=True)) @ value
    return mixed.swapaxes(1, 2).reshape(query.shape[0], query.shape[2], -1).astype(np.float32)


def heads(x: np.ndarray, count: int = 3) -> np.ndarray:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def packed() -> list[Case]:
    x, weights = array(2, 4, 10), [array(10, 36), array(36)]
    past = array(2, 2, 3, 5, 4)
    uneven = [array(10, 39), array(39)]

    def one(id: str, inputs: list, outputs: int = 1, **attrs) -> Case:
        return case(
            id, "Attention", [x, *inputs], [1, 2], outputs=outputs, num_heads=3, **attrs, **MS
        )

    return [
        one("plain", weights),
        one("causal", weights, unidirectional=1),
        one("keys", [*weights, key_mask(2, 4)]),
        one("keys, filter", [*weights, key_mask(2, 4)], mask_filter_value=-3.0),
        one("keys of queries", [*weights, key_mask(2, 4, 4)]),
        one("keys and causal", [*weights, key_mask(2, 4)], unidirectional=1),
        one("ends", [*weights, ints(3, 4)]),
        one("ends and starts", [*weights, ints(3, 4, 1, 0)]),
        one("sizes", uneven, qkv_hidden_sizes=[12, 12, 15]),
        one("past", [*weights, None, past], 2),
        one("past, causal", [*weights, None, past], 2, unidirectional=1),
        one("past and keys", [*weights, key_mask(2, 9), past], 2, unidirectional=1),
        one("bias", [*weights, None, None, array(2, 3, 4, 4)]),
        one("one bias", [*weights, key_mask(2, 4), None, array(1, 3, 4, 4)]),
        one("scale", weights, scale=0.3),
        one("present", weights, 2),
    ]


def multi_head() -> list[Case]:
    query, key, value = array(2, 4, 12), array(2, 6, 12), array(2, 6, 15)
    alike = [array(2, 4, 12) for _ in range(3)]
    past = [array(2, 3, 5, 4), array(2, 3, 5, 4)]
    whole, pair = array(2, 4, 3, 3, 4), array(2, 6, 3, 2, 4)
    parts = [whole[:, :, :, i].swapaxes(1, 2) for i in range(3)]
    halves = [pair[:, :, :, i].swapaxes(1, 2) for i in range(2)]

    def one(id: str, inputs: list, outputs: int = 1, **attrs) -> Case:
        return case(
            id, "MultiHeadAttention", inputs, [3], outputs=outputs, num_heads=3, **attrs, **MS
        )

    return [
        one("across", [query, key, value]),
        one("projection bias", [query, key, value, array(39)]),
        one("keys", [query, key, value, None, key_mask(2, 6)]),
        one("ends", [query, key, value, None, ints(6, 2)]),
        one("keys of queries", [query, key, value, None, key_mask(2, 4, 6)]),
        one("bias", [query, key, value, None, None, array(2, 3, 4, 6)]),
        one("broadcast bias", [query, key, value, None, None, array(1, 1, 4, 6)]),
        one("bias and keys", [query, key, value, array(39), key_mask(2, 6), array(1, 3, 4, 6)]),
        one("causal", alike, unidirectional=1),
        one("scale", alike, scale=0.7),
        one("one tensor", [whole], wanted=[attended(*parts)]),
        one("two tensors", [query, pair], wanted=[attended(heads(query), *halves)]),
        one("projected keys", [query, array(2, 3, 6, 4), array(2, 3, 6, 4)]),
        one("past", [*alike, None, None, None, *past], 3),
        one("past, causal", [*alike, None, None, None, *past], 3, unidirectional=1),
        one("past and keys", [*alike, array(36), key_mask(2, 9), None, *past], 3),
        one("past and bias", [*alike, None, None, array(2, 1, 4, 9), *past], 3),
    ]


def decoder() -> list[Case]:
    """Make a decoder step with a preallocated cache; without it, onnxruntime has no CPU kernel."""
    now = [array(2, 1, 12) for _ in range(3)]
    past = [array(2, 3, 5, 4), array(2, 3, 5, 4)]
    whole = [array(2, 3, 6, 4), array(2, 3, 6, 4)]
    joined = [np.concatenate([p, heads(x)], 2) for p, x in zip(past, now[1:])]
    keys, few, bias = key_mask(2, 6), key_mask(2, 4), array(2, 3, 1, 6)
    blocked = np.where(keys[:, None, None, :] > 0, 0, -10000)

    def one(id: str, inputs: list, outputs: int = 3, **attrs) -> Case:
        op = "DecoderMaskedMultiHeadAttention"
        return case(id, op, inputs, [10], outputs=outputs, num_heads=3, **attrs, **MS)

    def alone(id: str, inputs: list, added=0.0) -> Case:
        return one(id, inputs, wanted=[attended(heads(now[0]), *joined, added), *joined])

    def shared(id: str, mask=None, added=None, more: tuple = ()) -> Case:
        inputs = [*now, mask, added, *past, ints(3), *more]
        return one(id, inputs, past_present_share_buffer=1)

    return [
        alone("past", [*now, None, None, *past]),
        alone("keys", [*now, keys, None, *past], blocked),
        alone("bias", [*now, None, bias, *past], bias),
        one("across", [now[0], *whole], 1),
        shared("shared"),
        shared("shared, keys", few),
        shared("shared, bias", None, array(2, 3, 1, 4)),
        shared("shared, projection bias", more=(None, None, array(36))),
    ]


def group_query() -> list[Case]:
    """Make a batch of sequences of different lengths; caches are exact or preallocated."""

    def one(id: str, query: int, steps: int, batch: int, past: int, ends: list[int], **given):
        outputs, width = 3, given.pop("width", 16 if "do_rotary" in given else 8)
        total = given.pop("total", max(ends))
        parts = [array(batch, steps, query * width)]
        if given.pop("packed", False):
            parts = [array(batch, steps, (query + 4) * width), None, None]
        else:
            parts += [array(batch, steps, 2 * width) for _ in range(2)]
        caches = [array(batch, 2, past, width) for _ in range(2)] if past else [None, None]
        for cache in caches if past else ():
            # onnxruntime writes zeros to unused cache elements
            for text, end in zip(cache, ends):
                text[:, end - steps :] = 0
        inputs = [*parts, *caches, ints(*(e - 1 for e in ends)), ints(total)]
        inputs[6] = inputs[6].reshape(())
        angles = RNG.uniform(0, 6, (32, given.pop("angles", width // 2)))
        tables = [np.cos(angles), np.sin(angles)] if given.get("do_rotary") else [None, None]
        inputs += [t if t is None else t.astype(np.float32) for t in tables]
        inputs += [given.pop(name, None) for name in ("positions", "bias", "sink")]
        while inputs[-1] is None:
            inputs.pop()
        attrs = {"num_heads": query, "kv_num_heads": 2, "outputs": outputs, **given, **MS}
        return case(id, "GroupQueryAttention", inputs, [6, 7, 8], **attrs)

    places = np.array([[3], [5]])
    return [
        one("prompt", 4, 5, 2, 0, [5, 5]),
        one("packed", 4, 5, 2, 0, [5, 5], packed=True),
        one("one head a key", 2, 5, 1, 0, [5]),
        one("next", 4, 1, 2, 4, [5, 5]),
        one("next of uneven", 4, 1, 2, 4, [5, 3]),
        one("room", 4, 1, 2, 9, [5, 3]),
        one("room of a prompt", 4, 5, 1, 9, [5]),
        one("several", 4, 3, 1, 4, [7]),
        one("several with room", 4, 3, 1, 12, [7]),
        one("rotary prompt", 4, 5, 2, 0, [5, 5], do_rotary=1),
        one("rotary next", 4, 1, 2, 4, [5, 3], do_rotary=1),
        one("rotary packed", 4, 1, 2, 4, [5, 5], do_rotary=1, packed=True),
        one("rotary pairs", 4, 5, 2, 0, [5, 5], do_rotary=1, rotary_interleaved=1),
        one("rotary part", 4, 3, 1, 4, [7], do_rotary=1, width=32, angles=16),
        one("rotary places", 4, 1, 2, 4, [5, 5], do_rotary=1, positions=places),
        one("window", 4, 6, 1, 0, [6], local_window_size=2),
        one("window next", 4, 1, 2, 6, [7, 4], local_window_size=3),
        one("cap", 4, 5, 2, 0, [5, 5], softcap=0.8),
        one("scale", 4, 5, 2, 0, [5, 5], scale=0.2),
        one("smooth", 4, 5, 2, 0, [5, 5], smooth_softmax=1),
        one("sink", 4, 1, 2, 4, [5, 3], sink=array(4)),
        one("bias", 4, 5, 2, 0, [5, 5], bias=array(1, 4, 5, 5)),
        one("bias next", 4, 1, 2, 4, [5, 5], bias=array(2, 1, 1, 5), softcap=1.1),
        one("both ways", 4, 5, 2, 0, [5, 5], causal=0),
    ]


def quantized_caches() -> list[Case]:
    """Caches of integers, exact or preallocated."""

    def one(id: str, bits: int, steps: int, past: int, by_channel: bool = False, batch: int = 1):
        query, shared, width, total = 4, 2, 8, 0 if past > 9 else past
        total += steps + (5 if past > 9 else 0)
        parts = [array(batch, steps, n * width) for n in (query, shared, shared)]
        kind, size = ("int8", width) if bits == 8 else ("uint8", width // 2)
        caches = [RNG.integers(-99, 99, (batch, shared, past, size)).astype(kind) for _ in range(2)]
        for cache in caches if past > 9 else ():
            cache[:, :, total - steps :] = 0  # as onnxruntime writes unused elements
        shape = (1, shared, 1, width) if by_channel else (1,)
        scales = [RNG.uniform(0.01, 0.2, shape).astype(np.float32) for _ in range(2)]
        ends = [ints(*[total - 1] * batch), ints(total).reshape(())]
        inputs = [*parts, *caches, *ends, *[None] * 5, *scales]
        quant = "PER_CHANNEL" if by_channel else "PER_TENSOR"
        attrs = {"k_quant_type": quant, "v_quant_type": quant, "kv_cache_bit_width": bits}
        attrs |= {"num_heads": query, "kv_num_heads": shared, "outputs": 3, **MS}
        return case(id, "GroupQueryAttention", inputs, [6], rtol=1e-3, atol=1e-4, **attrs)

    return [
        *(one(f"{bits} bits, step", bits, 1, 5) for bits in (8, 4)),
        *(one(f"{bits} bits, channels", bits, 1, 5, True, 2) for bits in (8, 4)),
        *(one(f"{bits} bits, prompt", bits, 4, 0) for bits in (8, 4)),
        *(one(f"{bits} bits, room", bits, 1, 12, True) for bits in (8, 4)),
        one("8 bits, several", 8, 3, 5),
    ]


def rotary() -> list[Case]:
    x, flat = array(2, 3, 4, 8), array(2, 4, 24)
    places = np.array([[0, 3, 5, 1], [9, 2, 2, 4]])
    streams = RNG.integers(0, 10, (3, 2, 4))
    tables, small = [array(10, 4), array(10, 4)], [array(10, 2), array(10, 2)]

    def one(id: str, inputs: list, op: str = "RotaryEmbedding", **attrs) -> Case:
        return case(id, op, inputs, [2, 3], **attrs, **MS)

    many = "MRotaryEmbedding"
    return [
        one("places", [x, places, *tables]),
        one("offset", [x, np.array([2]), *tables]),
        one("flat", [flat, places, *tables]),
        one("pairs", [x, places, *tables], interleaved=1),
        one("flat pairs", [flat, np.array([3]), *tables], interleaved=1),
        one("part", [flat, places, *small], num_heads=3, rotary_embedding_dim=4),
        one("sections", [x, streams, *tables], many, mrope_section=[1, 2, 1]),
        one("flat sections", [flat, streams, *tables], many, num_heads=3, mrope_section=[2, 1, 1]),
        one("mixed", [x, streams, *tables], many, mrope_section=[2, 1, 1], mrope_layout=1),
    ]


def quantized() -> list[Case]:
    """Both runtimes multiply in integers: floats agree except for their last digits."""
    past = array(2, 2, 3, 5, 4)

    def one(id: str, kind: str = "int8", by_column=False, tail: tuple = (), **attrs) -> Case:
        x = RNG.integers(0, 256, (2, 4, 10)).astype(np.uint8)
        low = -128 if kind == "int8" else 0
        weights = RNG.integers(low, low + 256, (10, 36)).astype(kind)
        count = 36 if by_column else 1
        scales = RNG.uniform(0.002, 0.006, count).astype(np.float32)
        zeros = np.full(count, low + 131, kind)
        inputs = [x, weights, array(36), np.array([0.03], np.float32), scales]
        mask, before = (*tail, None, None)[:2]
        inputs += [mask, np.array([121], np.uint8), zeros, before]
        attrs = {"outputs": 1 if before is None else 2, "num_heads": 3, **attrs, **MS}
        constants = [1, 2, 3, 4, 6, 7]
        return case(id, "QAttention", inputs, constants, **attrs)

    return [
        one("int8"),
        one("uint8", "uint8"),
        one("by column", by_column=True),
        one("ends", tail=(ints(3, 4),)),
        one("causal", unidirectional=1),
        one("past", tail=(None, past), unidirectional=1),
    ]
