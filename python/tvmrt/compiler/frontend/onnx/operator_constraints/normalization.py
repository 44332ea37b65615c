"""Constraints of normalisation and softmax operators."""

from __future__ import annotations

from tvmrt.compiler.ir.contract import Contract, holds

from .rules import ALONG_AXIS, AXIS, broadcasts_to

_BY_CHANNEL = "scale: any[C], bias: any[C], mean: any[C], var: any[C]"
_DIVIDE = holds("the groups divide the C channels", lambda num_groups, C: C % num_groups == 0)


def _broadcast_text(name: str) -> str:
    return f"{name} broadcasts to the axes of x from axis on"


_SCALE = holds(_broadcast_text("scale"), lambda scale, X: broadcasts_to(scale.shape, X))
_STASH = holds("stash_type is a floating type", lambda stash_type: stash_type in (1, 10, 11, 16))

CONTRACTS = {
    ("BatchNormalization", 9): Contract(
        f"x: any[N C *S], {_BY_CHANNEL}", "epsilon: float, momentum: float"
    ),
    "InstanceNormalization": Contract("x: any[N C *S], scale: any[C], bias: any[C]"),
    ("GroupNormalization", 18): Contract(
        "x: any[N C *S], scale: any[num_groups], bias: any[num_groups]",
        "num_groups: int 1..",
        rules=[_DIVIDE],
    ),
    ("GroupNormalization", 21): Contract(
        "x: any[N C *S], scale: any[C], bias: any[C]", "num_groups: int 1..", rules=[_DIVIDE]
    ),
    "LayerNormalization": Contract(
        "x: any[*X], scale: any[*], bias?: any[*]",
        "axis: int, stash_type: int",
        rules=[
            AXIS,
            _SCALE,
            holds(
                _broadcast_text("bias"),
                lambda bias, X: bias is None or broadcasts_to(bias.shape, X),
            ),
            _STASH,
        ],
    ),
    "RMSNormalization": Contract(
        "x: any[*X], scale: any[*]", "axis: int, stash_type: int", rules=[AXIS, _SCALE, _STASH]
    ),
    "LRN": Contract(
        "x: any[N C *S]",
        "size: int 1.., alpha: float, beta: float, bias: float",
        rules=[
            holds("size is odd", lambda size: size % 2 == 1),
            holds("alpha and beta are above 0", lambda alpha, beta: alpha > 0 and beta > 0),
        ],
    ),
    "LpNormalization": Contract("x: any[*]", "axis: int, p: int 1..2", rules=[AXIS]),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), ALONG_AXIS),
}
