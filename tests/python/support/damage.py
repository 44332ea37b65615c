"""Random damage to bytes and ONNX models, for tests that expect an error at most."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

# Numbers at the limits of indices, extents and axes.
EDGES = [-(2**63), -(2**31), -100, -2, -1, 0, 1, 2, 3, 7, 2**16, 2**31, 2**40, 2**62, 2**63 - 1]
OTHER_OPERATORS = ["Einsum", "If", "Loop", "NonZero", "Scan", "TopK", "Unique", "Unheard"]
ATTRIBUTE_NAMES = ["axis", "axes", "group", "keepdims", "mode", "pads", "perm", "strides", "to"]
OPSETS = [-1, 0, 1, 7, 9, 11, 13, 17, 18, 21, 23, 99]


def damaged_bytes(data: bytes, source: random.Random, most: int = 4) -> bytes:
    """Return a copy with up to ``most`` bytes changed, removed, duplicated or truncated."""
    out = bytearray(data)
    for _ in range(source.randint(1, most)):
        at = source.randrange(len(out) + 1)
        length = source.choice([1, 1, 2, 4, 8, 64])
        how = source.randrange(5)
        if how == 0:
            out[at : at + length] = source.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * length
        elif how == 1:
            del out[at : at + length]
        elif how == 2:
            out[at:at] = out[at : at + length]
        elif how == 3 and at < len(out):
            out[at] = source.randrange(256)
        elif how == 4 and source.random() < 0.3:
            del out[at:]
    return bytes(out)


def damaged_model(whole: onnx.ModelProto, source: random.Random) -> onnx.ModelProto:
    """Return a copy with one to three inconsistencies."""
    network = onnx.ModelProto()
    network.CopyFrom(whole)
    for _ in range(source.randint(1, 3)):
        if network.graph.node:
            source.choice(_WAYS)(network, source)
    return network


def _node(network: onnx.ModelProto, source: random.Random) -> onnx.NodeProto:
    return source.choice(list(network.graph.node))


def _name(network: onnx.ModelProto, source: random.Random) -> str:
    """Return the name of some tensor, or an unused one."""
    names = [key for node in network.graph.node for key in (*node.input, *node.output)]
    return source.choice([*names, *(t.name for t in network.graph.initializer), ""])


def _attribute(network: onnx.ModelProto, source: random.Random) -> onnx.AttributeProto | None:
    attributes = [a for node in network.graph.node for a in node.attribute]
    return source.choice(attributes) if attributes else None


def _change_input(network, source) -> None:
    node = _node(network, source)
    if node.input:
        node.input[source.randrange(len(node.input))] = _name(network, source)


def _remove_input(network, source) -> None:
    node = _node(network, source)
    if node.input:
        del node.input[source.randrange(len(node.input))]


def _change_output(network, source) -> None:
    node = _node(network, source)
    node.output[source.randrange(len(node.output))] = _name(network, source)


def _add_output(network, source) -> None:
    _node(network, source).output.append("extra")


def _change_operator(network, source) -> None:
    operators = [node.op_type for node in network.graph.node]
    _node(network, source).op_type = source.choice([*operators, *OTHER_OPERATORS])


def _change_attribute(network, source) -> None:
    attribute = _attribute(network, source)
    if attribute is None:
        return
    if attribute.type == AttributeProto.INT:
        attribute.i = source.choice(EDGES)
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        how = source.randrange(3)
        if how == 0:
            del attribute.ints[-1]
        elif how == 1:
            attribute.ints.append(source.choice(EDGES))
        else:
            attribute.ints[source.randrange(len(attribute.ints))] = source.choice(EDGES)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = source.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
    elif attribute.type == AttributeProto.STRING:
        attribute.s = source.choice([b"", b"\xff", b"linear", b"reflect", b"SAME_UPPER"])


def _change_attribute_type(network, source) -> None:
    attribute = _attribute(network, source)
    if attribute is not None:
        attribute.type = source.randrange(15)


def _remove_attribute(network, source) -> None:
    node = _node(network, source)
    if node.attribute:
        del node.attribute[source.randrange(len(node.attribute))]


def _add_attribute(network, source) -> None:
    values = [source.choice(EDGES), [source.choice(EDGES)], "x", 1.5, [0.5]]
    attribute = helper.make_attribute(source.choice(ATTRIBUTE_NAMES), source.choice(values))
    _node(network, source).attribute.append(attribute)


def _change_weights(network, source) -> None:
    if not network.graph.initializer:
        return
    tensor = source.choice(list(network.graph.initializer))
    how = source.randrange(4)
    if how == 0 and tensor.dims:
        tensor.dims[source.randrange(len(tensor.dims))] = source.choice(EDGES)
    elif how == 1:
        tensor.data_type = source.randrange(25)
    elif how == 2:
        tensor.raw_data = tensor.raw_data[: source.randrange(len(tensor.raw_data) + 1)]
    else:
        _change_integer(tensor, source)


def _change_integer(tensor: onnx.TensorProto, source: random.Random) -> None:
    """Change a number in a list of integers: shapes, axes, indices."""
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (TypeError, ValueError, KeyError):
        return  # damaged before
    if array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(array.dtype)
        number = min(max(source.choice(EDGES), int(limits.min)), int(limits.max))
        array.reshape(-1)[source.randrange(array.size)] = number
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _change_graph_input(network, source) -> None:
    kind = source.choice(list(network.graph.input)).type.tensor_type
    if source.random() < 0.3 or not kind.shape.dim:
        kind.elem_type = source.randrange(25)
    else:
        source.choice(list(kind.shape.dim)).dim_value = source.choice(EDGES)


def _change_opset(network, source) -> None:
    network.opset_import[0].version = source.choice(OPSETS)


def _remove_node(network, source) -> None:
    del network.graph.node[source.randrange(len(network.graph.node))]


def _repeat_node(network, source) -> None:
    network.graph.node.append(_node(network, source))


_WAYS: list[Callable[[onnx.ModelProto, random.Random], None]] = [
    _change_input,
    _remove_input,
    _change_output,
    _add_output,
    _change_operator,
    _change_attribute,
    _change_attribute_type,
    _remove_attribute,
    _add_attribute,
    _change_weights,
    _change_graph_input,
    _change_opset,
    _remove_node,
    _repeat_node,
]
