"""Example of a device: a graph format with its own runtime."""
