"""Operators that tvmrt does not have, computed by onnxruntime."""
