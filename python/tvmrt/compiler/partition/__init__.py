"""Partitioning of a network over devices; see partition.py for the order of the steps."""

from .boundary_tensors import boundary_tensors
from .layer_errors import LayerErrors
from .partition import Partition, partition
from .precision import Reducer
from .report import BoundaryTensor, NodeAssignment, RegionSummary

__all__ = [
    "BoundaryTensor",
    "LayerErrors",
    "NodeAssignment",
    "Partition",
    "Reducer",
    "RegionSummary",
    "boundary_tensors",
    "partition",
]
