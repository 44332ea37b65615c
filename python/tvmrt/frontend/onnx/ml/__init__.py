"""Operators of the domain ``ai.onnx.ml``: classical models and what prepares their inputs."""

from importlib import import_module

FAMILIES = ("trees", "tree_ensemble", "linear", "svm", "scaling", "columns", "encoders")

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")
