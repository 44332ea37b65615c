"""Constraints on scales and zero points."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir.contract import Contract, holds
from tvmrt.compiler.ir.rounding import ceil_div

from .rules import one_number


def _one_scale_each(x, scale, axis, block_size) -> bool:
    """Whether the scale is one number, one per element of the axis, or one per block of it."""
    shape, rank = scale.shape, len(x.shape)
    if prod(shape) == 1 and len(shape) <= 1 and not block_size:
        return True
    axis = axis or 0
    if not -rank <= axis < rank:
        return False
    axis %= rank
    if not block_size:
        return shape == (x.shape[axis],)
    blocked = list(x.shape)
    blocked[axis] = ceil_div(blocked[axis], block_size)
    return list(shape) == blocked


def _agree(scale, zero_point) -> bool:
    """Whether the shapes are equal; a scalar equals a vector of one element."""
    if zero_point is None or scale.shape == zero_point.shape:
        return True
    return all(prod(p.shape) == 1 and len(p.shape) <= 1 for p in (scale, zero_point))


_ONE_SHAPE = holds("scale and zero_point have one shape", _agree)
_OPERANDS = "x: any[*], scale: any[*], zero_point?: any[*]"
_WHOLE = Contract(_OPERANDS, rules=[one_number("scale"), _ONE_SHAPE])
_BY_AXIS = Contract(
    _OPERANDS,
    "axis: int, block_size?: int 0..",
    rules=[
        _ONE_SHAPE,
        holds(
            "scale is one number, one for each place along axis, or one for each block of it",
            _one_scale_each,
        ),
    ],
)

ROWS = {
    (name, since): contract
    for name in ("QuantizeLinear", "DequantizeLinear")
    for since, contract in ((10, _WHOLE), (13, _BY_AXIS))
}
