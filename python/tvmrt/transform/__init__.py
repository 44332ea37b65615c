"""Passes: graph to graph, one file each."""

from .expand_composed import expand_composed
from .layouts import infer_layouts
from .optimize import optimize

__all__ = ["expand_composed", "infer_layouts", "optimize"]
