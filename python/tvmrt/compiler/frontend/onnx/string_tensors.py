"""Strings that are inputs of a run or computed by it.

In the graph a string is an int64 handle, so nodes that only move or select strings are imported as
for numbers; the type of a tensor of handles is ``STRING``. Compile-time strings stay indices into a
string table as long as that is sufficient, see ``string_table``. Operators that read or create the
text of strings are imported by a plug-in, in the hook ``strings``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx

from tvmrt import plugin
from tvmrt.compiler.ir import Builder, Value, constant
from tvmrt.compiler.operator_key import domain_of, operator_name
from tvmrt.error import UnsupportedError

from .import_state import ImportState
from .legalize_types import LOOKUP_OPERATORS, passes_through, table_of
from .operator_schemas import find_schema, formal_parameter
from .registry import Importer, find, onnx_op
from .tensors import nodes

_STRING = "tensor(string)"
# Operators that support strings in their importers, or only move them; and those that create
# strings. string_op adds more.
_SUPPORTED = {
    ("", name)
    for name in (
        "Cast CenterCropPad Compress Concat DepthToSpace Equal Expand Flatten Gather "
        "GatherElements GatherND Identity Pad Reshape ReverseSequence Scatter ScatterElements "
        "ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where"
    ).split()
}
_CREATORS: set[tuple[str, str]] = set()


def string_op(
    *names: str, domain: str = "", creates_strings: bool = False
) -> Callable[[Importer], Importer]:
    """Decorator: register an importer of these operators, whose operands may be strings.

    ``creates_strings``: whether their results are strings that take memory.
    """
    keys = [(domain, name) for name in names]
    _SUPPORTED.update(keys)
    if creates_strings:
        _CREATORS.update(keys)
    return onnx_op(*names, domain=domain)


def reserve(state: ImportState) -> None:
    """Reserve memory for strings in the network's first node, if any node creates strings."""
    if any(map(_creates_strings, nodes(state.request.model))):
        text_operators().reserve(state)


def text_operators() -> Any:
    """Return the module of a plug-in that imports Cast and Equal of strings. Raises
    UnsupportedError if there is none."""
    try:
        return plugin.hook("strings", "reading the text of strings")
    except ImportError as problem:
        raise UnsupportedError(str(problem)) from problem


def is_string(value: object) -> bool:
    """Return whether a value is a tensor of strings: handles or indices into a string table."""
    return isinstance(value, Value) and value.type.is_string


def is_text(value: object) -> bool:
    """Return whether a value is a tensor of string handles."""
    return is_string(value) and table_of(value) is None


def to_handles(builder: Builder, value: Value) -> Value:
    """Convert string table indices to string handles; other values are returned unchanged."""
    names = table_of(value)
    if names is None:
        return value
    check_no_nul(names)
    table = builder.emit("texts", [], "texts", values=names, shape=(len(names),))
    if value.data is not None:
        value = constant(value.data, f"{value.name}_places")
    return builder.emit("gather", [table, value], value.name, axis=0)


def prepare_inputs(
    state: ImportState, node: onnx.NodeProto, opset: int, inputs: Sequence[Value | None]
) -> list[Value | None]:
    """Return the inputs as the node's importer expects them. Raises UnsupportedError if the
    operator does not support strings."""
    strings = [i for i, value in enumerate(inputs) if is_string(value)]
    if not strings or state.functions.find(node):
        return list(inputs)
    if node.domain == "ai.onnx.ml" and node.op_type in LOOKUP_OPERATORS:
        return list(inputs)
    if strings == [0] and not is_text(inputs[0]) and passes_through(node.domain, node.op_type):
        return list(inputs)
    definition = find_schema(node.op_type, opset, node.domain)
    if not all(_supports_strings(node, definition, i) for i in strings):
        raise UnsupportedError("it handles strings; do that before or after the network")
    return [to_handles(state.builder, v) if i in strings else v for i, v in enumerate(inputs)]


def _creates_strings(node: onnx.NodeProto) -> bool:
    """Return whether a node may create strings."""
    to = [a.i for a in node.attribute if a.name == "to"]
    cast = operator_name(node) == "Cast" and to == [onnx.TensorProto.STRING]
    return cast or _key(node) in _CREATORS


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    """Return the key of the node's operator, and load its importer if there is one."""
    find(node.domain, node.op_type)
    return domain_of(node.domain), node.op_type


def _supports_strings(
    node: onnx.NodeProto, definition: onnx.defs.OpSchema | None, index: int
) -> bool:
    """Whether an operator supports strings: handles cannot be sorted, summed up or compared with
    0."""
    key = _key(node)
    if key not in _SUPPORTED:
        return False
    if definition is None:
        return bool(key[0])  # a domain that the onnx package does not know
    rule = formal_parameter(definition.inputs, index)
    reductions = [a.s for a in node.attribute if a.name == "reduction"]
    return rule is not None and _STRING in rule.types and reductions in ([], [b"none"])


def check_no_nul(texts: Sequence[str]) -> None:
    """Raise UnsupportedError for NUL characters, which end strings in C."""
    if any("\0" in text for text in texts):
        raise UnsupportedError("a string contains a NUL character, which is not supported")
