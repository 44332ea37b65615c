"""Keras and TensorFlow models, converted by their own exporters."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvmrt.conversion import KERAS_EXPORT, Converted, Settings
from tvmrt.conversion.arrays import example_advice, example_array, leaves, to_array
from tvmrt.conversion.draws import draw
from tvmrt.conversion.exporter import import_exporter, report_failure
from tvmrt.conversion.original import Input, Original
from tvmrt.option_syntax import option

_TFLITE = "convert it to ONNX with 'python -m tf2onnx.convert --saved-model' and give that file"
_PYTHON = (
    "call() may decide by values or sizes in Python, which the network has as constants; use "
    "keras.ops.where, keras.ops.cond or operations of tensors"
)
_BATCH, _EXTENT = 2, 32  # of inputs in the first call, if their shapes leave them open
_BACKEND = "export it to ONNX in the way of its backend and give that file"


def convert_file(path: Any, settings: Settings) -> Converted:
    """Convert a ``.keras`` or ``.h5`` file."""
    name = os.fspath(path)
    packages = "keras tensorflow tf2onnx"
    keras = import_exporter("keras", f"{name} is a Keras model", packages, KERAS_EXPORT)
    trust = f"if it needs a lambda layer, which can run any code, give {option('trusted', True)}"
    with report_failure("keras", name, KERAS_EXPORT if settings.trusted else trust):
        model = keras.saving.load_model(name, compile=False, safe_mode=not settings.trusted)
    return convert_model(model, settings)


def convert_model(model: Any, settings: Settings) -> Converted:
    """Convert a Keras model by its method ``export``, which needs a model that was called."""
    import onnx

    what = f"a {type(model).__name__}"
    example = settings.example
    examples = [example_array(f"input {i}", e) for i, e in enumerate(_parts(example))]

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        return [to_array(each) for each in leaves(_sorted(_call(model, list(feeds.values()))))]

    specs = enumerate(getattr(model, "inputs", None) or [])
    drawn = [Input(str(i), _dtype(each), _extents(each.shape)) for i, each in specs]
    arrays = examples or list(next(next(draw(drawn, {})).feeds).values())
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        file = Path(folder, "net.onnx")
        instead = _BACKEND if examples else f"{example_advice()}, or {_BACKEND}"
        with report_failure("keras", what, instead):
            if arrays:
                _call(model, arrays)
            model.export(str(file), format="onnx", verbose=False)
        network = onnx.load(file)
    original = Original(what, "keras", run, examples=examples, advice=_PYTHON)
    return Converted(network, settings.shapes, settings.dims, original)


def convert_saved_model(path: Any, settings: Settings) -> Converted:
    """Convert the folder of a SavedModel to TensorFlow Lite."""
    name = os.fspath(path)
    what = f"{name} is a TensorFlow SavedModel"
    tensorflow = import_exporter("tensorflow", what, "tensorflow", _TFLITE)
    return _converted(tensorflow, name, name, settings)


def convert_module(model: Any, settings: Settings) -> Converted:
    """Convert a ``tf.Module``, or a Keras model of TensorFlow, by way of a SavedModel."""
    if hasattr(model, "export"):
        return convert_model(model, settings)
    tensorflow = import_exporter("tensorflow", "the model is of TensorFlow", "tensorflow", _TFLITE)
    what = f"a {type(model).__name__}"
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        with report_failure("tensorflow", what, _TFLITE):
            tensorflow.saved_model.save(model, folder)
        return _converted(tensorflow, folder, what, settings)


def _converted(tensorflow: Any, folder: str, what: str, settings: Settings) -> Converted:
    """Return a SavedModel as a TensorFlow Lite file. ``what``: the model, for the error."""
    with report_failure("tensorflow", what, _TFLITE):
        network = bytes(tensorflow.lite.TFLiteConverter.from_saved_model(folder).convert())
        loaded = tensorflow.saved_model.load(folder)
        function = loaded.signatures["serving_default"]

    def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
        assert loaded is not None  # it owns the variables of the function
        named = {name: tensorflow.constant(value) for name, value in feeds.items()}
        return {name: to_array(each) for name, each in function(**named).items()}

    original = Original(what, "tensorflow", run, examples=_named(settings.example), advice=_TFLITE)
    return Converted(network, settings.shapes, settings.dims, original)


def _named(example: Any) -> Mapping[str, Any]:
    """Return the example of a SavedModel, whose inputs have names."""
    if example is None:
        return {}
    if not isinstance(example, Mapping):
        raise TypeError(f"{option('example')}: give a dictionary of arrays by name of the input")
    return {name: example_array(name, value) for name, value in example.items()}


def _parts(example: Any) -> list[Any]:
    """Return the arrays of an example; none without one."""
    if example is None:
        return []
    if isinstance(example, Mapping):
        return [example[name] for name in sorted(example)]
    return list(example) if isinstance(example, (tuple, list)) else [example]


def _call(model: Any, arrays: list[Any]) -> Any:
    """Call a model with its inputs: one structure, or for classes of users the arguments."""
    if not getattr(model, "inputs", None):
        return model(*arrays, training=False)
    if isinstance(structure := getattr(model, "input", None), Mapping):
        return model(dict(zip(sorted(structure), arrays)), training=False)
    return model(arrays[0] if len(arrays) == 1 else arrays, training=False)


def _sorted(result: Any) -> Any:
    """Return outputs in the order of the exporter, which sorts dictionaries by name."""
    return [result[name] for name in sorted(result)] if isinstance(result, Mapping) else result


def _dtype(spec: Any) -> str:
    return getattr(spec.dtype, "name", str(spec.dtype))


def _extents(shape: Any) -> tuple[int, ...]:
    """Return the extents of an input for the first call, with numbers for those that are open."""
    return tuple(
        n if n is not None else (_BATCH if axis == 0 else _EXTENT) for axis, n in enumerate(shape)
    )
