"""Building blocks of JSON Schemas: types, records and dataclasses, each with a description."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

from tvmrt.plugin import resolve

Schema = dict[str, Any]
VERSION = 1
_SIZE = re.compile(r"bytes$|^offset$|^size$")
_TIME = re.compile(r"seconds$|^speed|^(median|fastest|least|geometric_mean)$")


def tag(name: str) -> str:
    """Return the value of the member ``schema`` of an output."""
    return f"tvmrt/{name}/{VERSION}"


def of(owner: Any, text: str = "", /, **members: Schema) -> Schema:
    """Return the record of a dataclass, which is given as such or as ``module:name``.

    Its fields have the types of their annotations, and the descriptions of the docstring's
    sentences ````field``: text.``. ``members`` replaces and adds members, as ``record`` takes them.
    Raises TypeError for an annotation that has no schema.
    """
    owner = resolve(owner) if isinstance(owner, str) else owner
    words = iter(re.split(r"``(\w+)``: ", " ".join((inspect.getdoc(owner) or "").split()))[1:])
    texts = {name: text.strip() for name, text in zip(words, words)}
    own = {}
    for field in fields(owner):
        key = f"{field.name}_" if f"{field.name}_" in members else field.name
        own[key] = members.get(key) or described(_typed(owner, field), texts.get(field.name, ""))
    return record(text, **{**own, **members})


def _typed(owner: type, field: Field[Any]) -> Schema:
    kind = field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
    names = vars(sys.modules[owner.__module__])
    try:
        return _annotated(field.name, ast.parse(kind, mode="eval").body, names)
    except LookupError as error:
        text = f"{owner.__qualname__}.{field.name}: {kind} has no schema"
        raise TypeError(text) from error


def _annotated(name: str, node: ast.expr, names: Mapping[str, Any]) -> Schema:
    """Return the schema of an annotation, which this Python may be too old to evaluate."""
    if isinstance(node, ast.BinOp):
        return {"anyOf": [_annotated(name, side, names) for side in (node.left, node.right)]}
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if ast.unparse(node.value) in ("dict", "Mapping"):
            return by_name(_annotated(name, inner[1], names))
        return list_of(_annotated(name, inner[0], names))
    simple = {
        "None": {"type": "null"}, "str": text(), "bool": flag(),
        "int": size() if _SIZE.search(name) else integer(),
        "float": seconds() if _TIME.search(name) else number(),
    }  # fmt: skip
    kind = ast.unparse(node)
    if kind not in simple and not is_dataclass(names.get(kind)):
        raise LookupError(kind)
    return simple.get(kind) or of(names[kind])


def described(of: Schema, text: str) -> Schema:
    """Return a schema with a description."""
    return {**of, "description": text} if text else of


def list_of(of: Schema, text: str = "") -> Schema:
    """Return the schema of a list."""
    return described({"type": "array", "items": of}, text)


def by_name(of: Schema, text: str = "") -> Schema:
    """Return the schema of an object with arbitrary names."""
    return described({"type": "object", "additionalProperties": of}, text)


def or_null(of: Schema, text: str = "") -> Schema:
    """Return a schema that also allows null."""
    return described({"anyOf": [of, {"type": "null"}]}, text)


def record(text: str = "", /, open: bool = False, **members: Schema) -> Schema:
    """Return an object; names ending in ``_`` are optional, ``open`` allows further members."""
    return described(
        {
            "type": "object",
            "properties": {name.rstrip("_"): member for name, member in members.items()},
            "required": [name for name in members if not name.endswith("_")],
            "additionalProperties": open,
        },
        text,
    )


def text(text: str = "") -> Schema:
    """Return the schema of a string."""
    return described({"type": "string"}, text)


def integer(text: str = "") -> Schema:
    """Return the schema of an integer."""
    return described({"type": "integer"}, text)


def size(text: str = "") -> Schema:
    """Return the schema of a number of bytes."""
    return described({"type": "integer", "minimum": 0}, text)


def flag(text: str = "") -> Schema:
    """Return the schema of true or false."""
    return described({"type": "boolean"}, text)


def number(text: str = "") -> Schema:
    """Return the schema of a number; NaN and infinities are strings."""
    words = {"enum": ["NaN", "Infinity", "-Infinity"]}
    return described({"anyOf": [{"type": "number"}, words]}, text)


def seconds(text: str = "") -> Schema:
    """Return the schema of a time in seconds."""
    return described({"type": "number", "minimum": 0}, text)
