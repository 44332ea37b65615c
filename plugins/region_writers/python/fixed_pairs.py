"""Sums and products of two tensors in fixed point, as networks of TensorFlow Lite have them, as
those that tell scales.

Such a node has multipliers alone: from them follows how the scales of its tensors relate, not what
they are. One scale of tensors that are related is free, since weights of products make up for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmrt.plugins.region_writers.byte_meanings import BYTES, MOVES, scales_of

PAIRS = {"fixed_sum": "qadd", "fixed_pair_product": "qmul"}
Region = Mapping[str, Any]


def with_plain_pairs(region: Region, arrays: Mapping[int, np.ndarray]) -> Region:
    """The region with such nodes of bytes as ``qadd`` and ``qmul``; nodes may be ``None``."""
    places = [i for i, node in enumerate(region["nodes"]) if _is_pair(region, node)]
    if not places:
        return region
    rest = {**region, "nodes": [node for node in region["nodes"] if node is not None]}
    scales = _related(rest, scales_of(rest, arrays))
    nodes = list(region["nodes"])
    for place in places:
        nodes[place] = _plain(region, nodes[place], scales)
    return {**region, "nodes": nodes}


def _is_pair(region: Region, node: Mapping[str, Any] | None) -> bool:
    if node is None or node["op"] not in PAIRS:
        return False
    return region["tensors"][node["outputs"][0]]["dtype"] in BYTES


def _real(m: int, e: int) -> float:
    """The number that a multiplier stands for."""
    return float(m) * 2.0 ** (e - 31)


def _ratios(node: Mapping[str, Any]) -> tuple[float, float, float]:
    """The scales of a sum's operands and result, in parts of one that they have in common."""
    at = node["attrs"]
    y = 2.0 ** -at["bits"] / _real(at["m"], at["e"])
    return _real(at["a_m"], at["a_e"]), _real(at["b_m"], at["b_e"]), y


def _related(region: Region, told: Mapping[int, float]) -> dict[int, float]:
    """The scales of tensors that sums and moves relate; where none is told, the first is 1."""
    edges: dict[int, list[tuple[int, float]]] = {}
    for node in region["nodes"]:
        numbers = [n for n in (*node["inputs"], *node["outputs"]) if n >= 0]
        if node["op"] in MOVES:
            parts = [1.0] * len(numbers)
        elif node["op"] == "fixed_sum" and _is_pair(region, node):
            parts = list(_ratios(node))
        else:
            continue
        for a, part in zip(numbers, parts):
            edges.setdefault(a, []).extend((b, q / part) for b, q in zip(numbers, parts) if b != a)
    found = dict(told)
    waiting = [*told, *edges]
    while waiting:
        number = waiting.pop(0)
        scale = found.setdefault(number, 1.0)
        for other, ratio in edges.get(number, ()):
            if other not in found:
                found[other] = scale * ratio
                waiting.insert(0, other)
    return found


def _plain(region: Region, node: Mapping[str, Any], scales: dict[int, float]) -> Mapping[str, Any]:
    """The node with the scales of its tensors; as it is where these are not as it needs them."""
    at, numbers = node["attrs"], (*node["inputs"], *node["outputs"])
    if node["op"] == "fixed_sum":
        wanted = np.array(_ratios(node))
    else:
        a, b, y = numbers
        sides = scales.setdefault(a, 1.0) * scales.setdefault(b, 1.0)
        wanted = np.array([scales[a], scales[b], sides / _real(at["m"], at["e"])])
        scales.setdefault(y, wanted[2])
    told = np.array([scales[number] for number in numbers])
    if not np.allclose(told / told[0], wanted / wanted[0], rtol=1e-5, atol=0):
        return node
    attrs = {key: at[key] for key in ("a_zero", "b_zero", "y_zero", "low", "high")}
    for name, scale in zip("aby", told):
        attrs[f"{name}_scale"] = float(np.float32(scale))
    attrs["to"] = region["tensors"][node["outputs"][0]]["dtype"]
    return {**node, "op": PAIRS[node["op"]], "attrs": attrs}
