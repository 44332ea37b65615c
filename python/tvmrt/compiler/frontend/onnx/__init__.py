"""ONNX importer. One module per operator family; each function's name is the operator's."""

from .importer import import_model
from .model_file import data_files

__all__ = ["data_files", "import_model"]
