"""Constraints on scales and zero points."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir.contract import Contract, holds
from tvmrt.compiler.ir.rounding import ceil_div

from .rules import scalar_rule


def _scale_fits(x, scale, axis, block_size) -> bool:
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


def _have_equal_shapes(scale, zero_point) -> bool:
    """Return whether the shapes are equal; a scalar equals a vector of one element."""
    if zero_point is None or scale.shape == zero_point.shape:
        return True
    return all(prod(p.shape) == 1 and len(p.shape) <= 1 for p in (scale, zero_point))


_SAME_SHAPE = holds("scale and zero_point have one shape", _have_equal_shapes)
_OPERANDS = "x: any[*], scale: any[*], zero_point?: any[*]"
_PER_TENSOR = Contract(_OPERANDS, rules=[scalar_rule("scale"), _SAME_SHAPE])
_PER_AXIS = Contract(
    _OPERANDS,
    "axis: int, block_size?: int 0..",
    rules=[
        _SAME_SHAPE,
        holds(
            "scale is one number, one for each index along axis, or one for each block of it",
            _scale_fits,
        ),
    ],
)

CONTRACTS = {
    (name, since): contract
    for name in ("QuantizeLinear", "DequantizeLinear")
    for since, contract in ((10, _PER_TENSOR), (13, _PER_AXIS))
}
