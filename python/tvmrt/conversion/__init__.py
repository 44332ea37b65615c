"""Conversion of models of other frameworks to networks that the compiler reads.

The framework's own exporter does the work. If it is missing or fails, the error is one sentence
that names what to install or to call. Exporters write networks that differ from the model without
an error, so each converter also returns the original, and its callers compare the compiled network
with it (``agreement.check``) before they return the network.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tvmrt.conversion.original import Original
from tvmrt.file_suffix import suffix_of
from tvmrt.git_lfs import check_is_no_pointer
from tvmrt.option_syntax import option

__all__ = ["Converted", "Settings", "advice_for_file", "convert", "is_foreign"]


class Settings(NamedTuple):
    """Options of ``tvmrt.compile`` that conversion uses."""

    shapes: Mapping[str, Any] | None = None
    dims: Mapping[str, Any] | None = None
    example: Any = None
    trusted: bool = False


class Converted(NamedTuple):
    """A network with its shapes and dims for ``tvmrt.compile``, and the model that it was made of
    (None if it needed no conversion)."""

    network: Any
    shapes: Mapping[str, Any] | None
    dims: Mapping[str, Any] | None
    original: Original | None = None


class _Format(NamedTuple):
    """A file format: what a file of it is, the remedy, and the function that converts it.

    The function is a ``"module:attribute"`` reference; it is empty if no library converts the file.
    """

    what: str
    remedy: str
    converter: str = ""
    may_be_onnx: bool = False  # the suffix is also used for ONNX files
    runs_code: bool = False  # the file can run code, or write files, when its library reads it


TORCH_EXPORT = "export the module to ONNX with torch.onnx.export() and give that file"
KERAS_EXPORT = 'export it with model.export("net.onnx", format="onnx") and give that file'
_SAVED_MODEL = _Format(
    "a TensorFlow SavedModel",
    "convert it to ONNX with 'python -m tf2onnx.convert --saved-model', or export .tflite",
    "tvmrt.conversion.keras:convert_saved_model",
    runs_code=True,
)
_WEIGHTS = _Format(
    "a file of weights without a graph", f"load them into the module, and {TORCH_EXPORT}"
)
_TORCH = _Format(
    "a PyTorch file", TORCH_EXPORT, "tvmrt.conversion.torch:convert_file", runs_code=True
)
_KERAS = _Format("a Keras model", KERAS_EXPORT, "tvmrt.conversion.keras:convert_file")
_H5 = _KERAS._replace(runs_code=True)  # Keras before 3.11 runs the lambda layers of such files
_PICKLE = _Format(
    "a pickle", "export the model to ONNX and give that file",
    "tvmrt.conversion.pickles:convert_file", runs_code=True,
)  # fmt: skip
_BOOSTER = "read it with {0}.Booster(model_file=...) and give the booster"
_XGBOOST = _Format("a model file of XGBoost", _BOOSTER.format("xgboost"))
_LIGHTGBM = _Format("a model file of LightGBM", _BOOSTER.format("lightgbm"))
_CATBOOST = _Format(
    "a model file of CatBoost", 'read it, and write it with save_model("net.onnx", format="onnx")'
)
_OTHER = _Format(
    "a model of another runtime", "export the original model to ONNX and give that file"
)
_OTHERS = {
    "OpenVINO": ".xml", "Core ML": ".mlmodel .mlpackage", "TensorRT": ".engine .trt .plan",
    "PaddlePaddle": ".pdmodel .pdiparams", "Caffe": ".caffemodel .prototxt", "MNN": ".mnn",
}  # fmt: skip
_FORMATS: tuple[tuple[str, _Format], ...] = (
    (".pt .pth .pt2", _TORCH), (".keras", _KERAS), (".h5 .hdf5", _H5),
    (".ckpt .safetensors .gguf .npz .npy .msgpack", _WEIGHTS), (".pkl .pickle .joblib", _PICKLE),
    (".pb", _Format("a TensorFlow graph", "convert it to ONNX with 'python -m tf2onnx.convert'",
                    may_be_onnx=True)),
    (".ubj", _XGBOOST), (".cbm", _CATBOOST),
    *((each, _OTHER._replace(what=f"a model of {name}")) for name, each in _OTHERS.items()),
)  # fmt: skip
FORMATS = {suffix: row for suffixes, row in _FORMATS for suffix in suffixes.split()}

# Formats by the beginning of a file, whatever its suffix; the first that matches counts.
_CONTENTS: tuple[tuple[bytes, _Format], ...] = (
    (rb"(?i)\s*<(!doctype )?html", _Format("a web page", "download the file that it links to")),
    (rb"GGUF|\x93NUMPY|.{4}\x00{4}\{\s*\"", _WEIGHTS),  # of llama.cpp, NumPy and safetensors
    (rb"\x89HDF", _H5),
    (rb"\x80[\x02-\x05]", _PICKLE),
    (rb"\{.{0,30}\"?learner", _XGBOOST),
    (rb"tree\nversion=", _LIGHTGBM),
    (rb"CBM1", _CATBOOST),
    (rb"PK\x03\x04.{26}[^/]{1,99}/(data\.pkl|\.data|byteorder)", _TORCH),
    (rb"PK\x03\x04|\x1f\x8b|BZh\d|\xfd7zXZ", _Format("an archive", "unpack it and give the file")),
    (rb".{4}(ORTM|ET1\d)|ftrt|7767517|\{.{0,99}\"modelTopology", _OTHER),  # ncnn, TensorFlow.js
)  # fmt: skip
_BEGINNING = 4096  # bytes of a file that its content is recognised by

COLUMNS = "tvmrt.columns"  # property of an ONNX model: the names of a table's columns, as JSON
_Converter = Callable[[Any, Settings], Converted]

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
    if "\0" in str(path):
        raise ValueError("this text is the content of a file; give the path of the file, or bytes")
    if (path / "saved_model.pb").is_file():
        return _SAVED_MODEL
    row = FORMATS.get(suffix_of(path))
    if row is not None or not path.is_file():
        return row
    with path.open("rb") as file:
        start = file.read(_BEGINNING)
    return next((each for rule, each in _CONTENTS if re.match(rule, start, re.DOTALL)), None)


def advice_for_file(path: str | os.PathLike[str]) -> str | None:
    """Return what a file of another framework is and what to do with it; None for others."""
    row = _format_of(path)
    return None if row is None else f"{os.fspath(path)} is {row.what}; {row.remedy}"


def _converter_of(model: Any) -> _Converter | None:
    """Return the function that converts an object; None if none is known for its classes."""
    columns_known = hasattr(model, "n_features_in_")
    if hasattr(type(model), "fit") and (columns_known or hasattr(model, "get_params")):
        return _resolve("tvmrt.conversion.estimators:convert_estimator")
    for each in type(model).__mro__:
        reference = _OBJECTS.get(each.__module__.partition(".")[0])
        if reference is not None:
            return _resolve(reference)
    return None


def _resolve(reference: str) -> _Converter:
    module, _, attribute = reference.partition(":")
    function: _Converter
    function = getattr(importlib.import_module(module), attribute)
    return function


def is_foreign(model: Any) -> bool:
    """Return whether a path is a file or folder of another framework."""
    return _format_of(model) is not None


def _check_readable(path: str, may_be_folder: bool) -> None:
    """Raise an OSError whose text is a sentence, unlike those of the system; ValueError for a
    pointer of git LFS."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; check the path")
    if os.path.isdir(path) and not may_be_folder:
        raise IsADirectoryError(f"{path} is a folder; give the path of a network file")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} cannot be read; check its permissions")
    check_is_no_pointer(path)


def convert(model: Any, settings: Settings) -> Converted:
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
        If that library fails, if no library converts the file, if a file can run code and is not
        trusted, if an estimator is not fitted, or if an address is given instead of a file.
    """
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class, not a network; give an instance of it")
    if isinstance(model, str) and "://" in model:
        raise ValueError(f"{model} is an address; download the file and give its path")
    row = _format_of(model)
    if isinstance(model, (str, os.PathLike)):
        _check_readable(os.fspath(model), may_be_folder=row is not None)
    if row is not None and not row.may_be_onnx:
        _check_convertible(model, row, settings)
        return _resolve(row.converter)(model, settings)
    is_file = isinstance(model, (str, bytes, os.PathLike))
    converter = None if is_file else _converter_of(model)
    if converter is not None:
        return converter(model, settings)
    if settings.example is not None:
        raise ValueError(
            f"{option('example')} is for models of PyTorch, Keras, TensorFlow and scikit-learn; "
            "this network records its inputs, so omit it"
        )
    return Converted(model, settings.shapes, settings.dims)


def _check_convertible(path: Any, row: _Format, settings: Settings) -> None:
    """Raise ValueError for a file that no library converts, or that may run code of others."""
    if not row.converter:
        raise ValueError(advice_for_file(path))
    if row.runs_code and not settings.trusted:
        raise ValueError(
            f"{os.fspath(path)} is {row.what}, which can run any code or write files when it is "
            f"read; if you trust its source, give {option('trusted', True)}; or {row.remedy}"
        )
