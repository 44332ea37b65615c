"""External data: tensors of a model whose elements are in other files.

The files of a model are untrusted. A file with data must lie in the folder of the model's path, or
in the folder that holds the model once links are followed; so the caches of model hubs, in which
both are links to a folder of blobs, can be read. Everything else, such as absolute paths, is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from onnx.external_data_helper import uses_external_data

from tvmrt.compiler.ir.mmap_constants import MIN_MMAP_BYTES, mmap_from_file

from .tensors import detach_data, graphs, tensors_except_weights


def load_external_data(
    model: onnx.ModelProto, path: Path, detach: bool = False
) -> dict[str, np.ndarray]:
    """Move all external data into the model.

    With ``detach``, large weights of graphs stay outside: they are returned memory-mapped, see
    ``tensors.detach_data``. All locations are checked before any data is read. Raises ValueError or
    OSError with the name of the tensor.
    """
    weights = [tensor for graph in graphs(model) for tensor in graph.initializer]
    others = list(tensors_except_weights(model))
    locations = [
        (tensor, _locate(tensor, path), detach and is_weight)
        for tensors, is_weight in ((weights, True), (others, False))
        for tensor in tensors
        if uses_external_data(tensor)
    ]
    for tensor in (*weights, *others):
        del tensor.external_data[:]
    detached: dict[str, np.ndarray] = {}
    for tensor, location, may_detach in locations:
        with location.file.open("rb") as file:
            file.seek(location.offset)
            if may_detach and location.size >= MIN_MMAP_BYTES:
                name = f"external {len(detached)}"
                detached[name] = mmap_from_file(file, location.size)
                detach_data(tensor, name)
            else:
                tensor.raw_data = file.read(location.size)
                tensor.data_location = TensorProto.DEFAULT
    return detached


def check_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Raise ValueError or OSError unless all external data of a model can be read."""
    for tensor in external_tensors(model):
        _locate(tensor, path)


def refuse_external_data(model: onnx.ModelProto) -> None:
    """Raise ValueError if a model in memory has external data."""
    for tensor in external_tensors(model):
        raise ValueError(
            f"weights of {tensor.name} are external data, and a model in memory has no folder; "
            "give the path of the model, or load it with its data"
        )


def external_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors with external data."""
    weights = (tensor for graph in graphs(model) for tensor in graph.initializer)
    return filter(uses_external_data, (*weights, *tensors_except_weights(model)))


@dataclass(frozen=True)
class _DataLocation:
    """Location of external data: a file and a range of bytes in it."""

    file: Path
    offset: int
    size: int


def _locate(tensor: TensorProto, path: Path) -> _DataLocation:
    """Return the location of external data, checked to be complete and in an allowed folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file = _data_file(tensor, entries.get("location", ""), path)
    numbers = {
        k: _parse_number(tensor, k, entries[k]) for k in ("offset", "length") if k in entries
    }
    available, offset = file.stat().st_size, numbers.get("offset", 0)
    end = offset + numbers.get("length", 0)
    if end > available:
        raise ValueError(
            f"{file}: weights of {tensor.name} end at byte {end}, but the file has {available} "
            "bytes; copy it again"
        )
    return _DataLocation(file, offset, numbers.get("length", available - offset))


def _data_file(tensor: TensorProto, location: str, path: Path) -> Path:
    """Return the file of external data. Raises ValueError, or FileNotFoundError."""
    if not location or "\0" in location:
        raise ValueError(
            f"{path}: weights of {tensor.name} are external data, but {location!r} is not a file "
            "name; export the model again"
        )
    file = (path.parent / location).resolve()
    allowed = {path.parent.resolve(), path.resolve().parent}
    if Path(location).is_absolute() or allowed.isdisjoint(file.parents):
        raise ValueError(
            f"{path}: weights of {tensor.name} are outside the model's folder ({location}); keep "
            "external data in the model's folder"
        )
    if not file.is_file():
        raise FileNotFoundError(
            f"{path}: the external data file {location} of weights {tensor.name} is missing; put "
            "it next to the model"
        )
    return file


def _parse_number(tensor: TensorProto, key: str, text: str) -> int:
    # int() also accepts signs, blanks, underscores and digits of other scripts
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise ValueError(
            f"weights of {tensor.name}: the {key} {text[:40]!r} in the external file is not a "
            "number of bytes; export the model again"
        )
    return int(text)
