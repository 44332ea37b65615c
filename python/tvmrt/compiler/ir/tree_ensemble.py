"""Decision trees: forests that are evaluated row by row."""

from __future__ import annotations

import numpy as np

from .contract import Contract, holds
from .indexing import between
from .op import Op, register


def fits_packed_links(features: np.ndarray, left: np.ndarray, bits: int) -> bool:
    """Return whether kernels can store a node's column and left child offset in one integer."""
    steps = left - np.arange(left.size)
    branches = steps != 0
    columns = 2 * np.unique(features[branches]).size  # NaN may go left or right
    return int(steps.max(initial=0)).bit_length() + columns.bit_length() < bits


def _is_acyclic(left_data: np.ndarray) -> bool:
    """Return whether every walk ends: both children of a node have higher indices."""
    place = np.arange(left_data.size)
    branches = left_data != place
    later = left_data[branches]
    return bool((later > place[branches]).all() and (later + 1 < left_data.size).all())


@register("forest")
class Forest(Op):
    """Results of all trees for each row of x, combined by ``aggregate``, plus ``base``.

    A walk starts at a tree's root. From a node it goes to ``left`` if column ``features`` of x is
    at most ``thresholds``, or is NaN and ``nan_left`` is true; otherwise to the node after left. A
    node that is its own left is a leaf. It adds the C numbers in row ``leaves`` of values to the
    outputs from the tree's index in ``targets``. For min and max, infinite leaves do not affect an
    output; it is base if all are infinite.
    """

    contract = Contract(
        "x: E=float[N F], thresholds: constant E[M], features: constant int32[M], "
        "left: constant int32[M], nan_left: constant bool[M], leaves: constant int32[M], "
        "roots: constant int32[K], targets: constant int32[K], values: constant E[L C], "
        "base: constant E[T] -> y: E[N T]",
        "aggregate: sum|average|min|max",
        rules=[
            holds(
                "features are columns of x", lambda features_data, F: between(features_data, 0, F)
            ),
            holds("nodes lead to later nodes", _is_acyclic),
            holds(
                "a column and a step are one number",
                lambda features_data, left_data, E: fits_packed_links(
                    features_data, left_data, E.bits
                ),
            ),
            holds("leaves are rows of values", lambda leaves_data, L: between(leaves_data, 0, L)),
            holds("roots are nodes", lambda roots_data, M: between(roots_data, 0, M)),
            holds(
                "targets have places for C numbers",
                lambda targets_data, C, T: between(targets_data, 0, T - C + 1),
            ),
        ],
        example={"M": 1, "C": 2, "T": 2},
    )


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
