"""The tables of a forest as its kernels read them: keys instead of floats, steps to children."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.ir import Node


def keys_of(numbers: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats; no float is at most NaN, whose key is the least."""
    integer = np.dtype(f"int{8 * numbers.itemsize}")
    bits = np.ascontiguousarray(numbers).view(integer)
    size = bits & np.iinfo(integer).max
    keys = np.where(bits < 0, -size, size)
    return np.where(np.isnan(numbers), np.iinfo(integer).min, keys)


def depths_of(left: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Steps from each root to its farthest leaf; children lie behind their node."""
    branches = np.flatnonzero(left != np.arange(left.size))
    first = left[branches]
    heights = np.zeros(left.size, np.int32)
    while True:
        higher = 1 + np.maximum(heights[first], heights[first + 1])
        if (higher == heights[branches]).all():
            return heights[roots]
        heights[branches] = higher


@dataclass(frozen=True)
class Tables:
    """``steps`` from a node to its left child, 0 for a leaf; ``features`` among the keys of a row,
    of which there are ``keys``: one for each of ``inputs``, or two where NaN goes both ways.

    ``inputs``: columns of x, None for all of them in order. Trees stand in the order of their
    depths.
    """

    thresholds: np.ndarray  # keys
    steps: np.ndarray
    features: np.ndarray
    leaves: np.ndarray
    values: np.ndarray
    roots: np.ndarray
    depths: np.ndarray
    targets: np.ndarray
    inputs: np.ndarray | None
    features_read: int
    nan: str  # RIGHT, LEFT, BOTH

    @property
    def keys(self) -> int:
        return self.features_read * (2 if self.nan == "BOTH" else 1)

    @property
    def feature_bits(self) -> int:
        return max(self.keys - 1, 1).bit_length()

    def nodes(self) -> np.ndarray:
        """Pairs of threshold and link."""
        links = self.steps.astype(np.int64) << self.feature_bits | self.features
        leaf = self.steps == 0
        keys = np.where(leaf, np.iinfo(self.thresholds.dtype).max, self.thresholds)
        links = np.where(leaf, 0, links)
        return np.stack([keys, links], 1).astype(self.thresholds.dtype)


def tables_of(node: Node) -> Tables:
    """The tables of a node ``forest``."""
    _, thresholds, features, left, nan_left, leaves, roots, targets, values, _ = (
        v.data for v in node.inputs
    )
    branches = left != np.arange(left.size)
    used, place = np.unique(features[branches], return_inverse=True)
    column = np.zeros(left.size, np.int32)
    column[branches] = place
    lefts = nan_left[branches]
    nan = "RIGHT" if not lefts.any() else "LEFT" if lefts.all() else "BOTH"
    if nan == "BOTH":
        column[branches & ~nan_left] += used.size
    depths = depths_of(left, roots)
    order = np.argsort(depths, kind="stable")
    columns = node.inputs[0].shape[1]
    return Tables(
        keys_of(thresholds),
        np.where(branches, left - np.arange(left.size), 0).astype(np.int32),
        column,
        np.where(branches, 0, leaves).astype(np.int32),
        values,
        roots[order],
        depths[order],
        targets[order],
        None if used.size == columns else used.astype(np.int32),
        int(used.size),
        nan,
    )
