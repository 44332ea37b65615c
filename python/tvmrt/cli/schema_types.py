"""Building blocks of JSON Schemas: types and records, each with a description."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


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
