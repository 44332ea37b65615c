"""Extents as tensor elements, for shapes that the network computes with at run time."""

from __future__ import annotations

from math import prod

from .contract import Contract, holds
from .op import Op, register


@register("iota")
class Iota(Op):
    """Return ``count`` integers: start, start + step, ..."""

    contract = Contract(
        "-> y: int64[count]",
        "count: int 0.., start: int, step: int",
        example={"count": 3, "start": 2, "step": -1},
    )


@register("extents")
class Extents(Op):
    """Return a tensor of extents. ``values``: integers and extents in row-major order."""

    contract = Contract(
        "-> y: int64[*shape]",
        "values: ints, shape: ints 0..",
        rules=[
            holds(
                "shape has as many elements as values",
                lambda values, shape: prod(shape) == len(values),
            )
        ],
        example={"values": (2, 3), "shape": (2,)},
    )
