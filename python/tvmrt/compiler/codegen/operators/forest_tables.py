"""Forest tables in kernel format: integer keys instead of floats, and offsets to children."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import Node


def sortable_keys(values: np.ndarray) -> np.ndarray:
    """Return integers ordered like the floats; NaN has the minimum key, so no float is <= NaN."""
    integer = np.dtype(f"int{8 * values.itemsize}")
    bits = np.ascontiguousarray(values).view(integer)
    size = bits & np.iinfo(integer).max
    keys = np.where(bits < 0, -size, size)
    return np.where(np.isnan(values), np.iinfo(integer).min, keys)


def tree_depths(left: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Return the depth of each tree; children follow their parent in the arrays."""
    return _propagate_up(left, np.zeros(left.size, np.int32), 1)[roots]


def largest_leaves(left: np.ndarray, roots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the maximum over the leaves of each tree of these non-negative numbers."""
    leaf = left == np.arange(left.size)
    return _propagate_up(left, np.where(leaf, values, 0), 0)[roots]


def _propagate_up(left: np.ndarray, values: np.ndarray, step: int) -> np.ndarray:
    """Propagate values from the leaves: each node gets its children's maximum plus ``step``."""
    branches = np.flatnonzero(left != np.arange(left.size))
    first = left[branches]
    while True:
        larger = step + np.maximum(values[first], values[first + 1])
        if (larger == values[branches]).all():
            return values
        values[branches] = larger


@dataclass(frozen=True)
class Tables:
    """Forest tables. ``steps`` is the offset from a node to its left child, 0 for a leaf.
    ``features`` are indices into the ``keys`` of a row: one per input, or two if NaN may go either
    way.

    ``inputs``: columns of x, None for all in order. Trees are sorted by depth.
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
        """Bits of a key index, including one more key for leaves; 8 if there is room, because
        processors extract whole bytes faster."""
        bits, step = max(self.keys, 1).bit_length(), int(self.steps.max(initial=0)).bit_length()
        return 8 if bits < 8 and step + 8 < 8 * self.thresholds.itemsize else bits

    def nodes(self) -> np.ndarray:
        """Return pairs of threshold, with 0 as the minimum, and link. Leaves have their value, and
        the index of the last key."""
        leaf, leaf_values = self.steps == 0, self.leaves
        signed = self.thresholds.dtype
        if self.values.shape[1] == 1:
            leaf_values = self.values[self.leaves, 0].view(signed)
        keys = np.where(leaf, leaf_values, self.thresholds ^ np.iinfo(signed).min)
        links = self.steps.astype(np.int64) << self.feature_bits | self.features
        links = np.where(leaf, self.keys, links)
        return np.stack([keys, links], 1).astype(signed).view(f"u{signed.itemsize}")


def make_tables(node: Node) -> Tables:
    """Return the tables of a ``forest`` node."""
    _, thresholds, features, left, nan_left, leaves, roots, targets, values, _ = (
        v.data for v in node.inputs
    )
    branches = left != np.arange(left.size)
    used, feature_index = np.unique(features[branches], return_inverse=True)
    column = np.zeros(left.size, np.int32)
    column[branches] = feature_index
    lefts = nan_left[branches]
    nan = "RIGHT" if not lefts.any() else "LEFT" if lefts.all() else "BOTH"
    if nan == "BOTH":
        column[branches & ~nan_left] += used.size
    depths = tree_depths(left, roots)
    order = np.argsort(depths, kind="stable")
    columns = node.inputs[0].shape[1]
    return Tables(
        sortable_keys(thresholds),
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
