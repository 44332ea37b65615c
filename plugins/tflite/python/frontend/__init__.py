"""Importer of TensorFlow Lite files (``.tflite``), one module per operator family."""

from tvmrt.plugins.tflite.frontend.importer import (
    EveryTensor,
    entry_of,
    import_model,
    made_by_operators,
)
from tvmrt.plugins.tflite.frontend.model_file import is_tflite, load_model
from tvmrt.plugins.tflite.frontend.names import aliases_of, by_input, names_of

__all__ = [
    "EveryTensor",
    "aliases_of",
    "by_input",
    "entry_of",
    "import_model",
    "is_tflite",
    "load_model",
    "made_by_operators",
    "names_of",
]
