"""Class probabilities from probabilities of pairs of classes."""

from __future__ import annotations

from .contract import Contract, holds
from .op import Op, register


@register("couple_pairs")
class SvmPairwiseCoupling(Op):
    """Return the class probabilities that best fit the pairwise ones: pairs (0, 1), (0, 2), ...
    (1, 2), ... of ``classes``, each with the probability of its first class."""

    contract = Contract(
        "pairs: float32[N P] -> y: float32[N classes]",
        "classes: int 2..1024",
        rules=[
            holds(
                "there is a number for each pair of classes",
                lambda P, classes: classes * (classes - 1) // 2 == P,
            )
        ],
        example={"classes": 4, "P": 6},
    )
