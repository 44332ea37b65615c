"""Partitioning of a network over devices; see partition.py for the order of the steps."""

from .borders import border_rows
from .layer_errors import LayerErrors
from .partition import Partition, partition
from .precision import Reducer
from .report import BorderRow, NodeRow, RegionRow

__all__ = [
    "BorderRow",
    "LayerErrors",
    "NodeRow",
    "Partition",
    "Reducer",
    "RegionRow",
    "border_rows",
    "partition",
]
