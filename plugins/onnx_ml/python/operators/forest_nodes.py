"""Table of the nodes of all trees of a forest, as ONNX writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, an element of each array for each.

    ``mode``: a comparison of ``nodes``; ``true`` and ``false``: where children are; ``missing``:
    whether NaN holds, too; ``rows``: what a leaf gives, a row of a table.
    """

    mode: np.ndarray
    features: np.ndarray
    thresholds: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray
    rows: np.ndarray
    roots: np.ndarray

    @property
    def count(self) -> int:
        return self.mode.size

    def taken(self, order: np.ndarray, true: np.ndarray, false: np.ndarray, roots) -> Nodes:
        """Nodes by their places, as often as these name them, with other links."""
        names = ("mode", "features", "thresholds", "missing", "rows")
        kept = {name: getattr(self, name)[order] for name in names}
        return Nodes(**kept, true=true, false=false, roots=roots)
