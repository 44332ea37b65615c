"""TensorFlow Lite files (``.tflite``) to graphs, one module an operator family."""

from .importer import EveryTensor, entry_of, import_model, made_by_operators, names_of
from .model_file import is_tflite, load_model

__all__ = [
    "EveryTensor",
    "entry_of",
    "import_model",
    "is_tflite",
    "load_model",
    "made_by_operators",
    "names_of",
]
