"""Keras and TensorFlow models, converted by their own exporters."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from tvmrt.conversion import KERAS_EXPORT, Sizes
from tvmrt.conversion.exporter import import_exporter, report_failure

_TFLITE = "convert it to ONNX with 'python -m tf2onnx.convert --saved-model' and give that file"


def convert_file(path: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Convert a ``.keras`` or ``.h5`` file."""
    name = os.fspath(path)
    packages = "keras tensorflow tf2onnx"
    keras = import_exporter("keras", f"{name} is a Keras model", packages, KERAS_EXPORT)
    with report_failure("keras", name, KERAS_EXPORT):
        model = keras.saving.load_model(name, compile=False)
    return convert_model(model, sizes)


def convert_model(model: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Convert a Keras model by its method ``export``."""
    import onnx

    instead = "export it to ONNX in the way of its backend and give that file"
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        file = Path(folder, "net.onnx")
        with report_failure("keras", f"a {type(model).__name__}", instead):
            model.export(str(file), format="onnx", verbose=False)
        return onnx.load(file), sizes


def convert_saved_model(path: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Convert the folder of a SavedModel to TensorFlow Lite."""
    name = os.fspath(path)
    what = f"{name} is a TensorFlow SavedModel"
    tensorflow = import_exporter("tensorflow", what, "tensorflow", _TFLITE)
    return _converted(tensorflow, name, name), sizes


def convert_module(model: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Convert a ``tf.Module``, or a Keras model of TensorFlow, by way of a SavedModel."""
    if hasattr(model, "export"):
        return convert_model(model, sizes)
    tensorflow = import_exporter("tensorflow", "the model is of TensorFlow", "tensorflow", _TFLITE)
    what = f"a {type(model).__name__}"
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        with report_failure("tensorflow", what, _TFLITE):
            tensorflow.saved_model.save(model, folder)
        return _converted(tensorflow, folder, what), sizes


def _converted(tensorflow: Any, folder: str, what: str) -> bytes:
    """Return a SavedModel as a TensorFlow Lite file. ``what``: the model, for the error."""
    with report_failure("tensorflow", what, _TFLITE):
        return bytes(tensorflow.lite.TFLiteConverter.from_saved_model(folder).convert())
