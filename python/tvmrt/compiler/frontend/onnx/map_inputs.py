"""Map inputs of a network.

A library has tensors only. A network reads the values of known keys from a map, in a fixed order,
so the map becomes a row of these values. ``DictVectorizer``, and ``CastMap`` to a row of a declared
length, become casts of this row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from tvmrt.compiler.ir.bundle import Bundle
from tvmrt.compiler.ir.limits import check_table
from tvmrt.compiler.operator_key import operator_name
from tvmrt.error import UnsupportedError

from .operator_schemas import attribute_value

_CASTS = {
    "TO_FLOAT": TensorProto.FLOAT,
    "TO_INT64": TensorProto.INT64,
    "TO_STRING": TensorProto.STRING,
}
_OPSET = 15  # opset of a model that has only operators of ai.onnx.ml


def replace_map_inputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, Bundle]]:
    """Return the model with rows in place of its map inputs, and their bundles.

    Raises UnsupportedError for a map that the model reads in any other way.
    """
    maps = [info.name for info in model.graph.input if info.type.HasField("map_type")]
    if not maps:
        return model, {}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if not any(each.domain in ("", "ai.onnx") for each in copy.opset_import):
        copy.opset_import.append(helper.make_opsetid("", _OPSET))
    bundles = {}
    for info in copy.graph.input:
        if info.name in maps:
            bundles[info.name] = _replace(info, copy.graph.node)
    return copy, bundles


def _replace(info: onnx.ValueInfoProto, nodes: Sequence[onnx.NodeProto]) -> Bundle:
    """Turn a map input into a row, and its consumers into casts."""
    name, kind = info.name, info.type.map_type.value_type.tensor_type.elem_type
    readers = [node for node in nodes if name in node.input]
    key_lists = {_keys(name, node) for node in readers}
    if len(key_lists) != 1:
        raise UnsupportedError(
            f"input {name} is a map that "
            + ("nothing reads" if not key_lists else "its consumers use with different keys")
        )
    keys = key_lists.pop()
    info.CopyFrom(helper.make_tensor_value_info(name, kind, [1, len(keys)]))
    texts = kind == TensorProto.STRING
    row_type = "object" if texts else helper.tensor_dtype_to_np_dtype(kind).name
    zero = "0" if any(operator_name(node) == "ai.onnx.ml::CastMap" for node in readers) else ""
    for node in readers:
        to = _CASTS[_attributes(node).get("cast_to", "TO_FLOAT")]
        to = kind if operator_name(node) == "ai.onnx.ml::DictVectorizer" else to
        node.CopyFrom(helper.make_node("Cast", [name], list(node.output), node.name, to=to))
    return Bundle((name,), False, keys=keys, row_type=row_type, lacking=zero if texts else 0)


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: attribute_value(attribute) for attribute in node.attribute}


def _keys(name: str, node: onnx.NodeProto) -> tuple[int | str, ...]:
    """Return the keys whose values a node reads."""
    given, operator = _attributes(node), operator_name(node)
    if operator == "ai.onnx.ml::DictVectorizer":
        return tuple(given.get("string_vocabulary") or given.get("int64_vocabulary", ()))
    if operator != "ai.onnx.ml::CastMap" or given.get("map_form", "DENSE") != "SPARSE":
        raise UnsupportedError(
            f"input {name} is a map, and {node.op_type} ({node.name or 'without a name'}) reads "
            "an unknown number of its values; only values of known keys are supported: "
            "DictVectorizer, or CastMap with map_form SPARSE"
        )
    length = given.get("max_map", 1)
    check_table(length, f"the map {name}")
    return tuple(range(length))
