"""Loading and validation of untrusted ONNX files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.external_data_helper import uses_external_data

from tvmrt import conversion
from tvmrt.compiler.ir.mmap_constants import MIN_MMAP_BYTES
from tvmrt.compiler.operator_key import domain_of
from tvmrt.conversion.columns import of_entries
from tvmrt.file_suffix import suffix_of
from tvmrt.plugin import linker_of, network_suffixes

from .external_data import (
    check_external_data,
    external_tensors,
    load_external_data,
    read_without_weights,
    refuse_external_data,
)
from .tensors import declared_dims, detach_data

OLDEST_OPSET = 1  # older than MIN_OPSET: models are upgraded to MIN_OPSET first
MIN_OPSET = 7  # the oldest one that the importers read
_COMPILED = (".so", ".dylib", ".dll", ".a", ".c", ".h", ".tar", ".elf", ".params")


def load_model(
    source: str | os.PathLike | onnx.ModelProto, with_external_data: bool = True
) -> onnx.ModelProto:
    """Return the model, by default with its external data; without, that is checked only.

    Raises OSError if the file cannot be read and ValueError if it is not an ONNX model.
    """
    if isinstance(source, onnx.ModelProto):
        check_utf8_names(source)
        refuse_external_data(source)
        return source
    path = Path(source)
    data = path.read_bytes()
    model = _check(_parse(data, path, len(data)), path, len(data))
    if with_external_data:
        load_external_data(model, path)
    else:
        check_external_data(model, path)
    return model


def load_lazily(
    source: str | os.PathLike | onnx.ModelProto,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the model, and its large weights that are outside of it (lazy loading), see
    ``tensors.detach_data``.

    Models that need opset conversion, and models in memory, keep their weights inside.
    """
    if isinstance(source, onnx.ModelProto):
        return load_model(source), {}
    path, large = Path(source), {}
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size >= MIN_MMAP_BYTES and path.is_file():
            data, large = read_without_weights(file, size) or (b"", {})
    if not large:
        data = path.read_bytes()
        size = len(data)
    model = _check(_parse(data, path, size), path, size)
    if any(not domain_of(o.domain) and o.version < MIN_OPSET for o in model.opset_import):
        return load_model(path), {}
    weights = model.graph.initializer
    inside = [index for index in large if not uses_external_data(weights[index])]
    detached = load_external_data(model, path, detach=True)
    for index in inside:
        name = f"initializer {index}"
        detached[name] = large[index]
        detach_data(weights[index], name)
    return model, detached


def _parse(data: bytes, path: Path, size: int) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as problem:
        advice = conversion.advice_for_file(path)
        if advice is None and (suffix_of(path) in _COMPILED or linker_of(path)):
            sources = " or ".join(network_suffixes())
            advice = f"{path} is a compiled network; give the {sources} file it was compiled from"
        text = advice or f"{path} {_parse_error_text(str(problem), size)}"
        raise ValueError(text) from problem
    return model


def _check(model: onnx.ModelProto, path: Path, size: int) -> onnx.ModelProto:
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ValueError(f"{path} holds no ONNX graph ({size} bytes); export it again")
    check_utf8_names(model)
    return model


def parse_bytes(data: bytes) -> onnx.ModelProto:
    """Return the model in the content of a file. Raises ValueError if it is not an ONNX model."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        is_network = bool(model.graph.node or model.graph.output)
    except Exception:  # of protobuf, whose exceptions share no base class
        is_network = False
    if not is_network:
        raise ValueError(
            f"these {len(data)} bytes are not a network; give the content of a "
            f"{' or '.join(network_suffixes())} file, or its path"
        )
    return model


def data_files(path: str | os.PathLike) -> list[str]:
    """Return the names of the external data files of an ONNX file, relative to its folder.

    Raises the same errors as ``load_model``.
    """
    model = onnx.ModelProto.FromString(Path(path).read_bytes())
    entries = (entry for tensor in external_tensors(model) for entry in tensor.external_data)
    return sorted({entry.value for entry in entries if entry.key == "location"})


def default_inputs(
    source: str | os.PathLike | onnx.ModelProto,
) -> dict[str, tuple[int | str, ...] | None]:
    """Return the inputs of a model that have a default value, an initialiser: the declared shape of
    each, if there is one, by name. An open extent is its name or "".

    Raises OSError if the file cannot be read.
    """
    model = source
    if not isinstance(model, onnx.ModelProto):
        model = onnx.ModelProto.FromString(Path(source).read_bytes())
    graph = model.graph
    weights = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    names = {tensor.name for tensor in weights}
    return {info.name: declared_dims(info) for info in graph.input if info.name in names}


def licence(model: onnx.ModelProto) -> str:
    """Return the licence in a model's properties, or "" if there is none."""
    return _property(model, "model_license")


def columns(model: onnx.ModelProto) -> tuple[Any, ...]:
    """Return the columns that a converter wrote into a model's properties: names, or lists of a
    name and categories."""
    text = _property(model, conversion.COLUMNS)
    try:
        return tuple(each.entry() for each in of_entries(json.loads(text or "[]")))
    except (ValueError, TypeError):
        raise ValueError(
            f"the property {conversion.COLUMNS} of the model is {text!r:.60}, not a list of names; "
            "export the model again"
        ) from None


def _property(model: onnx.ModelProto, key: str) -> str:
    return str(next((entry.value for entry in model.metadata_props if entry.key == key), ""))


def _parse_error_text(reason: str, size: int) -> str:
    """Explain why protobuf cannot parse a file."""
    if "depth" in reason.lower() or "nest" in reason.lower():
        return (
            "nests graphs deeper than protobuf reads; export it with fewer If, Loop or Scan inside"
        )
    return f"is not an ONNX model, or is truncated ({size} bytes); export or copy it again"


def check_utf8_names(model: onnx.ModelProto) -> None:
    """Raise ValueError for names that are not valid UTF-8; protobuf returns them as bytes."""
    for text in _texts(model):
        if not isinstance(text, str):
            raise ValueError(
                f"the model contains the invalid name {text!r}; copy or export it again"
            )


def _texts(message: Any) -> Iterator[str | bytes]:
    """Yield the texts of a protobuf message and of those in it, without comments."""
    for field, value in message.ListFields():
        is_text = field.type == field.TYPE_STRING and field.name != "doc_string"
        if is_text:
            yield from [value] if isinstance(value, (str, bytes)) else value
        elif field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _texts(inner)


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Return the opset version per domain; the default domain is the empty name."""
    if not model.opset_import:
        raise ValueError("the model does not declare its opset; export it again")
    if model.ir_version > onnx.IR_VERSION:
        raise ValueError(
            f"the model's file format is IR version {model.ir_version}; onnx {onnx.__version__} "
            f"reads up to {onnx.IR_VERSION}, a newer onnx reads more"
        )
    result = {domain_of(o.domain): o.version for o in model.opset_import}
    version = result.get("", max(MIN_OPSET, onnx.defs.onnx_opset_version()))
    newest = onnx.defs.onnx_opset_version()
    if not MIN_OPSET <= version <= newest:
        hint = f"with onnx {onnx.__version__}; a newer onnx reads more " if version > newest else ""
        raise ValueError(
            f"the model has opset {version}; tvmrt reads opset {OLDEST_OPSET} to {newest} "
            f"{hint}(onnx.version_converter can convert it)"
        )
    result[""] = version
    return result
