"""JSON Schema (draft 2020-12) of the region text that devices receive."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.ir import IR_VERSION

Schema = dict[str, Any]


def _list(of: Schema, text: str) -> Schema:
    return {"type": "array", "items": of, "description": text}


def _object(text: str, required: str, **members: Schema) -> Schema:
    return {
        "type": "object",
        "description": f"{text} Readers ignore unknown members.",
        "properties": members,
        "required": required.split(),
    }


_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBERS = {"type": "array", "items": {"type": "number"}}

TENSOR = _object(
    "A tensor; with `offset` a constant.",
    "name dtype shape",
    name={"type": "string"},
    dtype={"type": "string"},
    shape=_list(_COUNT, "Dimensions; upper bounds of the dynamic ones."),
    least=_list(_COUNT, "Lower bounds, if there are dynamic dimensions."),
    extents=_list({"type": "string"}, "Postfix expressions of the dimensions of a run."),
    offset={
        "type": "integer",
        "minimum": 0,
        "multipleOf": 64,
        "description": "Offset in the constants.",
    },
    bytes=_COUNT,
)
TENSOR["dependentRequired"] = {"offset": ["bytes"], "bytes": ["offset"]}

NODE = _object(
    "An operator; the operator reference describes it.",
    "op name inputs outputs attrs",
    op={"type": "string"},
    name={"type": "string", "description": "Names of the ONNX nodes."},
    inputs=_list({"type": "integer", "minimum": -1}, "Indices into tensors; -1: omitted."),
    outputs=_list(_COUNT, "Indices into tensors."),
    attrs={
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": ["number", "string"]}, _NUMBERS]},
    },
)

REGION = _object(
    "A region.",
    "symbol name ir_version tensors nodes inputs outputs",
    symbol={"type": "string"},
    name={"type": "string"},
    ir_version={
        "type": "integer",
        "minimum": 1,
        "description": f"Version of the operators; currently {IR_VERSION}.",
    },
    tensors=_list(TENSOR, ""),
    nodes=_list(NODE, "In execution order."),
    inputs=_list(_COUNT, "Indices of input tensors, in the order of arguments."),
    outputs=_list(_COUNT, "Indices of output tensors, in the order of arguments."),
    sizes=_list(
        {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2},
        "Lower and upper bound of each dynamic size.",
    ),
)

SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "tvmrt-regions/1",
    **_object(
        "Text of a module of kind device_region.",
        "format version device device_version regions",
        format={"const": "tvmrt-regions"},
        version={"const": 1},
        device={"type": "string"},
        device_version=_COUNT,
        options={"type": "object"},
        fallback={"const": 1},
        regions=_list(REGION, ""),
    ),
}
