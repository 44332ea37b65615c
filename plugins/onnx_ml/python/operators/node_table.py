"""Node table of a tree ensemble, in ONNX's terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TreeNodes:
    """Nodes of all trees, one array element per node.

    ``mode`` is the comparison (see ``nodes``); ``true`` and ``false`` are the child indices;
    ``missing`` is whether NaN takes the true branch; ``rows`` is a leaf's row of values.
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

    def reorder(self, order: np.ndarray, true: np.ndarray, false: np.ndarray, roots) -> TreeNodes:
        """Return the nodes in ``order``, which may repeat nodes, with new child links."""
        names = ("mode", "features", "thresholds", "missing", "rows")
        columns = {name: getattr(self, name)[order] for name in names}
        return TreeNodes(**columns, true=true, false=false, roots=roots)
