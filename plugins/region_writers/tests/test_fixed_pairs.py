"""Test adds and multiplications of .tflite networks: the scales recovered from their
multipliers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvmrt.plugins.region_writers.fixed_point_binary import merge_binary_ops


def parts_of(real: float) -> tuple[int, int]:
    """Split a multiplier into its 32-bit integer and exponent, by the rule of the format."""
    fraction, exponent = math.frexp(real)
    return round(fraction * 2**31), exponent


def pair(op: str, scales: tuple[float, float, float], *numbers: int) -> dict:
    """Return the node of three tensors with these real scales."""
    a, b, y = scales
    sides = (a / (2 * max(a, b)), b / (2 * max(a, b))) if op == "fixed_sum" else (0.0, 0.0)
    bits = 20 if op == "fixed_sum" else 0
    m, e = parts_of(2 * max(a, b) / (y * 2**bits) if bits else a * b / y)
    attrs = {"bits": bits, "m": m, "e": e, "low": -128, "high": 127, "y_zero": 5}
    for side, part in zip("ab", sides):
        attrs |= dict(zip((f"{side}_m", f"{side}_e"), parts_of(part))) | {f"{side}_zero": 1}
    return {"op": op, "name": op, "attrs": attrs, "inputs": list(numbers[:2]),
            "outputs": [numbers[2]]}  # fmt: skip


def region(*nodes: dict, dtype: str = "int8") -> dict:
    rows = [{"name": f"t{i}", "dtype": dtype, "shape": [4]} for i in range(9)]
    return {"tensors": rows, "nodes": list(nodes), "inputs": [0], "outputs": [8]}


def scales_of(node: dict) -> np.ndarray:
    return np.array([node["attrs"][f"{name}_scale"] for name in "aby"])


def test_chain_of_adds_has_one_scale_per_tensor():
    true = {0: 0.05, 1: 0.071, 2: 0.1, 3: 0.004, 4: 0.09}
    nodes = [
        pair("fixed_sum", (true[0], true[1], true[2]), 0, 1, 2),
        {"op": "reshape", "name": "r", "inputs": [2], "outputs": [5], "attrs": {}},
        pair("fixed_sum", (true[3], true[2], true[4]), 3, 5, 4),
    ]
    first, _, second = merge_binary_ops(region(*nodes), {})["nodes"]
    assert [first["op"], second["op"]] == ["qadd", "qadd"]
    assert scales_of(first)[2] == scales_of(second)[1]
    unit = scales_of(first)[0] / true[0]
    np.testing.assert_allclose(scales_of(first) / unit, [true[0], true[1], true[2]], rtol=1e-6)
    np.testing.assert_allclose(scales_of(second) / unit, [true[3], true[2], true[4]], rtol=1e-6)
    assert first["attrs"]["y_zero"] == 5


def test_product_of_two_tensors_gets_the_remaining_scale():
    (node,) = merge_binary_ops(region(pair("fixed_pair_product", (0.3, 0.02, 0.7), 0, 1, 2)), {})[
        "nodes"
    ]
    assert node["op"] == "qmul"
    a, b, y = scales_of(node)
    np.testing.assert_allclose(a * b / y, 0.3 * 0.02 / 0.7, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "second"), [
    ("int8", (0.2, 0.2, 0.9)),  # of the same three tensors, which is contradictory
    ("int16", (0.05, 0.071, 0.1)),
])  # fmt: skip
def test_unsupported_nodes_stay_on_the_cpu(dtype, second):
    nodes = [pair("fixed_sum", (0.05, 0.071, 0.1), 0, 1, 2), pair("fixed_sum", second, 0, 1, 2)]
    *_, last = merge_binary_ops(region(*nodes, dtype=dtype), {})["nodes"]
    assert last == nodes[1]
