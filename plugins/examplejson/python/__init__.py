"""An example of a device: a graph format with a runtime of its own."""
