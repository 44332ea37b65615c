"""Random number generation."""

from __future__ import annotations

from .contract import Contract
from .op import Op, register


@register("random")
class Random(Op):
    """Numbers, uniform in [first, second) or normal with mean first, deviation second.

    ``seed`` and ``stream`` fix the sequence. Each execution takes the next part of it, starting
    when the library is loaded. Equal seeds and streams give equal sequences.
    """

    contract = Contract(
        "-> y: to[*shape]",
        "distribution: uniform|normal, first: float, second: float, seed: int, stream: int 0.., "
        "to: dtype float, shape: ints 0..",
        example={"shape": (3,)},
    )
