"""Passes from graph to graph, one file each."""
