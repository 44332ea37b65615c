"""Conversion of TensorFlow Lite's fixed-point additions and multiplications to nodes with scales.

A fixed-point node has quantized multipliers only. They define the ratios between the scales of its
tensors, but not the scales themselves. One scale per group of related tensors can be chosen
freely, because the weights of convolutions and matmuls compensate for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmrt.plugins.region_writers.int8_quantization import INT8_TYPES, MOVES, scales_of

PAIRS = {"fixed_sum": "qadd", "fixed_pair_product": "qmul"}
Region = Mapping[str, Any]


def merge_binary_ops(region: Region, arrays: Mapping[int, np.ndarray]) -> Region:
    """Return the region with fixed-point pairs as ``qadd`` and ``qmul``; skip None nodes."""
    indices = [i for i, node in enumerate(region["nodes"]) if _is_pair(region, node)]
    if not indices:
        return region
    rest = {**region, "nodes": [node for node in region["nodes"] if node is not None]}
    scales = _derived_scales(rest, scales_of(rest, arrays))
    nodes = list(region["nodes"])
    for index in indices:
        nodes[index] = _with_scales(region, nodes[index], scales)
    return {**region, "nodes": nodes}


def _is_pair(region: Region, node: Mapping[str, Any] | None) -> bool:
    if node is None or node["op"] not in PAIRS:
        return False
    return region["tensors"][node["outputs"][0]]["dtype"] in INT8_TYPES


def _multiplier_value(m: int, e: int) -> float:
    """Return the real number of a quantized multiplier."""
    return float(m) * 2.0 ** (e - 31)


def _ratios(node: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the scales of a sum's operands and result relative to a common one."""
    at = node["attrs"]
    y = 2.0 ** -at["bits"] / _multiplier_value(at["m"], at["e"])
    return _multiplier_value(at["a_m"], at["a_e"]), _multiplier_value(at["b_m"], at["b_e"]), y


def _derived_scales(region: Region, known_scales: Mapping[int, float]) -> dict[int, float]:
    """Derive scales from ``known_scales``; a group without a known scale starts at 1."""
    edges: dict[int, list[tuple[int, float]]] = {}
    for node in region["nodes"]:
        tensor_ids = [n for n in (*node["inputs"], *node["outputs"]) if n >= 0]
        if node["op"] in MOVES:
            parts = [1.0] * len(tensor_ids)
        elif node["op"] == "fixed_sum" and _is_pair(region, node):
            parts = list(_ratios(node))
        else:
            continue
        for a, part in zip(tensor_ids, parts):
            edges.setdefault(a, []).extend(
                (b, q / part) for b, q in zip(tensor_ids, parts) if b != a
            )
    result = dict(known_scales)
    waiting = [*known_scales, *edges]
    while waiting:
        tensor_id = waiting.pop(0)
        scale = result.setdefault(tensor_id, 1.0)
        for other, ratio in edges.get(tensor_id, ()):
            if other not in result:
                result[other] = scale * ratio
                waiting.insert(0, other)
    return result


def _with_scales(
    region: Region, node: Mapping[str, Any], scales: dict[int, float]
) -> Mapping[str, Any]:
    """Return the node with its tensors' scales, or unchanged if the scales do not fit."""
    at, tensor_ids = node["attrs"], (*node["inputs"], *node["outputs"])
    if node["op"] == "fixed_sum":
        ratios = np.array(_ratios(node))
    else:
        a, b, y = tensor_ids
        sides = scales.setdefault(a, 1.0) * scales.setdefault(b, 1.0)
        ratios = np.array([scales[a], scales[b], sides / _multiplier_value(at["m"], at["e"])])
        scales.setdefault(y, ratios[2])
    known_scales = np.array([scales[tensor_id] for tensor_id in tensor_ids])
    if not np.allclose(known_scales / known_scales[0], ratios / ratios[0], rtol=1e-5, atol=0):
        return node
    attrs = {key: at[key] for key in ("a_zero", "b_zero", "y_zero", "low", "high")}
    for name, scale in zip("aby", known_scales):
        attrs[f"{name}_scale"] = float(np.float32(scale))
    attrs["to"] = region["tensors"][node["outputs"][0]]["dtype"]
    return {**node, "op": PAIRS[node["op"]], "attrs": attrs}
