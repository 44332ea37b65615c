"""Test cases of routers, residual streams and n-grams of tokens."""

from __future__ import annotations

import numpy as np
from nn_case import Case, case

RNG = np.random.default_rng(76)
MS = {"domain": "com.microsoft"}


def array(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, shape).astype(np.float32)


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16)


def routers() -> list[Case]:
    logits, bias = array(5, 8), array(8) / 4

    def one(id: str, x: np.ndarray = logits, outputs: int = 1, **attrs) -> Case:
        return case(id, "MoEGroupRouter", [x, bias], [1], outputs=outputs, **attrs, **MS)

    return [
        one("all", top_k=3),
        one("groups", top_k=2, n_group=4, topk_group=2),
        one("group of one", top_k=2, n_group=8, topk_group=3),
        one("three of a group", top_k=2, n_group=2, topk_group=1, group_topk=3),
        one("sentinel", top_k=2, router_sentinel=-50.0),
        one("three axes", logits.reshape(1, 5, 8), top_k=2),
        one("half", half(logits), top_k=2, rtol=2e-3),
    ]


def streams() -> list[Case]:
    x, flat = array(2, 3, 4, 6), array(2, 3, 24)
    block, gates = array(2, 3, 6), [array(2, 3, 4), array(2, 3, 4, 1), array(2, 3, 4, 6)]

    def pre(id: str, inputs: list, **attrs) -> Case:
        return case(id, "HyperConnectionPreMix", inputs, **attrs, **MS)

    def post(id: str, inputs: list, **attrs) -> Case:
        return case(id, "HyperConnectionPostMix", inputs, **attrs, **MS)

    mix = array(2, 3, 4, 4)
    return [
        *(pre(f"gate {i}", [x, gate]) for i, gate in enumerate(gates)),
        pre("flat", [flat, gates[0]], num_branches=4, reduction_scale=0.25),
        pre("flat gate", [flat, array(2, 3, 24)], num_branches=4),
        pre("half", [half(x), gates[0]], rtol=4e-3, atol=4e-3),
        *(post(f"gate {i}", [x, block, gate]) for i, gate in enumerate(gates)),
        post("mixed", [x, block, gates[0], mix]),
        post("flat", [flat, block, gates[0], mix], num_branches=4),
        post("half", [half(x), half(block), half(gates[0])], rtol=4e-3, atol=4e-3),
    ]


def engrams() -> list[Case]:
    key, query, value = array(2, 3, 4, 6), array(2, 3, 4, 6), array(2, 3, 6)
    scales = [array(4, 6) for _ in range(3)]

    def one(id: str, inputs: list, outputs: int = 2, **attrs) -> Case:
        return case(id, "EngramGate", inputs, outputs=outputs, **attrs, **MS)

    return [
        one("gate", [key, query, value, *scales[:2]], 1),
        one("normed", [key, query, value, *scales], epsilon=1e-3),
        one("half", [half(v) for v in (key, query, value, *scales)], rtol=4e-3, atol=4e-3),
    ]


def ngrams() -> list[Case]:
    ids = np.array([[5, 7, 9, 7, 1, 4], [7, 7, 3, 2, 8, 7]])
    past, segments = (
        np.array([[50, 7], [7, 60]]),
        np.array([[0, 0, 1, 1, 1, 2], [3, 4, 4, 4, 4, 4]]),
    )
    end = np.array(7)

    def one(id: str, tail: tuple = (), kind: str = "int64", size: int = 3, heads: int = 2, **attrs):
        tables = [RNG.integers(-99, 10**6, size), RNG.integers(2, 99, (size - 1) * heads)]
        arrays = [ids, *tables, *tail]
        names = [
            None if v is None else v.astype(kind if i < 6 else "int32")
            for i, v in enumerate(arrays)
        ]
        attrs |= {"max_ngram_size": size, "n_head_per_ngram": heads, "pad_id": 2}
        return case(id, "NGramHashMapping", names, [1, 2], outputs=2, **attrs, **MS)

    return [
        one("first"),
        one("past", (past,)),
        one("int32", (past,), "int32"),
        one("offsets", (past, np.arange(4) * 100)),
        one("longer", size=4, heads=1),
        one("end", (None, None, end)),
        one("reset", (past, None, end), reset_on_eos=1),
        one("segments", (past, None, None, segments)),
        one("both", (past, None, end, segments), reset_on_eos=1),
        one("both, longer", (None, None, end, segments), size=4, reset_on_eos=1),
    ]
