"""Importer of TensorFlow Lite files (``.tflite``), one module per operator family."""

from tvmrt.plugins.tflite.frontend.importer import (
    AllTensorsModel,
    entry_of,
    import_model,
    made_by_operators,
)
from tvmrt.plugins.tflite.frontend.io_names import aliases_of, by_input, names_of
from tvmrt.plugins.tflite.frontend.model_file import is_tflite, load_model

__all__ = [
    "AllTensorsModel",
    "aliases_of",
    "by_input",
    "entry_of",
    "import_model",
    "is_tflite",
    "load_model",
    "made_by_operators",
    "names_of",
]
