"""Access to the graphs, nodes and tensors of a network."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmrt.compiler.ir.tensor_type import check_rank

MAX_DENSE = 1 << 28  # elements of sparse weights, including zeros
_NUMPY_LAYOUT = {  # types whose elements have numpy's layout in a file
    getattr(TensorProto, name)
    for name in ("FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64",
                 "UINT8", "UINT16", "UINT32", "UINT64")
}  # fmt: skip


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured_names(proto: onnx.GraphProto) -> list[str]:
    """Return the names that a graph's nodes, including nested graphs, and its outputs read from
    outside."""
    names = dict.fromkeys(key for node in proto.node for key in node.input)
    for node in proto.node:
        for inner in subgraphs(node):
            names.update(dict.fromkeys(captured_names(inner)))
    names.update(dict.fromkeys(info.name for info in proto.output))
    made = {key for node in proto.node for key in node.output}
    return [name for name in names if name not in made]


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


def declared_dims(info: onnx.ValueInfoProto) -> tuple[int | str, ...] | None:
    """Return the declared shape of a tensor: numbers, and the names of open extents, which may be
    ""; None without a shape."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim)


def replace_nodes(
    node_list: MutableSequence[onnx.NodeProto], replacement: Iterable[onnx.NodeProto]
) -> None:
    """Set the nodes of a graph or function to copies of others, possibly its own."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in replacement]
    del node_list[:]
    node_list.extend(copies)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for tensor in (*sparse, *attribute.sparse_tensors):
            yield from (tensor.values, tensor.indices)


def tensors_except_weights(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors except for the dense weights of graphs."""
    for graph in graphs(model):
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nodes(model):
        yield from _attribute_tensors(node.attribute)
    for function in model.functions:
        yield from _attribute_tensors(function.attribute_proto)


def array_of(tensor: TensorProto) -> np.ndarray:
    """Return the elements of a tensor whose data is in the model.

    Raises ValueError for an element type that ONNX does not define, and the errors of onnx.
    """
    check_element_type(tensor)
    return numpy_helper.to_array(tensor)


def check_element_type(tensor: TensorProto) -> None:
    """Raise ValueError for an element type that ONNX does not define."""
    try:
        helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        raise ValueError(
            f"the element type of {tensor.name or 'a tensor'} is {tensor.data_type}, which ONNX "
            "does not define; export the model again"
        ) from None


# Key of the entry in a tensor's ``external_data`` that names its data outside of the model. Only
# ``detach_data`` writes it: the entries of files are removed when their data is read.
_DETACHED = "tvmrt"

DetachedData = Mapping[str, np.ndarray]  # data outside of the model by its name


def detach_data(tensor: TensorProto, name: str) -> None:
    """Mark weights whose data is kept outside of the model; copies of them keep the mark."""
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]
    tensor.external_data.add(key=_DETACHED, value=name)


def read_weights(tensor: TensorProto, detached: DetachedData) -> np.ndarray:
    """Return the elements of weights. Raises ValueError for contradictory ones."""
    check_element_type(tensor)
    check_rank(tensor.dims, f"tensor {tensor.name}")
    names = [entry.value for entry in tensor.external_data if entry.key == _DETACHED]
    try:
        return _elements(tensor, detached[names[0]]) if names else array_of(tensor)
    except Exception as problem:
        raise ValueError(
            f"weights {tensor.name} cannot be read ({problem}); export the model again"
        ) from problem


def _elements(tensor: TensorProto, data: np.ndarray) -> np.ndarray:
    if tensor.data_type in _NUMPY_LAYOUT and sys.byteorder == "little":
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        return data.view(dtype).reshape(tuple(tensor.dims))
    complete = TensorProto(data_type=tensor.data_type, dims=tensor.dims, name=tensor.name)
    complete.raw_data = data.tobytes()
    return array_of(complete)


def constant_tensor(node: onnx.NodeProto) -> TensorProto | None:
    """Return the tensor of a Constant node, whichever attribute gives it; None if none does.

    Raises ValueError if a sparse tensor is contradictory.
    """
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute) if not attribute.ref_attr_name else None
        if value is None or attribute.name not in _CONSTANT_TYPES:
            continue
        if attribute.name == "value":
            return value
        if attribute.name == "sparse_value":
            return dense(value)
        is_list = isinstance(value, (list, tuple)) or hasattr(value, "extend")
        elements = value if is_list else [value]
        shape = [len(elements)] if is_list else []
        return helper.make_tensor("", _CONSTANT_TYPES[attribute.name], shape, elements)
    return None


_CONSTANT_TYPES = {
    "value": TensorProto.UNDEFINED,
    "sparse_value": TensorProto.UNDEFINED,
    "value_float": TensorProto.FLOAT,
    "value_floats": TensorProto.FLOAT,
    "value_int": TensorProto.INT64,
    "value_ints": TensorProto.INT64,
    "value_string": TensorProto.STRING,
    "value_strings": TensorProto.STRING,
}


def dense(sparse: onnx.SparseTensorProto) -> TensorProto:
    """Return a sparse tensor as a dense one. Raises ValueError if it is contradictory."""
    name, shape = sparse.values.name, tuple(sparse.dims)
    values = array_of(sparse.values)
    if any(extent < 1 for extent in shape):
        raise ValueError(f"sparse weights {name}: shape {list(shape)} has an extent below 1")
    if values.ndim != 1 or values.dtype == object:
        raise ValueError(
            f"sparse weights {name} are of {values.dtype} and shape {list(values.shape)}; a list "
            "of numbers is expected"
        )
    size = prod(shape)
    if size > MAX_DENSE:
        raise ValueError(f"sparse weights {name} have {size} elements; the maximum is {MAX_DENSE}")
    out = np.zeros(size, values.dtype)
    if values.size:  # without values there need not be indices
        out[_flat_indices(sparse, values.size, shape)] = values
    return numpy_helper.from_array(out.reshape(shape), name)


def _flat_indices(sparse: onnx.SparseTensorProto, count: int, shape: tuple) -> np.ndarray:
    """Return the indices of sparse values in the flattened tensor, which ONNX wants sorted."""
    name, indices = sparse.values.name, array_of(sparse.indices)
    if indices.dtype != np.int64 or indices.shape not in {(count,), (count, len(shape))}:
        raise ValueError(
            f"sparse weights {name}: indices of {indices.dtype} and shape {list(indices.shape)} do "
            f"not place values of shape {[count]} in {list(shape)}"
        )
    bounds = np.array(shape if indices.ndim == 2 else [prod(shape)])
    rows = indices.reshape(count, -1)
    if ((rows < 0) | (rows >= bounds)).any():
        raise ValueError(
            f"sparse weights {name}: an index lies outside shape {list(shape)}; export them again"
        )
    flat = np.ravel_multi_index(rows.T, shape) if indices.ndim == 2 else indices
    if (np.diff(flat) <= 0).any():
        raise ValueError(f"sparse weights {name}: indices must be strictly increasing")
    return flat
