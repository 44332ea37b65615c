"""Compute fixed-point sums of two 8-bit tensors in float32, where the results are equal.

Contract: bit-equal. A sum has 65,536 pairs of operands, and all of them are tried. Hosts add
residuals of this form in the epilogue of a convolution.
Non-goal: processors without floating point.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value, get_op
from tvmrt.compiler.ir.quantized import INT8_TYPES, storage_range

from .rewrite import rewrite

NEIGHBOURS = 3  # floats on either side of the nearest scale to try


def sums_in_float(graph: Graph) -> int:
    """Replace ``fixed_sum`` nodes by ``qadd`` and return their number."""
    return rewrite(graph, _sum)


def _sum(b: Builder, node: Node) -> Value | None:
    if node.op != "fixed_sum" or node.output.dtype.name not in INT8_TYPES:
        return None
    if any(v.is_constant or v.shape != node.output.shape for v in node.operands()):
        return None
    scales = _find_scales(storage_range(node.output.dtype), tuple(sorted(node.attrs.items())))
    if scales is None:
        return None
    attrs = {key: node.attrs[key] for key in ("a_zero", "b_zero", "y_zero", "low", "high")}
    attrs |= {"a_scale": scales[0], "b_scale": scales[1], "y_scale": 1.0}
    return b.emit("qadd", node.inputs, node.name, to=node.output.dtype.name, **attrs)


@lru_cache(maxsize=128)
def _find_scales(
    bounds: tuple[int, int], items: tuple[tuple[str, int], ...]
) -> tuple[float, float] | None:
    """Return the scales of both operands, or None."""
    at = dict(items)
    steps = np.arange(bounds[0], bounds[1] + 1)
    expected = _results(steps, at)
    a, b = ((steps - at[f"{side}_zero"]).astype(np.float32) for side in "ab")
    unit = np.ldexp(float(at["m"]), at["e"] - 31 + at["bits"])
    nearest = [np.float32(np.ldexp(float(at[f"{s}_m"]), at[f"{s}_e"] - 31) * unit) for s in "ab"]
    distances = range(-NEIGHBOURS, NEIGHBOURS + 1)
    for pair in sorted(product(distances, repeat=2), key=lambda pair: abs(pair[0]) + abs(pair[1])):
        scales = [
            (scale.view(np.int32) + np.int32(distance)).view(np.float32)
            for scale, distance in zip(nearest, pair)
        ]
        sums = np.rint((a * scales[0])[:, None] + b * scales[1]) + at["y_zero"]
        if np.array_equal(np.clip(sums, at["low"], at["high"]), expected):
            return float(scales[0]), float(scales[1])
    return None


def _results(steps: np.ndarray, at: dict[str, int]) -> np.ndarray:
    """Return the results of a ``fixed_sum`` for all pairs of operands."""
    kind = np.int8 if steps[0] < 0 else np.uint8
    pairs = np.broadcast_arrays(steps.astype(kind)[:, None], steps.astype(kind))
    evaluated = get_op("fixed_sum").evaluate(pairs, at)
    assert evaluated is not None
    return evaluated[0]
