"""Extents as a tensor: what of a shape is computed with as the network runs."""

from __future__ import annotations

from math import prod

from .contract import Contract, holds
from .op import Op, register


@register("iota")
class Iota(Op):
    """start, start + step, ...: ``count`` integers."""

    contract = Contract(
        "-> y: int64[count]",
        "count: int 0.., start: int, step: int",
        example={"count": 3, "start": 2, "step": -1},
    )


@register("extents")
class Extents(Op):
    """``values``: integers and extents, the elements in row-major order."""

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
