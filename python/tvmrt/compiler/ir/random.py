"""Random numbers."""

from __future__ import annotations

from .contract import Contract
from .op import Op, register


@register("random")
class Random(Op):
    """Numbers of [first, second), or of mean ``first`` and standard deviation ``second``.

    ``seed`` and ``stream`` fix the sequence, of which each time that this runs takes a part of its
    own, counted from when the library was loaded. Equal seeds and streams give equal sequences.
    """

    contract = Contract(
        "-> y: to[*shape]",
        "distribution: uniform|normal, first: float, second: float, seed: int, stream: int 0.., "
        "to: dtype float, shape: ints 0..",
        example={"shape": (3,)},
    )
