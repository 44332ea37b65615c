"""Normalisations with kernels of their own; others are composed of reductions."""

from __future__ import annotations

from math import prod

import numpy as np

from .contract import LIMIT, Contract, holds
from .op import Op, register
from .traits import SumOrder, Trait


@register("layer_norm")
class LayerNorm(Op):
    """Layer normalisation over the axes from ``axis`` on.

    y = (x - mean) / sqrt(variance + ``epsilon``) * scale + shift. Without ``centre`` mean and
    shift are left out, and the variance is the mean square.
    """

    sum_order = SumOrder.NORM
    contract = Contract(
        "x: float32[*S], scale?: float32[*], shift?: float32[*] -> y: float32[*S]",
        "axis: axis of x, epsilon: float, centre: bool",
        rules=[
            holds(
                "scale and shift have a number for each place of a row",
                lambda x, scale, shift, axis: all(
                    t is None or t.size == prod(x.shape[axis:]) for t in (scale, shift)
                ),
            )
        ],
        example={"S": (3, 4), "axis": 1, "scale": (4,), "shift": (4,)},
    )

    def evaluate(self, arrays, attrs):
        x = arrays[0].astype(np.float64)
        axes = tuple(range(attrs["axis"], x.ndim))
        if attrs["centre"]:
            x = x - x.mean(axes, keepdims=True)
        y = x / np.sqrt(np.square(x).mean(axes, keepdims=True) + attrs["epsilon"])
        shape = x.shape[attrs["axis"] :]
        if len(arrays) > 1 and arrays[1] is not None:
            y = y * arrays[1].reshape(shape)
        if len(arrays) > 2 and arrays[2] is not None:
            y = y + arrays[2].reshape(shape)
        return [y.astype(arrays[0].dtype)]


@register("group_norm")
class GroupNorm(Op):
    """Normalisation over pixels and channels of a group; one channel per group: instance norm."""

    traits = frozenset({Trait.CHANNELS_INNERMOST})

    contract = Contract(
        "x: float32[N C *S], scale?: float32[*], shift?: float32[*] -> y: float32[N C *S]",
        "groups: int 1.., epsilon: float",
        rules=[
            holds("channels fall into groups", lambda C, groups: C % groups == 0),
            holds(
                "scale and shift have a number for each channel",
                lambda C, scale, shift: all(t is None or t.size == C for t in (scale, shift)),
            ),
        ],
        example={"C": 4, "groups": 2, "scale": (4,), "shift": (4,)},
    )


@register("lrn", onnx="LRN")
class LocalResponseNorm(Op):
    """x / (bias + alpha / size * sum over the squared ``size`` nearest channels) ** beta."""

    traits = frozenset({Trait.CHANNELS_INNERMOST})

    contract = Contract(
        "x: float32[N C *S{1..}] -> y: float32[N C *S]",
        "size: int 1.., alpha: float, beta: float, bias: float",
        rules=[holds(f"C + size is at most {LIMIT}", lambda C, size: C + size <= LIMIT)],
    )
