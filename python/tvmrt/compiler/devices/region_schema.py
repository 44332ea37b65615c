"""The JSON Schema (draft 2020-12) of the text that devices get: a module's, and each region's."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.ir import IR_VERSION

Schema = dict[str, Any]


def _list(of: Schema, text: str) -> Schema:
    return {"type": "array", "items": of, "description": text}


def _object(text: str, required: str, **members: Schema) -> Schema:
    return {
        "type": "object",
        "description": f"{text} Readers skip members that they do not know.",
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
    shape=_list(_COUNT, "Extents; where a run chooses some, their most."),
    least=_list(_COUNT, "The least of them, where a run chooses some."),
    extents=_list({"type": "string"}, "Expressions in postfix notation that give those of a run."),
    offset={"type": "integer", "minimum": 0, "multipleOf": 64, "description": "In the constants."},
    bytes=_COUNT,
)
TENSOR["dependentRequired"] = {"offset": ["bytes"], "bytes": ["offset"]}

NODE = _object(
    "An operator of that name in the reference of operators.",
    "op name inputs outputs attrs",
    op={"type": "string"},
    name={"type": "string", "description": "Of the ONNX nodes that it stands for."},
    inputs=_list({"type": "integer", "minimum": -1}, "Numbers of tensors; -1: left out."),
    outputs=_list(_COUNT, "Numbers of tensors."),
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
        "description": f"Of the operators; today's are {IR_VERSION}.",
    },
    tensors=_list(TENSOR, ""),
    nodes=_list(NODE, "In an order in which they can run."),
    inputs=_list(_COUNT, "Numbers of tensors, in the order of the region's function."),
    outputs=_list(_COUNT, "The same of what it writes."),
    sizes=_list(
        {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2},
        "The least and the most of each size that a run chooses.",
    ),
)

SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "tvmrt-regions/1",
    **_object(
        "The text of a module of kind device_region.",
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
