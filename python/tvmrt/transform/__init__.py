"""Passes: graph to graph, one file each."""

from .optimize import optimize

__all__ = ["optimize"]
