"""ONNX to IR. One module per operator family; each function's name is the operator's."""

from .importer import import_model

__all__ = ["import_model"]
