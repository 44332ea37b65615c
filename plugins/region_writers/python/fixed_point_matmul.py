"""Conversion of TensorFlow Lite's fixed-point products to single nodes with int8 results.

A fixed-point product (convolution or matmul) gives int32 accumulators, followed by a multiplier,
zero point, bounds and a cast to int8. File writers need all of these as one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmrt.plugins.region_writers.int8_quantization import INT8_TYPES

MATMUL_OPERATORS = ("qconv", "qmatmul")
SCALES = ("fixed_scale", "float_scale")
STEPS = (SCALES, ("add",), ("max",), ("min",), ("cast",))  # nodes after a product, in this order
OPERATORS = tuple(op for names in STEPS for op in names)
Region = Mapping[str, Any]


def merge_matmul_chains(region: Region, arrays: dict[int, np.ndarray]) -> Region:
    """Merge each product into the place of its last node; add constants to ``arrays``.

    Merged nodes become ``None``, so that the indices of others do not change.
    """
    nodes: list[Any] = list(region["nodes"])
    tensors = list(region["tensors"])
    readers = _readers(region)
    for index, node in enumerate(region["nodes"]):
        if node["op"] not in MATMUL_OPERATORS or node["attrs"]["to"] != "int32":
            continue
        chain = _chain(region, readers, index)
        made = _merge([region["nodes"][i] for i in chain], region, arrays, len(tensors))
        if made is None:
            continue
        scales = arrays[len(tensors)]
        shape = list(scales.shape)
        tensors.append({"name": f"factor{index}", "dtype": "float32", "shape": shape})
        for merged_index in chain:
            nodes[merged_index] = None
        nodes[chain[-1]] = made
    return {**region, "tensors": tensors, "nodes": nodes}


def _readers(region: Region) -> dict[int, list[int]]:
    """Return the indices of the nodes that read each tensor; -1 for a region output."""
    readers: dict[int, list[int]] = {tensor_id: [-1] for tensor_id in region["outputs"]}
    for index, node in enumerate(region["nodes"]):
        for tensor_id in node["inputs"]:
            readers.setdefault(tensor_id, []).append(index)
    return readers


def _chain(region: Region, readers: Mapping[int, list[int]], index: int) -> list[int]:
    """Return the product and the STEPS nodes after it, each the only reader of the previous."""
    found, steps = [index], list(STEPS)
    while True:
        result = region["nodes"][found[-1]]["outputs"][0]
        followers = readers.get(result, [])
        if len(followers) != 1 or followers[0] < 0:
            return found
        op = region["nodes"][followers[0]]["op"]
        at = next((i for i, names in enumerate(steps) if op in names), None)
        if at is None:
            return found
        found.append(followers[0])
        del steps[: at + 1]


def _merge(
    nodes: list[Any], region: Region, arrays: dict[int, np.ndarray], tensor_id: int
) -> dict[str, Any] | None:
    """Return the merged product with an int8 result, or None if the nodes do not form one."""
    product, last = nodes[0], nodes[-1]
    kind = region["tensors"][last["outputs"][0]]["dtype"]
    if (
        len(nodes) < 3
        or nodes[1]["op"] not in SCALES
        or last["op"] != "cast"
        or kind not in INT8_TYPES
    ):
        return None
    info = np.iinfo(kind)
    bounds = {"add": 0, "max": int(info.min), "min": int(info.max)}
    for node in nodes[2:-1]:
        constants = [arrays[n] for n in node["inputs"] if n in arrays]
        if len(constants) != 1 or constants[0].size != 1:
            return None
        bounds[node["op"]] = int(constants[0].reshape(-1)[0])
    arrays_of_inputs = [arrays.get(n) for n in nodes[1]["inputs"][1:]]
    if any(array is None for array in arrays_of_inputs):
        return None
    parts = [np.asarray(array, np.float64).reshape(-1) for array in arrays_of_inputs]
    scales = parts[0] if len(parts) == 1 else parts[0] * np.exp2(parts[1] - 31)
    arrays[tensor_id] = scales.astype(np.float32)
    x, weights, _, *rest = product["inputs"]
    attrs = {**product["attrs"], "to": kind, "y_zero": bounds["add"]}
    attrs.update(low=max(bounds["max"], int(info.min)), high=min(bounds["min"], int(info.max)))
    name = ", ".join(dict.fromkeys(node["name"] for node in nodes))
    inputs = [x, weights, tensor_id, *rest]
    return {**product, "name": name, "inputs": inputs, "outputs": last["outputs"], "attrs": attrs}
