"""Inputs whose value is fixed when the network is compiled (option ``values``).

An axis, or a shape whose rank is unknown, changes what a node computes, so it must be known before
the run. A fixed input stays an input of the network, and each run checks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.ir import Builder, Value, constant
from tvmrt.error import NameNotFoundError, UnsupportedError, suggestion
from tvmrt.option_syntax import Unquoted, option

from .import_state import ImportRequest

NodeContext = Any  # of ``context``, which imports this module


def with_values(request: ImportRequest, values: Mapping[str, int | Sequence[int]]) -> ImportRequest:
    """Return the request with the values of some inputs, and with the shapes that they imply.
    Raises KeyError for an unknown input and ValueError for a value that does not fit."""
    infos = {info.name: info for info in request.model.graph.input}
    shapes, arrays = dict(request.shapes), {}
    for name, value in values.items():
        if name not in infos:
            raise NameNotFoundError(
                f"{option('values', {name: value})}: the network has no input {name}; "
                + suggestion(name, list(infos))
            )
        arrays[name] = _array(infos[name], name, value)
        if not _is_fixed(infos[name]):
            shapes.setdefault(name, arrays[name].shape)
    return replace(request, shapes=shapes, values=arrays)


def _array(info: onnx.ValueInfoProto, name: str, value: int | Sequence[int]) -> np.ndarray:
    """Return the value with the input's element type and shape; a number is a list of one, too."""
    tensor, array = info.type.tensor_type, np.asarray(value, np.int64)
    code = tensor.elem_type
    kind = onnx.helper.tensor_dtype_to_np_dtype(code) if code else np.dtype(object)
    text = option("values", {name: value})
    if kind.kind not in "iu":
        raise ValueError(
            f"{text}: input {name} has elements of type {kind}; only inputs of whole numbers can "
            "have a fixed value"
        )
    if not np.array_equal(array.astype(kind), array):
        raise ValueError(f"{text}: input {name} has elements of type {kind}; give numbers in it")
    if _is_fixed(info):
        shape = [d.dim_value for d in tensor.shape.dim]
        if array.size != np.prod(shape):
            raise ValueError(f"{text}: input {name} has shape {shape}; give as many numbers")
        return array.astype(kind).reshape(shape)
    return array.astype(kind).reshape(-1)


def _is_fixed(info: onnx.ValueInfoProto) -> bool:
    tensor = info.type.tensor_type
    return tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)


def fix_value(builder: Builder, value: Value, known: np.ndarray) -> Value:
    """Return the value of an input as a constant; a run with another one ends with an error."""
    name, numbers = value.name, known.reshape(-1).tolist()
    flat = builder.emit("reshape", [value], name, shape=(known.size,))
    flat = builder.emit("cast", [flat], name, to="int64")
    text = f"the fixed value [{', '.join(map(str, numbers))}]"
    builder.emit(
        "require", [flat, flat], name,
        expected=tuple(numbers), where=f"input '{name}'", text=text,
    )  # fmt: skip
    return constant(known, name)


def unknown_operand(ctx: NodeContext, value: Value, operand: str, advice: str = "") -> Exception:
    """Return the error about an operand that is computed at run time, with what to do about it."""
    names = _inputs_of(ctx, value)
    if names:
        example = option("values", {name: Unquoted("VALUE") for name in names})
        advice += f", or fix its value with {example}"
    return UnsupportedError(f"{operand} is computed at run time; make it a constant{advice}")


def declare_result() -> str:
    """Return the advice to declare the shape of a result."""
    return (
        ", or declare the shape of the result with numbers or with names that "
        f"{option('dims')} bounds"
    )


def _inputs_of(ctx: NodeContext, value: Value) -> list[str]:
    """Return the inputs of the network that determine a value, if each is a number or a list of
    whole numbers."""
    found: dict[str, bool] = {}
    pending, seen = [value], set()
    while pending:
        each = pending.pop()
        if each.data is not None or each in seen:
            continue
        seen.add(each)
        if each.producer is not None:
            pending += [v for v in each.producer.inputs if v is not None]
        else:
            type = ctx.importer.declarations.inputs.get(each.name)
            found[each.name] = type is not None and type.dtype.is_int and type.rank <= 1
    return sorted(found) if all(found.values()) else []
