"""Mutate networks: one to three changes to the fields of the protobuf messages."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

# Boundary values of extents, axes, indices and counts.
INTEGERS = [
    0, 1, -1, 2, 3, -2, 7, 255, 65536, 1000000, 2**31 - 1, -(2**31), 2**31, 2**32, -(2**40), 2**62,
    2**63 - 1, -(2**63),
]  # fmt: skip
FLOATS = [0.0, 1.0, -1.0, 0.5, 3.0, float("nan"), float("inf"), -float("inf"), 1e38, 1e-40]
NAMES = [
    "", "a", "int", "main", "NULL", "default", "if", '*/ system("x"); /*', "x\ny", '"', "'", "\\",
    "??/", "a b", "é", "\u202e", "%s%n", "$(id)", "a/b", "</svg>", "A" * 5000, "linear", "reflect",
    "SAME_UPPER", "bilinear", "sum", "add",
]  # fmt: skip
OPSETS = [-1, 0, 1, 7, 9, 11, 13, 17, 18, 21, 23, 99]
UNREAD = {"doc_string", "producer_name", "producer_version", "metadata_props", "model_version"}
FLOAT_TYPES = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16]
TYPES = [
    *FLOAT_TYPES, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.INT32,
    TensorProto.INT64, TensorProto.UINT32, TensorProto.BOOL, TensorProto.STRING,
]  # fmt: skip

# Exceptions of impossible changes, for example of a tensor that was changed before.
CANNOT = (TypeError, ValueError, KeyError, AttributeError, NotImplementedError, OverflowError)

Field = tuple[Any, Any]  # a message, and the descriptor of one of its fields


def mutant(whole: bytes, source: random.Random) -> onnx.ModelProto:
    """Return a copy of a network with one to three changes."""
    model = onnx.ModelProto.FromString(whole)
    for _ in range(source.choice([1, 1, 1, 2, 3])):
        change = source.choices(_CHANGES, _WEIGHTS)[0]
        with suppress(*CANNOT):
            change(model, source)
    return model


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if repeated is None else bool(repeated)


def _fields(message: Any, into: list[Field]) -> list[Field]:
    """Collect every field that is set in a message and its submessages."""
    for field, value in message.ListFields():
        if field.name in UNREAD:
            continue
        into.append((message, field))
        if field.message_type:
            for part in value if _is_repeated(field) else [value]:
                _fields(part, into)
    return into


def _change_field(model: onnx.ModelProto, source: random.Random) -> None:
    """Clear a field, or set another value."""
    fields = _fields(model, [])
    if not fields:
        return
    message, field = source.choice(fields)
    if source.random() < 0.15:
        message.ClearField(field.name)
    elif _is_repeated(field):
        _change_list(getattr(message, field.name), field, model, source)
    elif not field.message_type:
        setattr(message, field.name, _value(field, getattr(message, field.name), model, source))


def _change_list(values: Any, field: Any, model: onnx.ModelProto, source: random.Random) -> None:
    """Remove, exchange, duplicate or change an element."""
    if not values:
        return
    i, j, how = source.randrange(len(values)), source.randrange(len(values)), source.randrange(4)
    if how == 0:
        del values[i]
    elif how == 1:
        _exchange(values, i, j)
    elif how == 2:
        (values.add().CopyFrom if field.message_type else values.append)(values[i])
    elif not field.message_type:
        values[i] = _value(field, values[i], model, source)


def _exchange(values: Any, i: int, j: int) -> None:
    if not hasattr(values, "add"):
        values[i], values[j] = values[j], values[i]
        return
    kept = type(values[i])()
    kept.CopyFrom(values[i])
    values[i].CopyFrom(values[j])
    values[j].CopyFrom(kept)


def _value(field: Any, old: Any, model: onnx.ModelProto, source: random.Random) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        return _bytes(old, source) if isinstance(old, bytes) else _name(model, source)
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return source.choice(FLOATS)
    if kind == field.CPPTYPE_ENUM:
        return source.choice(field.enum_type.values).number
    return _within(field, source.choice([*INTEGERS, old + 1, old - 1, old * 2]))


def _within(field: Any, value: int) -> int:
    bits = 31 if _is_narrow(field) else 63
    low = 0 if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else -(2**bits)
    return max(low, min(2**bits - 1, value))


def _is_narrow(field: Any) -> bool:
    return field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32)


def _bytes(old: bytes, source: random.Random) -> bytes:
    how = source.randrange(4)
    if how == 0:
        return old[: source.randrange(len(old) + 1)]
    if how == 1:
        return old + b"\xff" * source.choice([1, 4, 8])
    out = bytearray(old)
    for _ in range(min(4, len(out))):
        out[source.randrange(len(out))] = source.randrange(256)
    return bytes(out)


def _name(model: onnx.ModelProto, source: random.Random) -> str:
    nodes = model.graph.node
    known = [name for node in nodes for name in (*node.input, *node.output, node.op_type)]
    return source.choice([*known, *(i.name for i in model.graph.input), *NAMES])


def _node(model: onnx.ModelProto, source: random.Random) -> onnx.NodeProto | None:
    return source.choice(model.graph.node) if model.graph.node else None


def _change_operand(model: onnx.ModelProto, source: random.Random) -> None:
    """Omit an operand, replace it by another tensor, or append one."""
    node = _node(model, source)
    if node is None:
        return
    tensors = [t.name for t in (*model.graph.input, *model.graph.initializer)] + [""]
    if source.random() < 0.2 or not node.input:
        node.input.append(source.choice(tensors))
    else:
        node.input[source.randrange(len(node.input))] = source.choice(tensors)


def _set_attribute(model: onnx.ModelProto, source: random.Random) -> None:
    """Set an attribute of the operator to any value of its type."""
    node = _node(model, source)
    if node is None or not defs.has(node.op_type, node.domain):
        return
    known = list(defs.get_schema(node.op_type, domain=node.domain).attributes.values())
    if not known:
        return
    wanted = source.choice(known)
    kept = [each for each in node.attribute if each.name != wanted.name]
    value = _attribute_value(wanted, source)
    if value is not None:
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(wanted.name, value)])


def _attribute_value(wanted: Any, source: random.Random) -> Any:
    small = [-2, -1, 0, 1, 2, 3, 4]
    integers = small * 3 + INTEGERS
    kind = int(wanted.type.value)
    if kind == AttributeProto.INT:
        return source.choice(integers)
    if kind == AttributeProto.INTS:
        return [source.choice(integers) for _ in range(source.randint(1, 5))]
    if kind == AttributeProto.FLOAT:
        return source.choice(FLOATS)
    if kind == AttributeProto.FLOATS:
        return [source.choice(FLOATS) for _ in range(source.randint(1, 4))]
    return source.choice(NAMES) if kind == AttributeProto.STRING else None


def _change_numbers(model: onnx.ModelProto, source: random.Random) -> None:
    """Change one element of a constant: shapes, axes, scales, indices."""
    if not model.graph.initializer:
        return
    tensor = source.choice(model.graph.initializer)
    array = numpy_helper.to_array(tensor).copy()
    if array.size == 0 or array.dtype.kind not in "iuf":
        return
    at = source.randrange(array.size)
    array.reshape(-1)[at] = _number(array.dtype, source)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _number(dtype: np.dtype, source: random.Random) -> Any:
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(source.choice(FLOATS)).astype(dtype)
    limits = np.iinfo(dtype)
    value = source.choice([*INTEGERS, *range(-3, 6)])
    return min(max(value, int(limits.min)), int(limits.max))


def _change_extent(model: onnx.ModelProto, source: random.Random) -> None:
    """Change one extent of an input, or its rank."""
    if not model.graph.input:
        return
    dims = source.choice(model.graph.input).type.tensor_type.shape.dim
    if not dims or source.random() < 0.15:
        dims.add().dim_value = source.choice([0, 1, 2, 3])
    elif source.random() < 0.15:
        del dims[source.randrange(len(dims))]
    else:
        source.choice(dims).dim_value = source.choice([0, 1, 2, 3, 5, 8, 17, *INTEGERS])


def _change_types(model: onnx.ModelProto, source: random.Random) -> None:
    """Replace an element type by another one, everywhere."""
    infos = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    kinds = [each.type.tensor_type for each in infos]
    if not kinds:
        return
    old, new = source.choice(kinds).elem_type, source.choice(TYPES)
    for kind in kinds:
        if kind.elem_type == old:
            kind.elem_type = new
    for tensor in model.graph.initializer:
        _retype(tensor, old, new)


def _retype(tensor: onnx.TensorProto, old: int, new: int) -> None:
    if tensor.data_type != old or TensorProto.STRING in (old, new):
        return
    array = numpy_helper.to_array(tensor)
    with np.errstate(all="ignore"):
        array = array.astype(helper.tensor_dtype_to_np_dtype(new))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _change_operator(model: onnx.ModelProto, source: random.Random) -> None:
    node = _node(model, source)
    if node is not None:
        node.op_type = source.choice(_OPERATORS)


def _change_opset(model: onnx.ModelProto, source: random.Random) -> None:
    if model.opset_import:
        source.choice(model.opset_import).version = source.choice(OPSETS)


def _make_input_constant(model: onnx.ModelProto, source: random.Random) -> None:
    """Turn an input into a constant of the same type, or a constant into an input."""
    graph = model.graph
    if graph.initializer and source.random() < 0.5:
        tensor = source.choice(graph.initializer)
        info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        if all(each.name != tensor.name for each in graph.input):
            graph.input.append(info)
        graph.initializer.remove(tensor)
    elif graph.input:
        _fix(graph, source.choice(graph.input), source)


def _fix(graph: onnx.GraphProto, info: onnx.ValueInfoProto, source: random.Random) -> None:
    kind = info.type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    if any(not 0 <= extent <= 64 for extent in shape) or len(shape) > 5:
        return
    numbers = np.random.default_rng(source.randrange(2**32)).integers(-2, 3, shape)
    array = numbers.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    tensor = numpy_helper.from_array(array, info.name)
    graph.initializer.append(tensor)
    graph.input.remove(info)


_OPERATORS = sorted({schema.name for schema in defs.get_all_schemas() if schema.domain == ""})
Change = Callable[[onnx.ModelProto, random.Random], None]
_CHANGES: list[Change] = [
    _change_field, _change_operand, _set_attribute, _change_numbers, _change_extent, _change_types,
    _change_operator, _change_opset, _make_input_constant,
]  # fmt: skip
_WEIGHTS = [6, 2, 4, 3, 2, 2, 1, 1, 2]
