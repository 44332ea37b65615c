"""Conversion of models of other frameworks to networks that the compiler reads.

The framework's own exporter does the work. If it is missing or fails, the error is one sentence
that names what to install or to call.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tvmrt.file_suffix import suffix_of

__all__ = ["Sizes", "advice_for_file", "convert", "is_foreign"]


class Sizes(NamedTuple):
    """Shapes of inputs and bounds of dimensions, as for ``tvmrt.compile``."""

    shapes: Mapping[str, Any] | None = None
    dims: Mapping[str, Any] | None = None


class _Format(NamedTuple):
    """A file format: what a file of it is, the remedy, and the function that converts it.

    The function is a ``"module:attribute"`` reference; it is empty if no library converts the file.
    """

    what: str
    remedy: str
    converter: str = ""
    may_be_onnx: bool = False  # the suffix is also used for ONNX files


TORCH_EXPORT = "export the module to ONNX with torch.onnx.export() and give that file"
KERAS_EXPORT = 'export it with model.export("net.onnx", format="onnx") and give that file'
_SAVED_MODEL = _Format(
    "a TensorFlow SavedModel",
    "convert it to ONNX with 'python -m tf2onnx.convert --saved-model', or export .tflite",
    "tvmrt.conversion.keras:convert_saved_model",
)
_WEIGHTS = _Format(
    "a file of weights without a graph", f"load them into the module, and {TORCH_EXPORT}"
)
_TORCH = _Format("a PyTorch file", TORCH_EXPORT, "tvmrt.conversion.torch:convert_file")
_KERAS = _Format("a Keras model", KERAS_EXPORT, "tvmrt.conversion.keras:convert_file")
_PICKLE = _Format(
    "a pickle, which may run any code when it is read",
    "read it yourself and pass the model to tvmrt.load, or export it to ONNX",
)

FORMATS: Mapping[str, _Format] = {
    ".pt": _TORCH, ".pth": _TORCH, ".pt2": _TORCH,
    ".ckpt": _WEIGHTS, ".safetensors": _WEIGHTS, ".gguf": _WEIGHTS, ".npz": _WEIGHTS,
    ".keras": _KERAS, ".h5": _KERAS, ".hdf5": _KERAS,
    ".pkl": _PICKLE, ".pickle": _PICKLE, ".joblib": _PICKLE,
    ".pb": _Format(
        "a TensorFlow graph", "convert it to ONNX with 'python -m tf2onnx.convert'",
        may_be_onnx=True,
    ),
    ".mlmodel": _Format("a Core ML model", "export the original model to ONNX"),
    ".pdmodel": _Format("a PaddlePaddle model", "convert it to ONNX with paddle2onnx"),
}  # fmt: skip

# Root module of a class of the model: the function that converts it.
_OBJECTS = {
    "torch": "tvmrt.conversion.torch:convert_model",
    "keras": "tvmrt.conversion.keras:convert_model",
    "tensorflow": "tvmrt.conversion.keras:convert_module",
    "lightgbm": "tvmrt.conversion.estimators:convert_booster",
    "xgboost": "tvmrt.conversion.estimators:convert_booster",
}


def _format_of(model: Any) -> _Format | None:
    """Return the foreign format of a path; None for other models."""
    if not isinstance(model, (str, os.PathLike)):
        return None
    path = Path(model)
    if path.is_dir():
        return _SAVED_MODEL if (path / "saved_model.pb").is_file() else None
    return FORMATS.get(suffix_of(path))


def advice_for_file(path: str | os.PathLike[str]) -> str | None:
    """Return what a file of another framework is and what to do with it; None for others."""
    found = _format_of(path)
    return None if found is None else f"{os.fspath(path)} is {found.what}; {found.remedy}"


def _converter_of(model: Any) -> Callable[[Any, Sizes], tuple[Any, Sizes]] | None:
    """Return the function that converts an object; None if none is known for its classes."""
    columns_known = hasattr(model, "n_features_in_")
    if hasattr(type(model), "fit") and (columns_known or hasattr(model, "get_params")):
        return _resolve("tvmrt.conversion.estimators:convert_estimator")
    for each in type(model).__mro__:
        reference = _OBJECTS.get(each.__module__.partition(".")[0])
        if reference is not None:
            return _resolve(reference)
    return None


def _resolve(reference: str) -> Callable[[Any, Sizes], tuple[Any, Sizes]]:
    module, _, attribute = reference.partition(":")
    function: Callable[[Any, Sizes], tuple[Any, Sizes]]
    function = getattr(importlib.import_module(module), attribute)
    return function


def is_foreign(model: Any) -> bool:
    """Return whether a path is a file or folder of another framework."""
    return _format_of(model) is not None


def _check_readable(path: str, may_be_folder: bool) -> None:
    """Raise an OSError whose text is a sentence, unlike those of the system."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; check the path")
    if os.path.isdir(path) and not may_be_folder:
        raise IsADirectoryError(f"{path} is a folder; give the path of a network file")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} cannot be read; check its permissions")


def convert(model: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Convert a model of another framework; return other models unchanged.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, PermissionError
        If the file does not exist, is a folder or may not be read.
    ImportError
        If the library that converts it is not installed.
    TypeError
        If the model is a class.
    ValueError
        If that library fails, if no library converts the file, if an estimator is not fitted, or
        if an address is given instead of a file.
    """
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class, not a network; give an instance of it")
    if isinstance(model, str) and "://" in model:
        raise ValueError(f"{model} is an address; download the file and give its path")
    found = _format_of(model)
    if isinstance(model, (str, os.PathLike)):
        _check_readable(os.fspath(model), may_be_folder=found is not None)
    if found is not None:
        if found.may_be_onnx:
            return model, sizes
        if not found.converter:
            raise ValueError(advice_for_file(model))
        return _resolve(found.converter)(model, sizes)
    converter = None if isinstance(model, (str, bytes, os.PathLike)) else _converter_of(model)
    return (model, sizes) if converter is None else converter(model, sizes)


def columns_of(model: Any) -> tuple[str, ...]:
    """Return the names of the columns that an estimator was fitted with; empty without names."""
    if not hasattr(type(model), "fit"):  # a GraphBuilder has every attribute
        return ()
    found = getattr(model, "feature_names_in_", None)
    names = () if found is None else tuple(map(str, found))
    # LightGBM names the columns of arrays itself
    return () if names == tuple(f"Column_{i}" for i in range(len(names))) else names
