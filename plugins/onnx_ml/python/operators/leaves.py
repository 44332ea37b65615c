"""Leaf values of trees as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LeafValues:
    """Leaf values: leaf node ``node`` adds ``weight`` to output ``target``."""

    node: np.ndarray
    target: np.ndarray
    weight: np.ndarray


def leaf_table(
    leaves: LeafValues, branch: np.ndarray, tree: np.ndarray, outputs: int, aggregate: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of leaf values, each node's row, and the first output of each tree's rows.

    ``branch`` marks inner nodes, ``tree`` is the tree of each node. If every tree contributes to
    one output only, rows have one number.
    """
    node, target, weight = leaves.node, leaves.target, leaves.weight
    trees = int(tree.max()) + 1
    low, high = np.full(trees, outputs), np.full(trees, -1)
    np.minimum.at(low, tree[node], target)
    np.maximum.at(high, tree[node], target)
    single = bool((low >= high).all())
    width = 1 if single else outputs
    targets = np.where(high >= 0, low, 0) if single else np.zeros(trees, np.int64)
    neutral = {"min": np.inf, "max": -np.inf}.get(aggregate, 0.0)
    ends = np.flatnonzero(~branch)
    row_of = np.zeros(branch.size, np.int64)
    row_of[ends] = np.arange(ends.size)
    table = np.full((ends.size, width), neutral)
    at = row_of[node], 0 if single else target
    if aggregate in ("sum", "average"):
        np.add.at(table, at, weight)
    else:
        (np.minimum if aggregate == "min" else np.maximum).at(table, at, weight)
    table = table.astype(weight.dtype)
    table, inverse = np.unique(table, axis=0, return_inverse=True)
    row_of[ends] = inverse.reshape(-1)
    return table, row_of, targets
