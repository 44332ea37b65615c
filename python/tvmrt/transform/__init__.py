"""Passes: graph to graph, one file each."""

from .expand_composed import expand_composed
from .fixed_point import to_fixed_point
from .layouts import infer_layouts
from .optimize import optimize

__all__ = ["expand_composed", "infer_layouts", "optimize", "to_fixed_point"]
