"""Choose values for integer inputs that define Reshape targets, to fit declared result shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.compiler.frontend.dims import Dims

_COPIES = ("Cast", "Identity", "Unsqueeze", "Squeeze")
_REMAINING = -1  # ONNX: infer this extent

InputElement = tuple[str, int]  # an element of an input


def fill(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], dims: Dims) -> None:
    """Write Reshape targets that fit the declared result shapes to the inputs that define them.

    A target that is computed in another way, or whose result has no declared shape, is unchanged.
    """
    from tvmrt.compiler.operator_key import operator_name

    nodes = {name: node for node in model.graph.node for name in node.output}
    lengths = {t.name: prod(t.dims) for t in model.graph.initializer}
    declared = {v.name: v for v in [*model.graph.value_info, *model.graph.output]}
    counts = None
    for node in model.graph.node:
        if (
            operator_name(node) != "Reshape"
            or len(node.input) < 2
            or node.output[0] not in declared
        ):
            continue
        elements = _elements_of(node.input[1], nodes, arrays, lengths)
        bounds = _bounds(declared[node.output[0]], dims)
        if bounds is None or elements is None or len(elements) != len(bounds) or not any(elements):
            continue
        counts = _counts(model, arrays) if counts is None else counts
        for element, extent in zip(elements, _target(bounds, counts.get(node.input[0]))):
            if element is not None:
                arrays[element[0]].reshape(-1)[element[1]] = extent


def _elements_of(
    name: str,
    nodes: Mapping[str, onnx.NodeProto],
    arrays: Mapping[str, np.ndarray],
    lengths: Mapping[str, int],
) -> list[InputElement | None] | None:
    """Return the input elements that form a vector, None for constants; None if computed."""
    from tvmrt.compiler.frontend.onnx.tensors import constant_tensor
    from tvmrt.compiler.operator_key import operator_name

    if name in arrays:
        whole = arrays[name].dtype.kind in "iu"
        return [(name, i) for i in range(arrays[name].size)] if whole else None
    if name in lengths:
        return [None] * lengths[name]
    node = nodes.get(name)
    op = "" if node is None else operator_name(node)
    if node is None or op not in (*_COPIES, "Concat", "Constant"):
        return None
    if op == "Constant":
        tensor = constant_tensor(node)
        return None if tensor is None else [None] * prod(tensor.dims)
    parts = [
        _elements_of(part, nodes, arrays, lengths)
        for part in (node.input if op == "Concat" else node.input[:1])
    ]
    if any(part is None for part in parts):
        return None
    return [element for part in parts for element in part or ()]


def _bounds(value: onnx.ValueInfoProto, dims: Dims) -> list[tuple[int, int]] | None:
    """Return minimum and maximum of each extent of a result; None if one has no bound."""
    from tvmrt.compiler.ir.extent import lower_bound, upper_bound

    found = []
    for dim in value.type.tensor_type.shape.dim:
        if dim.HasField("dim_value"):
            found.append((dim.dim_value, dim.dim_value))
        elif dim.dim_param in dims:
            extent = dims.extent(dim.dim_param)
            found.append((lower_bound(extent), upper_bound(extent)))
        else:
            return None
    return found or None


def _counts(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return the numbers of elements of the tensors whose shape ONNX infers from the inputs."""
    import onnx

    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        if value.name in arrays:
            type = onnx.helper.np_dtype_to_tensor_dtype(arrays[value.name].dtype)
            shape = arrays[value.name].shape
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, type, shape))
    try:
        fixed = onnx.shape_inference.infer_shapes(fixed, data_prop=True)
    except onnx.shape_inference.InferenceError:  # the counts are optional
        return {}
    result = {}
    for value in [*fixed.graph.input, *fixed.graph.value_info]:
        extents = value.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in extents):
            result[value.name] = prod(dim.dim_value for dim in extents)
    return result


def _target(bounds: Sequence[tuple[int, int]], count: int | None) -> Sequence[int]:
    """Return extents within bounds for a number of elements; else let ONNX infer one of them."""
    if count is not None:
        for found in _factors(bounds, count):
            return found
    rest = max(range(len(bounds)), key=lambda i: bounds[i][1])
    return [
        _REMAINING if i == rest and low != high else low for i, (low, high) in enumerate(bounds)
    ]


def _factors(bounds: Sequence[tuple[int, int]], count: int) -> Iterator[list[int]]:
    """Yield all extents within bounds whose product is ``count``, larger first extents first."""
    if not bounds:
        if count == 1:
            yield []
        return
    (low, high), *others = bounds
    for extent in range(high, low - 1, -1):
        if extent == 0 and count == 0:
            yield [0, *(low for low, _ in others)]
        elif extent and count % extent == 0:
            for rest in _factors(others, count // extent):
                yield [extent, *rest]
