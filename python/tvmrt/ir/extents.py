"""Extents as a tensor: what of a shape is computed with as the network runs."""

from __future__ import annotations

from math import prod

from .contract import Contract, holds
from .op import Op, register


@register("extents")
class Extents(Op):
    """``values``: integers and extents, the elements in row-major order."""

    contract = Contract(
        attributes=["values: ints", "shape: ints 0.."],
        rules=[
            holds(
                "shape has as many elements as values",
                lambda values, shape: prod(shape) == len(values),
            )
        ],
        results=["y: int64[*shape]"],
        example={"values": (2, 3), "shape": (2,)},
    )
