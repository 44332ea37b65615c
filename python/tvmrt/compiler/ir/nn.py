"""Neural-network operators with kernels of their own: convolution, matmul, pooling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import reference_conv
from .contract import LIMIT, Contract, Rule, holds, let
from .op import Op, broadcast, register
from .sizes import bounds
from .sizes.assumptions import is_at_least
from .traits import SumOrder, Trait, Weights


def conv_extent(n: int, k: int, stride: int, dilation: int, before: int, after: int) -> int:
    """Return the output extent of a sliding window."""
    return (n + before + after - dilation * (k - 1) - 1) // stride + 1


def may_have_pads(attrs: Mapping[str, Any]) -> bool:
    """Return whether a window has padding at some sizes."""
    pads = [*attrs.get("pads_before", ()), *attrs.get("pads_after", ())]
    return any(bounds(pad) != (0, 0) for pad in pads)


_STEPS = "strides: ints[*S] 1.., dilations: ints[*S] 1.., pads_before: ints[*S] 0.."
WINDOW = f"{_STEPS}, pads_after: ints[*S] 0.."


_WINDOW_NAMES = "strides dilations pads_before pads_after"


def _is_extent_in_range(*columns: Iterable[int]) -> bool:
    return all(
        n + before + after + (k - 1) * dilation + dilation + stride <= LIMIT
        for n, k, stride, dilation, before, after in zip(*columns)
    )


def _limit_extent(kernel: str) -> Rule:
    """Return the rule that source coordinates of a window fit into the kernels' 32-bit integers."""
    words = f"padded extents, a dilated window, a stride and a dilation add up to at most {LIMIT}"
    return holds(words, _is_extent_in_range, f"S {kernel} {_WINDOW_NAMES}")


CONV_RULES = [
    holds("output channels fall into groups", lambda OC, groups: OC % groups == 0),
    holds("the window has a place", lambda K: min(K) >= 1),
    _limit_extent("K"),
    let(
        "*Y",
        "(S + pads_before + pads_after - dilations*(K - 1) - 1) / strides + 1, rounded down",
        lambda *columns: [conv_extent(*row) for row in zip(*columns)],
        f"S K {_WINDOW_NAMES}",
    ),
    holds("the window fits into x with its padding", lambda Y: all(is_at_least(n, 1) for n in Y)),
]
CONV_EXAMPLE = {"C": 4, "OC": 6, "groups": 2, "S": (5, 6), "K": (3, 3)}


@register("conv")
class Conv(Op):
    """Convolution with constant weights."""

    sum_order = SumOrder.FUSED
    traits = frozenset({Trait.CONVOLUTION, Trait.BFLOAT16, Trait.CHANNELS_INNERMOST})
    weights = Weights(operand=1, output_axis=0, input_axis=1)
    channel_axis = 1

    contract = Contract(
        "x: float32[N C *S{1..3}], w: constant float32[OC C/groups *K{S}], "
        "bias?: constant float32[OC] -> y: float32[N OC *Y]",
        f"groups: int 1.., {WINDOW}",
        rules=CONV_RULES,
        example=CONV_EXAMPLE,
    )

    def evaluate(self, arrays, attrs):
        x, w, *bias = arrays
        return [reference_conv.conv(x, w, bias[0] if bias else None, attrs)]


@register("conv_transpose")
class ConvTranspose(Op):
    """Transposed convolution: input i adds to output i * stride + tap * dilation - before."""

    sum_order = SumOrder.TRANSPOSED
    traits = frozenset({Trait.BFLOAT16, Trait.CHANNELS_INNERMOST})
    weights = Weights(operand=1, output_axis=1, input_axis=0)
    channel_axis = 1

    contract = Contract(
        "x: float32[N C *S{1..3}], w: constant float32[C M *K{S}], "
        "bias?: constant float32[M*groups] -> y: float32[N M*groups *out_spatial]",
        f"groups: int 1.., {_STEPS}, out_spatial: ints[*S] 1..",
        rules=[
            holds("channels fall into groups", lambda C, groups: C % groups == 0),
            holds("the window has a place", lambda K: min(K) >= 1),
            holds(
                f"strided extents, a dilated window, result and padding add up to at most {LIMIT}",
                lambda S, K, strides, dilations, pads_before, out_spatial: all(
                    n * stride + k * dilation + before + out <= LIMIT
                    for n, k, stride, dilation, before, out in zip(
                        S, K, strides, dilations, pads_before, out_spatial
                    )
                ),
            ),
        ],
        example={"C": 4, "groups": 2, "S": (5, 6), "K": (3, 3), "out_spatial": (7, 8)},
    )


@register("matmul")
class MatMul(Op):
    """Matrix product; batch axes broadcast."""

    sum_order = SumOrder.FUSED
    traits = frozenset({Trait.MATRIX_PRODUCT, Trait.BFLOAT16})
    weights = Weights(operand=1, output_axis=-1, input_axis=-2)
    channel_axis = -1

    contract = Contract(
        "a: float32[*A M K], b: float32[*B K N], bias?: float32[*C] -> y: float32[*Y]",
        rules=[
            let("*Y", "A and B broadcast, then M N", lambda A, B, M, N: (*broadcast(A, B), M, N)),
            holds(
                "bias broadcasts to the product",
                lambda C, Y: C is None or broadcast(C, Y) == Y,
            ),
        ],
        example={"B": (), "C": ()},
    )

    def evaluate(self, arrays, attrs):
        a, b = arrays[0], arrays[1]
        wide = np.float64 if a.dtype == np.float32 else a.dtype
        out = np.matmul(a.astype(wide), b.astype(wide))
        if len(arrays) > 2 and arrays[2] is not None:
            out = out + arrays[2]
        return [out.astype(a.dtype)]


_POOL_RULES = [
    _limit_extent("kernel"),
    holds(
        "padding is narrower than the window",
        lambda kernel, dilations, pads_before, pads_after: all(
            max(before, after) <= (k - 1) * dilation
            for k, dilation, before, after in zip(kernel, dilations, pads_before, pads_after)
        ),
    ),
    holds(
        "every window begins inside x or the padding in front",
        lambda S, out_spatial, strides, pads_before: all(
            (out - 1) * stride < n + before
            for n, out, stride, before in zip(S, out_spatial, strides, pads_before)
        ),
    ),
]


def pool(types: str, results: str, attributes: str = "", rules: Sequence[Rule] = ()) -> Contract:
    """Return the contract of a pool; ``out_spatial`` are the spatial extents of its results."""
    return Contract(
        f"x: E={types}[N C *S{{1..3}}] -> {results}",
        f"kernel: ints[*S] 1.., {WINDOW}, out_spatial: ints[*S] 1.., {attributes}",
        rules=[*_POOL_RULES, *rules],
        example={"S": (5, 6), "kernel": (3, 3), "out_spatial": (3, 4)},
    )


class _Pool(Op):
    """Pool. ``out_spatial`` has the output extents, because the importer decides the rounding."""

    channel_axis = 1


@register("max_pool")
class MaxPool(_Pool):
    """Maximum of each window; padding is never the maximum."""

    traits = frozenset({Trait.POOL, Trait.EXTREMUM, Trait.CHANNELS_INNERMOST})

    contract = pool("number", "y: E[N C *out_spatial]")

    def evaluate(self, arrays, attrs):
        return [reference_conv.max_pool(arrays[0], attrs)]


@register("avg_pool")
class AvgPool(_Pool):
    """Mean of each window; ``count_pads``: count padding as zeros, otherwise leave it out."""

    sum_order = SumOrder.WINDOW
    traits = frozenset({Trait.POOL, Trait.MEAN, Trait.CHANNELS_INNERMOST})

    contract = pool("float32", "y: E[N C *out_spatial]", "count_pads: bool")

    def evaluate(self, arrays, attrs):
        return [reference_conv.avg_pool(arrays[0], attrs)]


@register("lp_pool")
class LpPool(_Pool):
    """``p``-norm of each window: root of the sum of the ``p``-th powers of magnitudes."""

    sum_order = SumOrder.WINDOW
    traits = frozenset({Trait.POOL, Trait.CHANNELS_INNERMOST})

    contract = pool("float32", "y: E[N C *out_spatial]", "p: int 1..")


@register("max_pool_index")
class MaxPoolIndex(_Pool):
    """Maximum of each window, and its index in the flattened input.

    ``columns_first``: in these indices the first spatial axis is the innermost.
    """

    contract = pool(
        "number",
        "y: E[N C *out_spatial], places: int64[N C *out_spatial]",
        "columns_first: bool",
    )


@register("max_unpool")
class MaxUnpool(Op):
    """Write elements to the indices ``places`` of the flattened result; others are zero."""

    contract = Contract(
        "x: E=computed[N C *S{1..}], places: int64[N C *S] -> y: E[N C *out_spatial]",
        "out_spatial: ints[*S] 1..",
    )


@register("softmax")
class Softmax(Op):
    """exp(x) / sum(exp(x)) along ``axis``; with ``log`` its logarithm."""

    sum_order = SumOrder.SOFTMAX
    contract = Contract("x: float32[*S] -> y: float32[*S]", "axis: axis of x, log?: bool")

    def evaluate(self, arrays, attrs):
        x = arrays[0].astype(np.float64)
        shifted = x - x.max(attrs["axis"], keepdims=True)
        total = np.exp(shifted).sum(attrs["axis"], keepdims=True)
        out = shifted - np.log(total) if attrs.get("log") else np.exp(shifted) / total
        return [out.astype(arrays[0].dtype)]
