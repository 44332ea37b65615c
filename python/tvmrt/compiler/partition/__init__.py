"""Partitioning of a network over devices; see partition.py for the order of the steps."""
