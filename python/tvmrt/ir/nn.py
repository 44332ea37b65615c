"""Operators of neural networks with kernels of their own: convolution, matrix product, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtype import DTYPES
from .graph import TensorType
from .op import Op, broadcast, register


def conv_extent(n: int, k: int, stride: int, dilation: int, before: int, after: int) -> int:
    """Output extent of a sliding window."""
    return (n + before + after - dilation * (k - 1) - 1) // stride + 1


@register("conv")
class Conv(Op):
    """Inputs: x [N, C, *spatial], w [OC, C / groups, *kernel][, bias [OC]]; 1 to 3 spatial axes.

    ``strides``, ``dilations``, ``pads_before``, ``pads_after`` per spatial axis; ``groups``.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, w = types[0], types[1]
        rank = x.rank - 2
        if not 1 <= rank <= 3 or w.rank != x.rank:
            raise ValueError(f"convolution of {x} with weights {w}; 1 to 3 spatial axes expected")
        groups = attrs["groups"]
        if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
            raise ValueError(f"weights {w} do not fit {x} in {groups} groups")
        bias = types[2] if len(types) > 2 else None
        if bias is not None and bias.shape != (w.shape[0],):
            raise ValueError(f"bias {bias} does not fit {w.shape[0]} output channels")
        spatial = [
            conv_extent(*row)
            for row in zip(
                x.shape[2:],
                w.shape[2:],
                attrs["strides"],
                attrs["dilations"],
                attrs["pads_before"],
                attrs["pads_after"],
            )
        ]
        if min(spatial) < 1:
            raise ValueError(f"kernel {list(w.shape[2:])} does not fit into {x} with its padding")
        return [TensorType((x.shape[0], w.shape[0], *spatial), x.dtype)]


@register("conv_transpose")
class ConvTranspose(Op):
    """Inputs: x [N, C, *spatial], w [C, OC / groups, *kernel][, bias [OC]]; 1 to 3 spatial axes.

    Input element i meets output element i * stride + tap * dilation - before. ``strides``,
    ``dilations``, ``pads_before`` per spatial axis; ``out_spatial``: the extents; ``groups``.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, w = types[0], types[1]
        groups = attrs["groups"]
        if not 1 <= x.rank - 2 <= 3 or w.rank != x.rank:
            raise ValueError(f"convolution of {x} with weights {w}; 1 to 3 spatial axes expected")
        if x.shape[1] != w.shape[0] or groups < 1 or x.shape[1] % groups:
            raise ValueError(f"weights {w} do not fit {x} in {groups} groups")
        bias = types[2] if len(types) > 2 else None
        if bias is not None and bias.shape != (w.shape[1] * groups,):
            raise ValueError(f"bias {bias} does not fit {w.shape[1] * groups} output channels")
        if min(attrs["out_spatial"]) < 1:
            raise ValueError(f"the result would have the extents {list(attrs['out_spatial'])}")
        return [TensorType((x.shape[0], w.shape[1] * groups, *attrs["out_spatial"]), x.dtype)]


@register("matmul")
class MatMul(Op):
    """Inputs: a [..., M, K], b [..., K, N][, bias that broadcasts to the result].

    Batches broadcast.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        a, b = types[0], types[1]
        if a.rank < 2 or b.rank < 2 or a.shape[-1] != b.shape[-2]:
            raise ValueError(f"matrix product of {a} and {b}: inner extents differ")
        if a.dtype != b.dtype:
            raise ValueError(f"matrix product of different element types {a.dtype}, {b.dtype}")
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        shape = (*batch, a.shape[-2], b.shape[-1])
        if len(types) > 2 and types[2] is not None and broadcast(types[2].shape, shape) != shape:
            raise ValueError(f"bias {types[2]} does not fit the product {list(shape)}")
        return [TensorType(shape, a.dtype)]

    def evaluate(self, arrays, attrs):
        a, b = arrays[0], arrays[1]
        wide = np.float64 if a.dtype == np.float32 else a.dtype
        out = np.matmul(a.astype(wide), b.astype(wide))
        if len(arrays) > 2 and arrays[2] is not None:
            out = out + arrays[2]
        return [out.astype(a.dtype)]


class _Pool(Op):
    """Input [N, C, *spatial]. ``kernel``, ``strides``, ``dilations``, ``pads_before``,
    ``pads_after`` per spatial axis; ``out_spatial`` holds the extents, since rounding up is
    the importer's business.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x = types[0]
        if not 1 <= x.rank - 2 <= 3:
            raise ValueError(f"pooling of {x}; 1 to 3 spatial axes expected")
        return [TensorType((*x.shape[:2], *attrs["out_spatial"]), x.dtype)]


@register("max_pool")
class MaxPool(_Pool):
    """Largest element of each window; padding never wins."""


@register("avg_pool")
class AvgPool(_Pool):
    """Mean of each window; ``count_pads``: whether padding counts as zeros or not at all."""


@register("lp_pool")
class LpPool(_Pool):
    """Root of the sum of the ``p``-th powers of the magnitudes in each window."""


@register("max_pool_index")
class MaxPoolIndex(_Pool):
    """Like max_pool; a second output holds each maximum's place in the flattened input (int64).

    ``columns_first``: the places count the first spatial axis as the innermost.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        (values,) = super().infer(types, attrs)
        return [values, TensorType(values.shape, DTYPES["int64"])]


@register("max_unpool")
class MaxUnpool(Op):
    """Inputs: x [N, C, *spatial], places of its elements in the flattened result (int64).

    ``out_spatial``: extents of the result, which is zero elsewhere.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, places = types[0], types[1]
        if places.shape != x.shape or places.dtype.name != "int64":
            raise ValueError(f"places {places} do not fit {x}")
        return [TensorType((*x.shape[:2], *attrs["out_spatial"]), x.dtype)]


@register("softmax")
class Softmax(Op):
    """exp(x) / sum(exp(x)) along ``axis``; ``log``: the logarithm of that."""

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        if types[0].dtype.name != "float32":
            raise ValueError(f"softmax needs float32, not {types[0].dtype}")
        return [types[0]]

    def evaluate(self, arrays, attrs):
        x = arrays[0].astype(np.float64)
        shifted = x - x.max(attrs["axis"], keepdims=True)
        total = np.exp(shifted).sum(attrs["axis"], keepdims=True)
        out = shifted - np.log(total) if attrs.get("log") else np.exp(shifted) / total
        return [out.astype(arrays[0].dtype)]
