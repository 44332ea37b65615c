"""Access to the tensors of a network, including external data.

Weights of graphs can be large, so they are read when they are imported. All others (in attributes,
in functions, sparse ones) are loaded into the model at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from tvmrt.compiler.ir.mmap_constants import MIN_MMAP_BYTES, mmap_from_file

MAX_DENSE = 1 << 28  # elements of sparse weights, including zeros
_NUMPY_LAYOUT = {  # types whose elements have numpy's layout in a file
    getattr(onnx.TensorProto, name)
    for name in ("FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64",
                 "UINT8", "UINT16", "UINT32", "UINT64")
}  # fmt: skip


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the network's graph and every graph nested in it or in its functions."""
    roots = [model.graph]
    for function in model.functions:
        roots += [graph for node in function.node for graph in subgraphs(node)]
    yield from with_nested_graphs(roots)


def with_nested_graphs(roots: Iterable[onnx.GraphProto]) -> Iterator[onnx.GraphProto]:
    """Yield some graphs and every graph nested in them."""
    pending = [*roots]
    while pending:
        graph = pending.pop()
        yield graph
        pending += [inner for node in graph.node for inner in subgraphs(node)]


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node, including those of nested graphs and of functions."""
    for function in model.functions:
        yield from function.node
    for graph in graphs(model):
        yield from graph.node


def replace_nodes(
    node_list: MutableSequence[onnx.NodeProto], replacement: Iterable[onnx.NodeProto]
) -> None:
    """Set the nodes of a graph or function to copies of others, possibly its own."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in replacement]
    del node_list[:]
    node_list.extend(copies)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for tensor in (*sparse, *attribute.sparse_tensors):
            yield from (tensor.values, tensor.indices)


def _tensors_except_weights(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors except for the dense weights of graphs."""
    for graph in graphs(model):
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nodes(model):
        yield from _attribute_tensors(node.attribute)
    for function in model.functions:
        yield from _attribute_tensors(function.attribute_proto)


@dataclass(frozen=True)
class _DataLocation:
    """Location of external data: a file below the model's folder and a range in it."""

    file: Path
    offset: int
    length: int | None


def _parse_number(tensor: onnx.TensorProto, key: str, text: str) -> int:
    # int() also accepts signs, blanks, underscores and digits of other scripts
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise ValueError(
            f"weights of {tensor.name}: the {key} {text[:40]!r} in the external file is not a "
            "number of bytes; export the model again"
        )
    return int(text)


def _data_location(tensor: onnx.TensorProto, path: Path, folder: Path) -> _DataLocation:
    """Return the location of external data. Raises ValueError, or FileNotFoundError."""
    found = {entry.key: entry.value for entry in tensor.external_data}
    location = found.get("location", "")
    if not location or "\0" in location:
        raise ValueError(
            f"{path}: weights of {tensor.name} are external data, but {location!r} is not a file "
            "name; export the model again"
        )
    numbers = {k: _parse_number(tensor, k, found[k]) for k in ("offset", "length") if k in found}
    target = (folder / location).resolve()
    if folder not in target.parents:
        raise ValueError(
            f"{path}: weights of {tensor.name} are outside the model's folder ({location}); keep "
            "external data in the model's folder"
        )
    if not target.is_file():
        raise FileNotFoundError(
            f"{path}: the external data file {location} of weights {tensor.name} is missing; put "
            "it next to the model"
        )
    return _DataLocation(target, numbers.get("offset", 0), numbers.get("length"))


def _checked(tensor: onnx.TensorProto, path: Path, folder: Path) -> _DataLocation:
    """Return the location, checked to be complete and inside the model's folder."""
    location = _data_location(tensor, path, folder)
    size = location.file.stat().st_size
    end = location.offset + (location.length or 0)
    if end > size:
        raise ValueError(
            f"{location.file}: weights of {tensor.name} end at byte {end}, but the file has {size} "
            "bytes; copy it again"
        )
    return location


def gather_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Check all external data, and load it into the model except for dense weights.

    Raises ValueError or OSError with the name of the tensor.
    """
    folder = path.parent.resolve()
    for graph in graphs(model):
        for tensor in graph.initializer:
            if uses_external_data(tensor):
                _checked(tensor, path, folder)
    for tensor in _tensors_except_weights(model):
        if uses_external_data(tensor):
            location = _checked(tensor, path, folder)
            with location.file.open("rb") as file:
                file.seek(location.offset)
                tensor.raw_data = file.read(-1 if location.length is None else location.length)
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


def map_external_data(model: onnx.ModelProto, path: Path) -> dict[str, np.ndarray]:
    """Return the data of large external weights of the model's graph by name, memory-mapped, and
    remove them from the model. Raises ValueError or OSError."""
    folder, found = path.parent.resolve(), {}
    for tensor in model.graph.initializer:
        if not uses_external_data(tensor):
            continue
        location = _checked(tensor, path, folder)
        size = (
            location.file.stat().st_size - location.offset
            if location.length is None
            else location.length
        )
        if size < MIN_MMAP_BYTES:
            continue
        with location.file.open("rb") as file:
            file.seek(location.offset)
            found[tensor.name] = mmap_from_file(file, size)
        detach_data(tensor)
    return found


def detach_data(tensor: onnx.TensorProto) -> None:
    """Mark weights whose data is kept outside of the model."""
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value="tvmrt")


def array_of(tensor: onnx.TensorProto, folder: str = "") -> np.ndarray:
    """Return the elements of a tensor; external data is read from the folder.

    Raises ValueError for an element type that ONNX does not define, and the errors of onnx.
    """
    check_element_type(tensor)
    return numpy_helper.to_array(tensor, folder)


def check_element_type(tensor: onnx.TensorProto) -> None:
    """Raise ValueError for an element type that ONNX does not define."""
    try:
        helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        raise ValueError(
            f"the element type of {tensor.name or 'a tensor'} is {tensor.data_type}, which ONNX "
            "does not define; export the model again"
        ) from None


def read_weights(
    tensor: onnx.TensorProto, folder: str, kept: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return the elements of weights; ``kept`` has data outside of the model by name.

    Raises ValueError for contradictory weights.
    """
    check_element_type(tensor)
    try:
        data = kept.get(tensor.name)
        return array_of(tensor, folder) if data is None else _elements(tensor, data)
    except Exception as problem:
        raise ValueError(
            f"weights {tensor.name} cannot be read ({problem}); export the model again"
        ) from problem


def _elements(tensor: onnx.TensorProto, data: np.ndarray) -> np.ndarray:
    if tensor.data_type in _NUMPY_LAYOUT and sys.byteorder == "little":
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        return data.view(dtype).reshape(tuple(tensor.dims))
    complete = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, name=tensor.name)
    complete.raw_data = data.tobytes()
    return array_of(complete)


def refuse_external_data(model: onnx.ModelProto) -> None:
    """Raise ValueError if a model in memory has external data."""
    for tensor in external_tensors(model):
        raise ValueError(
            f"weights of {tensor.name} are external data, and a model in memory has no folder; "
            "give the path of the model, or load it with its data"
        )


def external_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors with external data."""
    weights = (tensor for graph in graphs(model) for tensor in graph.initializer)
    return filter(uses_external_data, (*weights, *_tensors_except_weights(model)))


def dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    """Return a sparse tensor as a dense one. Raises ValueError if it is contradictory."""
    name, shape = sparse.values.name, tuple(sparse.dims)
    values, indices = array_of(sparse.values), array_of(sparse.indices)
    if any(extent < 1 for extent in shape):
        raise ValueError(f"sparse weights {name}: shape {list(shape)} has an extent below 1")
    wanted = {(values.size,), (values.size, len(shape))}
    if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in wanted:
        raise ValueError(
            f"sparse weights {name}: indices of {indices.dtype} and shape {list(indices.shape)} do "
            f"not place values of shape {list(values.shape)} in {list(shape)}"
        )
    size = prod(shape)
    if size > MAX_DENSE:
        raise ValueError(f"sparse weights {name} have {size} elements; the maximum is {MAX_DENSE}")
    bounds = np.array(shape if indices.ndim == 2 else [size])
    rows = indices.reshape(values.size, -1)
    if ((rows < 0) | (rows >= bounds)).any():
        raise ValueError(
            f"sparse weights {name}: an index lies outside shape {list(shape)}; export them again"
        )
    flat = np.ravel_multi_index(rows.T, shape) if indices.ndim == 2 else indices
    if (np.diff(flat) <= 0).any():
        raise ValueError(f"sparse weights {name}: indices must be strictly increasing")
    out = np.zeros(shape, values.dtype)
    out.reshape(-1)[flat] = values
    return out
